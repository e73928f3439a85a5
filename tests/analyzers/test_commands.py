import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator
from trace_builder import Load, Tolls, build

from cctrace.analyzers.published import published_schemas
from cctrace.trace import Acceptance, Emulation, Metadata
from cctrace.trace.acceptance import Security

RunCli = Callable[..., CompletedProcess[str]]
WriteTrace = Callable[..., Path]

SAMPLES = Path(__file__).parents[2] / "sample_traces"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
LOAD = Load(execution="piecewise", readback="overlap", steps=40, gpu_rows="stamps")
ON = Metadata(
    acceptance=Acceptance(security=Security(cc_mode="off")),
    emulation=Emulation(profile="b200-tdx", causes=("launch",)),
    labels=("emulated",),
)
OFF = Metadata(acceptance=Acceptance(security=Security(cc_mode="off")))
# What turns colours on; a pipe must not show it.
ESCAPE = "\x1b"


@pytest.fixture
def pair(write_trace: WriteTrace) -> tuple[Path, Path]:
    """An on and an off trace."""
    tolls = Tolls(kernel=12.25, graph=12.25, copy=12.25, memset=12.25, event=12.25)
    on = write_trace("on", build(replace(LOAD, tolls=tolls, seed=2)).table, ON)
    return on, write_trace("off", build(LOAD).table, OFF)


def checked(name: str, text: str) -> dict[str, Any]:
    """The JSON that a command printed, checked against the published schema."""
    document: dict[str, Any] = json.loads(text)
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator(schema).validate(document)
    return document


@pytest.mark.parametrize("name", ["summary", "steps", "diff", "findings"])
def test_published_schemas_are_those_of_the_results(name: str) -> None:
    published = json.loads((SCHEMAS / f"{name}.json").read_text())

    assert published == published_schemas()[name]
    Draft202012Validator.check_schema(published)


def test_every_field_of_a_schema_is_described() -> None:
    def missing(schema: Any, where: str) -> list[str]:
        found = []
        for name, entry in schema.get("properties", {}).items():
            if not entry.get("description"):
                found.append(f"{where}.{name}")
            for part in (entry, entry.get("items", {}), *entry.get("anyOf", [])):
                found += missing(part, f"{where}.{name}")
        return found

    def in_all(title: str, schema: Any) -> list[str]:
        parts = {title: schema, **schema.get("$defs", {})}
        return [name for where, part in parts.items() for name in missing(part, where)]

    assert [name for title, schema in published_schemas().items() for name in in_all(title, schema)] == []


def test_summary_as_json(pair: tuple[Path, Path], run_cli: RunCli) -> None:
    done = run_cli("summary", "--json", pair[0])

    document = checked("summary", done.stdout)
    assert done.returncode == 0
    assert document["provenance"]["emulated"] == "b200-tdx (launch)"
    steps = document["processes"][0]["steps"]
    assert steps["submissions"]["work_per_step"] == pytest.approx(33)
    assert steps["graphs"]["execution"] == "fragmented"


def test_summary_in_the_terminal(pair: tuple[Path, Path], run_cli: RunCli) -> None:
    done = run_cli("summary", pair[0])

    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("A decode step takes ")
    assert "33 submissions, 12 graph launches (fragmented)" in " ".join(lines[:2])
    assert "This recording is emulated." in lines
    assert max(len(line) for line in lines) <= 80
    assert ESCAPE not in done.stdout


def test_steps_are_limited_unless_all_are_asked_for(pair: tuple[Path, Path], run_cli: RunCli) -> None:
    limited = checked("steps", run_cli("steps", "--json", "--limit", "3", pair[1]).stdout)
    everything = checked("steps", run_cli("steps", "--json", "--all", pair[1]).stdout)
    terminal = run_cli("steps", "--limit", "3", pair[1])

    assert len(limited["processes"][0]["steps"]) == 3
    assert len(everything["processes"][0]["steps"]) == everything["processes"][0]["total_steps"] == 39
    assert "36 more steps; --limit N or --all lists them." in terminal.stdout
    assert max(len(line) for line in terminal.stdout.splitlines()) <= 80


