"""`cctrace record` as a user runs it, with a stand-in for the recorded program and the collector."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cctrace.trace.metadata import Metadata
from cctrace.trace.reader import open_trace


def _metadata(path: Path) -> Metadata:
    return open_trace(path).metadata


def _calls(path: Path) -> int:
    return sum(kind == "submit" for kind in pq.read_table(path, columns=["kind"]).column("kind").to_pylist())


def test_a_run(cctrace) -> None:
    done = cctrace.record("--label", "first", "--set", "model.precision=nvfp4", program=("--calls", "25"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert _calls(cctrace.trace) == 25
    assert cctrace.spools() == [], "the spool goes when the trace is in place"
    metadata = _metadata(cctrace.trace)
    assert metadata.label == "first"
    assert metadata.acceptance.model.precision == "nvfp4"
    assert metadata.acceptance.software.python == ".".join(map(str, sys.version_info[:3]))
    assert metadata.recording.exit_code == 0
    assert metadata.recording.exit_signal is None
    assert metadata.recording.start_ns < metadata.recording.stop_ns
    assert metadata.collector.gpu_mode == "stamps"
    assert metadata.collector.timing == "undisturbed"
    assert metadata.labels == ()
    assert len(metadata.clock.pairs) >= 2
    assert {"start", "end", "counters"} <= set(metadata.extra["environment"])


@pytest.mark.parametrize("code", [1, 3, 127, 255])
def test_exit_code_is_that_of_the_command(cctrace, code: int) -> None:
    assert cctrace.record(program=("--exit", str(code))).returncode == code
    assert _metadata(cctrace.trace).recording.exit_code == code


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1]
)
def test_the_recorder_ends_by_the_signal_that_ended_the_command(cctrace, number: int) -> None:
    done = cctrace.record(program=("--die", str(int(number))))
    assert done.returncode == -number
    metadata = _metadata(cctrace.trace)
    assert metadata.recording.exit_signal == number
    assert metadata.recording.exit_code is None
    assert _calls(cctrace.trace) == 10
    assert not list(cctrace.folder.glob("core*"))


def test_input_and_output_pass_through(cctrace) -> None:
    done = subprocess.run(
        cctrace.argv("record", "-o", "t.parquet", "--", "sh", "-c", "tr a-z A-Z; echo oops >&2"),
        cwd=cctrace.folder,
        env=cctrace.environment,
        input="hello",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "HELLO"
    assert done.stderr.splitlines()[0] == "oops"


def test_extra_file_descriptors_pass_through(cctrace) -> None:
    read_end, write_end = os.pipe()
    code = f"import os; os.write({write_end}, b'through')"
    done = subprocess.run(
        cctrace.argv("record", "-o", "t.parquet", "--", sys.executable, "-c", code),
        cwd=cctrace.folder,
        env=cctrace.environment,
        pass_fds=[write_end],
        capture_output=True,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    with os.fdopen(read_end) as file:
        assert (done.returncode, file.read()) == (0, "through")


def test_the_program_sees_ordinary_signals(cctrace) -> None:
    """Nothing is blocked or ignored that would not be without the recorder."""

    def masks(text: str) -> dict[str, int]:
        # 32 and 33 belong to glibc: its posix_spawn ignores them, as in every program that `system` starts.
        return {
            name: int(mask, 16) & ~(3 << 31) for name, mask in (line.split(":") for line in text.splitlines())
        }

    script = "grep -E 'Sig(Blk|Ign)' /proc/self/status"
    plain = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True, env=cctrace.environment
    )
    recorded = cctrace.run("record", "-o", "t.parquet", "--", "sh", "-c", script)
    assert masks(recorded.stdout) == masks(plain.stdout)


def test_arguments_of_the_command_stay_its_own(cctrace) -> None:
    done = cctrace.run("record", "-o", "t.parquet", "echo", "--force", "--version", "-o", "x")
    assert done.stdout == "--force --version -o x\n"
    done = cctrace.run("record", "--force", "-o", "t.parquet", "--", "echo", "--", "-h")
    assert done.stdout == "-- -h\n"


def test_a_command_that_never_touches_cuda(cctrace) -> None:
    done = cctrace.record(program=("--no-cuda",))
    assert done.returncode == 0
    assert "no CUDA driver call was seen" in done.stderr
    assert open_trace(cctrace.trace).num_rows == 0


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("no-such-command-here", 127, "command not found"),
        ("./plain.txt", 126, "Permission denied"),
        (".", 126, "Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started(cctrace, command: str, code: int, said: str) -> None:
    (cctrace.folder / "plain.txt").write_text("text")
    done = cctrace.run("record", "-o", "t.parquet", "--", command)
    assert done.returncode == code
    assert done.stderr == f"cctrace: {command}: {said}\n"
    assert [path.name for path in cctrace.folder.iterdir()] == ["plain.txt"]


def test_a_script_without_interpreter_line_runs_as_in_a_shell(cctrace) -> None:
    script = cctrace.folder / "script"
    script.write_text("echo from script $1\nexit 4\n")
    script.chmod(0o755)
    done = cctrace.run("record", "-o", "t.parquet", "--", "./script", "a")
    assert (done.returncode, done.stdout) == (4, "from script a\n")


def test_an_existing_file_is_not_overwritten(cctrace) -> None:
    cctrace.trace.write_text("mine")
    done = cctrace.record()
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert "--force" in done.stderr
    assert cctrace.trace.read_text() == "mine"
    assert cctrace.record("--force").returncode == 0
    assert _calls(cctrace.trace) == 10


def test_a_file_that_appears_meanwhile_is_not_overwritten(cctrace) -> None:
    done = cctrace.run("record", "-o", "t.parquet", "--", "sh", "-c", "echo theirs > t.parquet")
    assert done.returncode == 2
    assert cctrace.trace.read_text() == "theirs\n"
    (spool,) = cctrace.spools()
    assert f"cctrace recover {spool}" in done.stderr
    assert cctrace.run("recover", str(spool), "-o", "other.parquet").returncode == 0


@pytest.mark.parametrize("output", ["missing/t.parquet", "folder"])
def test_outputs_that_cannot_be(cctrace, output: str) -> None:
    (cctrace.folder / "folder").mkdir()
    done = cctrace.record("-o", output, program=("--ready", "started"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert not (cctrace.folder / "started").exists()


def test_a_folder_that_takes_no_files(in_process) -> None:
    done = in_process("record", "-o", "/proc/t.parquet", "--", "true")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "/proc" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable(cctrace) -> None:
    folder = cctrace.folder / "closed"
    folder.mkdir(mode=0o555)
    done = cctrace.record("-o", "closed/t.parquet")
    assert (done.returncode, "not writable" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set", "model.precisoin=x"), "model.precision"),
        (("--set", "parallelism.tp=many"), "parallelism.tp"),
        (("--set", "model.precision"), "name=value"),
        (("--gpu", "everything"), "none, stamps, graphs, nodes"),
        (("--emulate", "h100-tdx:nvlink"), "NVLink is not encrypted"),
        (("--emulate", "b200-tdx", "--emulate-set", "launch.toll_us=soon"), "microseconds"),
        (("--emulate", "b300"), "b200-tdx"),
        (("--emulate-set", "kernel_us=3"), "--emulate PROFILE"),
        (("--max-bytes", "lots"), "500M"),
        (("--duration", "soon"), "30s"),
        (("--duration", "0"), "30s"),
        (("--counters-hz", "50"), "1 to 10"),
        (("--step", "a;b"), "';'"),
        (("--spool-dir", "nowhere"), "--spool-dir nowhere"),
        (("--steps", "0"), "--steps"),
    ],
)
def test_bad_options_are_found_before_the_command_starts(
    in_process, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = in_process("record", "-o", "t.parquet", *options, "--", "touch", "started")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line
    assert list(tmp_path.iterdir()) == []


def test_secrets_are_not_stored(cctrace) -> None:
    done = cctrace.record(
        program=("--api-key", "Zs3cr3tZ"),
        HF_TOKEN="Zt0kenZ", VLLM_API_KEY="Zk3yZ", VLLM_ATTENTION_BACKEND="FLASHINFER", NCCL_NET="http://me:Zp4ssZ@host",
    )  # fmt: skip
    assert done.returncode == 0
    stored = cctrace.trace.read_bytes() + _metadata(cctrace.trace).to_json().encode()
    for secret in (b"Zs3cr3tZ", b"Zt0kenZ", b"Zk3yZ", b"Zp4ssZ"):
        assert secret not in stored
    metadata = _metadata(cctrace.trace)
    assert metadata.recording.command[-2:] == ("--api-key", "<redacted>")
    assert metadata.environment_variables["VLLM_ATTENTION_BACKEND"] == "FLASHINFER"


def test_environment_of_the_program(cctrace, any_library: Path) -> None:
    other = shutil.which("ld.so") or "/lib/x86_64-linux-gnu/libdl.so.2"
    preload = other if Path(other).suffix == ".2" and Path(other).exists() else str(any_library)
    dump = cctrace.folder / "env.json"
    done = cctrace.record(
        "--step",
        "step*",
        "--emulate",
        "b200-tdx:launch,pcie",
        "--emulate-set",
        "kernel_us=3.5",
        "--emulate-set",
        "pcie.h2d_us=64:4.5/1048576:140",
        program=("--dump-env", str(dump)),
        LD_PRELOAD=preload,
        KEPT="yes",
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(dump.read_text())
    assert seen["LD_PRELOAD"] == f"{any_library}:{preload}"
    assert seen["KEPT"] == "yes"
    assert seen["CCTRACE_STEP_PATTERN"] == "step*"
    charged = seen["CCTRACE_EMULATE"].split(",")
    assert charged[:6] == [
        "kernel_us=3.5", "graph_us=12.25", "copy_us=12.25", "memset_us=12.25", "event_us=0",
        "h2d_us=64:4.5/1048576:140",
    ]  # fmt: skip
    assert "CUDA_INJECTION64_PATH" not in seen
    metadata = _metadata(cctrace.trace)
    assert metadata.labels == ("emulated",)
    assert metadata.emulation.profile == "b200-tdx"
    assert metadata.emulation.causes == ("launch", "pcie")
    assert metadata.emulation.values["kernel_us"] == 3.5
    assert metadata.emulation.values["h2d_us"] == "64:4.5/1048576:140"
    assert set(metadata.emulation.values) == {pair.split("=")[0] for pair in charged}
    assert "labelled: emulated" in done.stderr


def test_another_injection_tool(cctrace) -> None:
    done = cctrace.record("--gpu", "nodes", CUDA_INJECTION64_PATH="/opt/nsys.so")
    assert done.returncode == 2
    assert "CUDA_INJECTION64_PATH is already set" in done.stderr
    done = cctrace.record(NVTX_INJECTION64_PATH="/opt/nsys.so")
    assert done.returncode == 0
    assert "NVTX labels are not recorded" in done.stderr
    assert any("NVTX" in note for note in _metadata(cctrace.trace).collector.notes)


@pytest.mark.parametrize(
    ("state", "label", "timing"),
    [
        ("recording nodes", ("distorted",), "distorted"),
        ("refused: confidential computing (error 41)", (), "undisturbed"),
    ],
)
def test_where_cupti_works_host_times_are_labelled(
    cctrace, state: str, label: tuple[str, ...], timing: str
) -> None:
    done = cctrace.record("--gpu", "nodes", program=("--gpu-state", state))
    assert done.returncode == 0
    metadata = _metadata(cctrace.trace)
    assert (metadata.labels, metadata.collector.timing) == (label, timing)
    assert ("labelled: distorted" in done.stderr) is bool(label)


def test_the_spool_is_private_and_complete_before_the_command_starts(cctrace) -> None:
    (cctrace.folder / "spools").mkdir()
    script = 'stat -c %a "$CCTRACE_SPOOL"; ls "$CCTRACE_SPOOL"; echo "$CCTRACE_SPOOL"'
    done = cctrace.run("record", "-o", "t.parquet", "--spool-dir", "spools", "--", "sh", "-c", script)
    mode, *files, folder = done.stdout.split()
    assert mode == "700"
    assert {"control", "recording.json", "recorder.json"} <= set(files)
    assert Path(folder).parent == (cctrace.folder / "spools").resolve()
    assert list((cctrace.folder / "spools").iterdir()) == []


def test_trace_of_another_umask(cctrace) -> None:
    assert cctrace.record().returncode == 0
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(cctrace.trace.stat().st_mode) == 0o666 & ~umask


def test_collector_of_another_machine(cctrace, tmp_path: Path) -> None:
    elf = bytearray(64)
    elf[:6] = b"\x7fELF\x02\x01"
    elf[16:20] = (3).to_bytes(2, "little") + (243).to_bytes(2, "little")  # a RISC-V shared object
    foreign = tmp_path / "libforeign.so"
    foreign.write_bytes(elf)
    done = cctrace.record(CCTRACE_LIBRARY=str(foreign))
    assert done.returncode == 2
    assert "built for riscv64" in done.stderr


def test_default_output(cctrace) -> None:
    assert cctrace.run("record", "--", "true").returncode == 0
    (trace,) = cctrace.folder.iterdir()
    assert trace.name.startswith("cctrace-true-")
    assert trace.suffix == ".parquet"


def test_results_of_a_load_client(cctrace) -> None:
    results = {
        "median_ttft_ms": 31.5, "median_tpot_ms": 5.48, "output_throughput": 11137.0,
        "completed": 98, "num_prompts": 100, "max_concurrency": 64, "request_rate": "inf",
        "model_id": "Qwen3-8B",
    }  # fmt: skip
    (cctrace.folder / "bench.json").write_text(json.dumps(results))
    assert cctrace.record("--results", "bench.json", "--set", "load.concurrency=63").returncode == 0
    acceptance = _metadata(cctrace.trace).acceptance
    assert acceptance.results.ttft_ms == 31.5
    assert acceptance.results.tpot_ms == 5.48
    assert acceptance.results.output_throughput == 11137.0
    assert acceptance.results.errors == 2
    assert acceptance.load.requests == 100
    assert acceptance.load.concurrency == 63, "what was set by hand stays"
    assert acceptance.load.arrival_rate == "inf"
    assert acceptance.model.name == "Qwen3-8B"


def test_missing_results_do_not_cost_the_trace(cctrace) -> None:
    done = cctrace.record("--results", "none.json")
    assert done.returncode == 0
    assert "none.json" in done.stderr
    assert _calls(cctrace.trace) == 10


def test_windows(cctrace) -> None:
    done = cctrace.record("--steps", "7", program=("--calls", "50", "--serve", "1.2"))
    assert done.returncode == 0
    assert done.stderr.count("the window is complete (steps)") == 1
    assert _calls(cctrace.trace) == 7
    window = _metadata(cctrace.trace).recording.window
    assert window["steps"] == 7
    assert window["ended_by"] == "steps"


def test_window_of_bytes(cctrace) -> None:
    done = cctrace.record("--max-bytes", "640", program=("--calls", "50", "--serve", "1.2"))
    assert "the window is complete (max-bytes)" in done.stderr
    assert _calls(cctrace.trace) == 10


def test_window_of_time(cctrace) -> None:
    done = cctrace.record("--delay", "1500ms", "--duration", "0.4s", program=("--calls", "5", "--serve", "3"))
    assert done.returncode == 0
    assert "the window is complete (duration)" in done.stderr
    metadata = _metadata(cctrace.trace)
    table = pq.read_table(cctrace.trace, columns=["start_ns"]).column("start_ns").to_pylist()
    assert table, "nothing was recorded inside the window"
    assert max(table) - min(table) >= 0.2e9
    assert max(table) - min(table) <= 0.4e9
    assert min(table) >= metadata.recording.start_ns + 1.5e9


def test_a_window_that_was_not_reached_says_nothing(cctrace) -> None:
    done = cctrace.record("--steps", "1000")
    assert "the window" not in done.stderr
    assert "no marked step" not in done.stderr
    assert _metadata(cctrace.trace).recording.window["ended_by"] is None


def test_a_window_of_steps_without_marks_says_so_once(cctrace) -> None:
    done = cctrace.record("--steps", "5", program=("--calls", "20", "--no-marks"))
    assert done.returncode == 0
    assert done.stderr.count("no marked step was seen: --steps had no effect") == 1
    notes = _metadata(cctrace.trace).collector.notes
    assert [note for note in notes if "--steps had no effect" in note and "--duration" in note]
    assert _calls(cctrace.trace) == 20
    assert "no marked step" not in cctrace.record("--force", program=("--no-marks",)).stderr
