"""The command line around the commands: help, errors, exit codes, pipes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cctrace import __version__
from cctrace.cli import COMMANDS


def test_help_lists_every_command(cctrace) -> None:
    done = cctrace.run("--help")
    assert done.returncode == 0
    for name in COMMANDS:
        assert f" {name} " in done.stdout
    assert cctrace.run().stdout == done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(in_process, name: str) -> None:
    done = in_process(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"cctrace {name}" in done.stdout


def test_help_loads_nothing_heavy(environment: dict[str, str]) -> None:
    code = (
        "import sys; from cctrace.cli import build_app; build_app();"
        "print(sorted({'numpy', 'pandas', 'pyarrow', 'pynvml', 'jsonschema', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd="/", env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_version(in_process) -> None:
    assert in_process("--version").stdout == f"cctrace {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nonsense",), "No such command"),
        (("info", "--nonsense"), "cctrace info --help"),
        (("info",), "--fields"),
        (("recover",), "SPOOLDIR"),
        (("record",), "CMD"),
        (("record", "--"), "CMD"),
        (("info", "no-such-file.parquet"), "no-such-file.parquet"),
        (("record", "--steps", "many", "--", "true"), "--steps"),
        (("info", "x" * 5000), "File name too long"),
        (("calibrate", "--cc", "maybe"), "'--cc': 'maybe' is not one of"),
        (("calibrate", "--device", "first"), "give the number of a GPU, or all"),
        (("calibrate", "--device", "9" * 5000), "give the number of a GPU, or all"),
    ],
)
def test_errors_are_one_line_and_exit_2(in_process, arguments: tuple[str, ...], said: str) -> None:
    done = in_process(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("cctrace: ")
    assert said in line


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(1000) + b"PAR1", b"a,b\n1,2\n"])
def test_files_that_are_no_trace(in_process, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.parquet").write_bytes(content)
    done = in_process("info", "x.parquet")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "x.parquet" in line


def test_tracebacks_on_request(cctrace) -> None:
    assert "Traceback" in cctrace.run("--debug", "info", "none.parquet").stderr
    assert "Traceback" in cctrace.run("info", "none.parquet", CCTRACE_DEBUG="1").stderr
    assert "Traceback" not in cctrace.run("info", "none.parquet", CCTRACE_DEBUG="0").stderr


def test_a_crash_of_our_own_leaves_a_traceback(environment: dict[str, str]) -> None:
    program = (
        "import os, signal, cctrace.cli as cli\n"
        "cli.build_app = lambda: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in done.stderr
    assert "cli.py" in done.stderr


def test_a_closed_pipe_is_no_error(cctrace) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        cctrace.argv("info", "--fields"),
        env=cctrace.environment,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    assert done.stderr == ""
    assert done.returncode in (0, 1)


def test_settable_fields(in_process) -> None:
    fields = json.loads(in_process("info", "--fields", "--json").stdout)
    assert {"model.precision", "parallelism.tp", "security.nvlink_encryption", "label"} <= set(fields)
    assert "parallelism.tp" in in_process("info", "--fields").stdout


def test_info(cctrace) -> None:
    cctrace.record(
        "--label",
        "first",
        "--emulate",
        "b200-tdx",
        "--set",
        "security.cc_mode=off",
        program=("--calls", "25"),
    )
    document = json.loads(cctrace.run("info", "t.parquet", "--json").stdout)
    assert document["rows"] == 25
    assert document["rows_by_kind"] == {"submit": 25}
    assert document["bytes"] == cctrace.trace.stat().st_size
    assert document["metadata"]["label"] == "first"
    text = cctrace.run("info", "t.parquet", COLUMNS="200").stdout
    for expected in (
        "This recording is emulated",
        "first",
        "fake_program.py",
        "exit code 0",
        "kernel_us=12.25",
        "25",
    ):
        assert expected in text


def test_texts_of_a_trace_cannot_steer_the_terminal(cctrace) -> None:
    assert cctrace.record("--label", "[red]x[/red]\x1b[31m evil \x07").returncode == 0
    done = cctrace.run("info", "t.parquet", COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert "[red]x[/red]" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def _doctor(cctrace, *arguments: str, **environment: str) -> tuple[int, dict]:
    done = cctrace.run("doctor", "--json", *arguments, **environment)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def _statuses(document: dict) -> dict[str, str]:
    return {check["name"]: check["status"] for check in document["checks"]}


def test_doctor_exit_code_follows_its_checks(cctrace) -> None:
    code, document = _doctor(cctrace)
    assert code == (0 if document["can_record"] else 1)
    assert document["can_record"] is ("failed" not in _statuses(document).values())
    assert {mode["name"] for mode in document["gpu_times"]} == {"none", "stamps", "graphs", "nodes"}
    assert {"cc_mode", "multi_gpu_mode", "devtools", "ready_state", "nvlink_encryption"} <= set(
        document["confidential_computing"]
    )


def test_doctor_finds_what_is_in_the_way(cctrace, tmp_path: Path, any_library: Path) -> None:
    hook = tmp_path / "libvgpu.so"
    hook.symlink_to(any_library)
    code, document = _doctor(
        cctrace,
        CCTRACE_LIBRARY=str(tmp_path / "none.so"),
        CUDA_INJECTION64_PATH="/nsys.so",
        NVTX_INJECTION64_PATH="/nsys.so",
        LD_PRELOAD=str(hook),
    )
    assert code == 1
    statuses = _statuses(document)
    assert statuses["native collector"] == "failed"
    assert statuses["CUDA_INJECTION64_PATH"] == "warning"
    assert statuses["NVTX_INJECTION64_PATH"] == "warning"
    assert statuses["LD_PRELOAD"] == "warning"
    assert {mode["works"] for mode in document["gpu_times"]} == {"no"}


def test_doctor_prints_a_table(cctrace) -> None:
    done = cctrace.run("doctor", COLUMNS="200")
    for expected in ("CC mode", "NVLink encryption", "native collector", "--gpu nodes"):
        assert expected in done.stdout