def test_diff_as_json(pair: tuple[Path, Path], run_cli: RunCli) -> None:
    done = run_cli("diff", "--json", *pair)

    document = checked("diff", done.stdout)
    assert done.returncode == 0
    tolls = {one["category"]: one["toll_us"] for one in document["calls"]["account"]["tolls"]}
    assert tolls["kernel"] == pytest.approx(12.25, rel=0.05)
    assert document["labels"] == ["emulated"]
    shares = [share["share_us"] for share in document["shares"].values() if isinstance(share, dict)]
    assert sum(shares) + document["residual"]["total_us"] == pytest.approx(document["delta_us"], abs=1e-3)


def test_diff_in_the_terminal(pair: tuple[Path, Path], run_cli: RunCli) -> None:
    done = run_cli("diff", *pair)

    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith(("Emulated b200-tdx (launch) ", "Within noise: "))
    assert "This comparison is emulated." in lines
    assert "unexplained remainder" in done.stdout
    assert re.search(r"^launch +[+−]", done.stdout, re.MULTILINE)
    assert max(len(line) for line in lines) <= 80
    assert ESCAPE not in done.stdout


def test_texts_of_a_trace_are_shown_and_not_obeyed(write_trace: WriteTrace, run_cli: RunCli) -> None:
    label = "decode [bold red]x[/] \x1b[2J\x07"
    table = build(replace(LOAD, marks=label)).table
    path = write_trace("evil", table, Metadata(label="[/nonsense]"))

    for command in ("summary", "steps"):
        done = run_cli(command, path)
        assert done.returncode == 0
        assert ESCAPE not in done.stdout
        assert "\x07" not in done.stdout
        assert "[bold red]x[/]" in re.sub(r"\s+", " ", done.stdout)


def test_an_empty_trace_is_described(write_trace: WriteTrace, run_cli: RunCli) -> None:
    path = write_trace("empty", build(LOAD).table.slice(0, 0))

    for command in ("summary", "steps"):
        done = run_cli(command, path)
        assert done.returncode == 0
        assert len(done.stdout.splitlines()[0]) > 20
        checked(command, run_cli(command, "--json", path).stdout)


def test_diff_of_a_trace_without_steps_ends_with_one_line(
    pair: tuple[Path, Path], write_trace: WriteTrace, run_process: RunCli
) -> None:
    empty = write_trace("empty", build(LOAD).table.slice(0, 0))

    done = run_process("diff", pair[0], empty)

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "cannot tell the steps" in done.stderr


def _empty_file(path: Path) -> None:
    path.write_bytes(b"")


def _foreign_parquet(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def _text_file(path: Path) -> None:
    path.write_text("hello\n")


@pytest.mark.parametrize("make", [_empty_file, _foreign_parquet, _text_file])
@pytest.mark.parametrize("command", ["summary", "steps", "diff"])
def test_files_that_are_no_trace_end_with_one_line(
    command: str, make: Callable[[Path], None], tmp_path: Path, run_cli: RunCli
) -> None:
    path = tmp_path / "x.parquet"
    make(path)

    done = run_cli(command, *([path, path] if command == "diff" else [path]))

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert str(path) in done.stderr


ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
SPELLED = {"−": "-", "–": "-", "·": "-", "µ": "u", "×": "x", "÷": "/", "±": "+-", "→": "->", "▸": ">"}
POSIX = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}


def words_of(text: str) -> list[str]:
    """Words and numbers without lines and bars, which ASCII draws in another way."""
    return [word for word in text.split() if not re.fullmatch(r"[-+|#─█▉▊▋▌▍▎▏]+", word)]


