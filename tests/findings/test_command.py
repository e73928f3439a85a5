"""`cctrace findings`: terminal, JSON, errors."""

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from call_program import Program, copy, graph, kernel, metadata, record, sync, write
from command_line import run_main
from found import SAMPLES
from jsonschema import Draft202012Validator

from cctrace.analyzers.published import published_schemas

Run = Callable[..., subprocess.CompletedProcess[str]]
SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "findings.json"
ON, OFF = (SAMPLES / f"server-graph-overlap-{arm}.parquet" for arm in ("emulated", "off"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return partial(run_main, monkeypatch, capsys, "findings")


def test_a_pair_in_the_terminal(run: Run) -> None:
    done = run(ON, OFF)

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    words = " ".join(done.stdout.split())
    assert lines[0].startswith("The token read-back blocks the scheduler: the remedy saves ")
    assert "This recording is emulated." in lines
    assert "scheduler 1663" in words
    assert "call 10 of the step" in words
    assert "[replay]" in words
    assert "Looked for, and not found" in words
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("files", [(ON, OFF), (OFF,)])
def test_json_is_as_published(files: tuple[Path, ...], run: Run) -> None:
    document = json.loads(run("--json", *files).stdout)

    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    assert document["findings"][0]["rule"] == "blocked-readback"
    assert (document["compared_with"] is None) == (len(files) == 1)
    assert len(document["checked"]) == 15


def test_the_published_schema_is_that_of_the_result() -> None:
    assert json.loads(SCHEMA.read_text()) == published_schemas()["findings"]


def test_no_finding_is_said(tmp_path: Path, run: Run) -> None:
    quiet = write(tmp_path / "quiet.parquet", Program([graph(), record(1), sync(1, 300.0)], host_us=200.0))

    done = run(quiet)

    assert done.returncode == 0
    assert done.stdout.startswith(
        "No finding that costs time in the steps, by 13 of 15 rules; 2 cannot tell."
    )
    assert "Cannot tell" in done.stdout  # kernels have no names in it


def test_a_recording_without_steps_is_examined_as_far_as_it_goes(tmp_path: Path, run: Run) -> None:
    weights = [copy("h2d", 1 << 26, 7000.0), kernel("multimem_all_reduce_kernel")]
    path = write(tmp_path / "short.parquet", Program([], steps=0, before=weights), metadata("on"))

    done = run(path)
    document = json.loads(run("--json", path).stdout)

    assert done.returncode == 0
    assert done.stdout.startswith("Cannot tell what costs time in the steps, because ")
    outcomes = {one["rule"]: one["outcome"] for one in document["checked"]}
    assert outcomes["many-submissions"] == "cannot tell"
    assert len(outcomes) == 15


@pytest.mark.parametrize("position", ["alone", "on", "off"])
def test_an_empty_trace_ends_with_one_line(position: str, tmp_path: Path, run: Run) -> None:
    empty = write(tmp_path / "empty.parquet", Program([], steps=0))

    done = run(*{"alone": [empty], "on": [empty, OFF], "off": [ON, empty]}[position])

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"cctrace: {empty}: The recording holds no host call: the program never used the GPU while it was "
        "recorded\n"
    )


def test_what_is_no_trace_ends_with_one_line(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "x.parquet"
    path.write_text("hello")

    done = run(path)

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_texts_of_a_trace_are_shown_and_not_obeyed(tmp_path: Path, run: Run) -> None:
    program = Program([kernel() for _ in range(100)], label="decode [bold red]x[/] \x1b[2J\x07")

    done = run(write(tmp_path / "evil.parquet", program))

    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "[bold red]x[/]" in " ".join(done.stdout.split())