@pytest.mark.parametrize("environment", [ASCII, POSIX], ids=["ascii", "posix"])
@pytest.mark.parametrize("command", ["summary", "steps", "diff", "findings"])
def test_no_sign_is_lost_where_the_locale_lacks_letters(
    command: str, environment: dict[str, str], write_trace: WriteTrace, run_process: RunCli
) -> None:
    load = Load(steps=40, gpu_rows="stamps")
    # Faster host code in the on arm: its part of the difference is negative.
    on = build(replace(load, tolls=Tolls(kernel=12.25, copy=12.25), host_us=100.0)).table
    files = [write_trace("on", on, ON), write_trace("off", build(load).table, OFF)]
    files = files if command in ("diff", "findings") else files[:1]

    done = run_process(command, *files, COLUMNS="200", **environment)

    written = run_process(command, *files, COLUMNS="200", PYTHONIOENCODING="utf-8").stdout
    for letter, spelling in SPELLED.items():
        written = written.replace(letter, spelling)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert words_of(done.stdout) == words_of(written)
    assert re.search(r"\d us\b", done.stdout)
    if command == "diff":
        assert re.search(r"residual +\| +-[\d.]+ us \| +-[\d.]+ %", done.stdout)


def test_info_is_shown_where_the_locale_lacks_letters(run_process: RunCli) -> None:
    done = run_process("info", SAMPLES / "launch-181-emulated.parquet", **POSIX)

    assert (done.returncode, done.stderr) == (0, "")
    assert "2 x NVIDIA H200" in done.stdout


def test_json_is_the_same_in_every_locale(pair: tuple[Path, Path], run_process: RunCli) -> None:
    here, there = (run_process("diff", "--json", *pair, **one).stdout for one in (ASCII, POSIX))

    assert "µs" in here
    assert there == here


def test_a_message_is_spelled_out_where_the_locale_lacks_letters(tmp_path: Path, run_process: RunCli) -> None:
    done = run_process("info", tmp_path / "5 µs → é", PYTHONIOENCODING="ascii")

    assert done.returncode == 2
    assert "5 us -> \\xe9: no such file" in done.stderr


def test_further_processes_get_a_line_each(write_trace: WriteTrace, run_cli: RunCli) -> None:
    ranks = [build(replace(LOAD, pid=pid, seed=pid)).table for pid in (10, 20, 30)]
    path = write_trace("ranks", pa.concat_tables(ranks))

    done = run_cli("summary", path)
    document = checked("summary", run_cli("summary", "--json", path).stdout)

    assert len(document["processes"]) == 3
    assert done.stdout.count("A decode step takes") == 3
    assert "Other processes that hand work to the GPU" in done.stdout


@pytest.mark.parametrize(("command", "missing"), [("summary", "FILE"), ("steps", "FILE"), ("diff", "ON")])
def test_a_missing_argument_is_one_line(command: str, missing: str, run_cli: RunCli) -> None:
    done = run_cli(command)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"cctrace: Missing argument '{missing}'. See `cctrace {command} --help`.\n"


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize("command", ["summary", "steps", "diff"])
def test_a_reader_that_leaves_early_is_no_failed_check(
    command: str, options: tuple[str, ...], pair: tuple[Path, Path]
) -> None:
    files = pair if command == "diff" else pair[:1]
    arguments = [sys.executable, "-m", "cctrace.cli", command, *options, *map(str, files)]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            arguments, cwd="/", stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    finally:
        os.close(writing)

    assert done.returncode == -signal.SIGPIPE
    assert done.stderr == ""


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize("command", ["summary", "steps", "diff", "findings"])
def test_a_full_disk_is_one_line_and_no_failed_check(
    command: str, options: tuple[str, ...], pair: tuple[Path, Path]
) -> None:
    files = pair if command == "diff" else pair[:1]
    arguments = [sys.executable, "-m", "cctrace.cli", command, *options, *map(str, files)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            arguments, cwd="/", stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )

    assert done.returncode == 2
    assert done.stderr == "cctrace: the output cannot be written (No space left on device)\n"


def test_columns_of_the_tables_have_names_of_their_own(pair: tuple[Path, Path], run_cli: RunCli) -> None:
    summary, diff = run_cli("summary", pair[0]).stdout, run_cli("diff", *pair).stdout

    titles = [
        line
        for line in (*summary.splitlines(), *diff.splitlines())
        if re.match(r"(raw toll|waiting call)", line)
    ]
    assert len(titles) >= 2
    for title in titles:
        names = re.split(r"  +", title.strip())
        assert len(set(names)) == len(names)
    assert any(title.split()[-3:] == ["median", "p90", "max"] for title in titles)
