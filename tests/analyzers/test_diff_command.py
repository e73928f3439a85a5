"""`cctrace diff` from the command line: arms, repeats, gate, page, and input that cannot be used."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from trace_builder import Load, Tolls, build

from cctrace.analyzers.published import published_schemas
from cctrace.commands.diff import one_by_one
from cctrace.trace import Acceptance, Metadata
from cctrace.trace.acceptance import Load as LoadFields
from cctrace.trace.acceptance import Security
from cctrace.trace.metadata import Recording

RunCli = Callable[..., CompletedProcess[str]]
WriteTrace = Callable[..., Path]
WriteRun = Callable[..., Path]

SAMPLES = Path(__file__).parents[2] / "sample_traces"
LOAD = Load(execution="eager", layers=20, steps=40)
LAUNCH = Tolls(kernel=12.25, graph=12.25, copy=12.25, memset=12.25, event=12.25)
START = datetime(2026, 7, 1, 12, 0, tzinfo=timezone.utc)


def metadata(cc_mode: str, minute: int | None, **load: Any) -> Metadata:
    acceptance = Acceptance(security=Security(cc_mode=cc_mode), load=LoadFields(**load))
    started = None if minute is None else (START + timedelta(minutes=minute)).isoformat()
    return Metadata(acceptance=acceptance, recording=Recording(started_at=started))


@pytest.fixture
def write_run(write_trace: WriteTrace) -> WriteRun:
    """Writes a run: `write_run(name, cc_mode, seed, minute)`."""

    def write(name: str, cc_mode: str, seed: int, minute: int | None = None, **load: Any) -> Path:
        tolls = LAUNCH if cc_mode == "on" else Tolls()
        table = build(replace(LOAD, tolls=tolls, seed=seed)).table
        return write_trace(name, table, metadata(cc_mode, minute, **load))

    return write


@pytest.fixture
def repeats(write_run: WriteRun) -> tuple[list[Path], list[Path]]:
    """Three runs of each arm, recorded alternately, whose names are not in the order of their recording."""
    on = [write_run(f"on-{3 - number}", "on", 10 + number, 2 * number) for number in range(3)]
    off = [write_run(f"off-{3 - number}", "off", 20 + number, 2 * number + 1) for number in range(3)]
    return on, off


def document_of(done: CompletedProcess[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(done.stdout)
    Draft202012Validator(published_schemas()["diff"]).validate(document)
    return document


@pytest.mark.parametrize(
    ("words", "parsed"),
    [
        (["a", "b"], ["a", "b"]),
        (["--on", "a", "b", "--off", "c"], ["--on", "a", "--on", "b", "--off", "c"]),
        (
            ["a", "b", "--tee-only", "c", "d", "--json"],
            ["a", "b", "--tee-only", "c", "--tee-only", "d", "--json"],
        ),
        (["--by", "class", "a", "b"], ["--by", "class", "a", "b"]),
        (["--on", "a", "--", "b"], ["--on", "a", "--", "b"]),
        (["--on"], ["--on"]),
        (["--on", "--off", "a"], ["--on", "--off", "a"]),
    ],
)
def test_options_for_files_take_several(words: list[str], parsed: list[str]) -> None:
    assert one_by_one(words) == parsed


def test_repeats_are_paired_in_recorded_order(
    repeats: tuple[list[Path], list[Path]], run_cli: RunCli
) -> None:
    on, off = repeats

    document = document_of(run_cli("diff", "--json", "--on", *sorted(on), "--off", *off))

    assert document["pairs"] == 3
    assert [(run["on"], run["off"]) for run in document["runs"]] == [
        (str(first), str(second)) for first, second in zip(on, off, strict=True)
    ]
    assert document["verdict"] == "difference"
    assert document["ci_kind"].startswith("paired t")
    low, high = document["shares"]["launch"]["ci_us"]
    assert low < document["shares"]["launch"]["share_us"] < high
    assert document["statistics"]["delta_us"]["count"] == 3


def test_folders_stand_for_the_runs_in_them(
    repeats: tuple[list[Path], list[Path]], tmp_path: Path, run_cli: RunCli
) -> None:
    folders = (tmp_path / "with", tmp_path / "without")
    for folder, files in zip(folders, repeats, strict=True):
        folder.mkdir()
        for file in files:
            file.rename(folder / file.name)

    as_arguments = document_of(run_cli("diff", "--json", *folders))
    as_options = document_of(run_cli("diff", "--json", "--on", folders[0], "--off", folders[1]))

    assert as_arguments["pairs"] == 3
    assert as_arguments == as_options


def test_a_run_without_a_partner_is_said_to_be_left_out(
    repeats: tuple[list[Path], list[Path]], run_cli: RunCli
) -> None:
    on, off = repeats

    document = document_of(run_cli("diff", "--json", "--on", *on, "--off", *off[:2]))

    assert document["pairs"] == 2
    assert any("1 run of one arm has no partner" in note for note in document["notes"])


def test_repeats_of_another_load_are_noticed(write_run: WriteRun, run_cli: RunCli) -> None:
    on = [write_run(f"on{number}", "on", number, 2 * number, concurrency=16) for number in range(2)]
    off = [write_run("off0", "off", 8, 1, concurrency=16), write_run("off1", "off", 9, 3, concurrency=64)]

    document = document_of(run_cli("diff", "--json", "--on", *on, "--off", *off))

    assert document["shares"] is None
    assert document["comparability"][0]["severity"] == "forbids"
    assert "load.concurrency" in {one["name"] for one in document["comparability"]}


def test_a_third_arm_splits_the_difference(write_run: WriteRun, run_cli: RunCli) -> None:
    on, off = write_run("on", "on", 1), write_run("off", "off", 2)
    tee = write_run("tee", "off", 3)

    document = document_of(run_cli("diff", "--json", on, off, "--tee-only", tee))

    split = document["tee"]
    assert split["runs"] == 1
    assert split["vm_us"] + split["gpu_us"] == pytest.approx(document["delta_us"], rel=0.02)
    assert abs(split["vm_us"]) < 0.1 * split["gpu_us"]


def test_kernel_times_come_from_a_recording_of_their_own(run_cli: RunCli) -> None:
    on, off, nodes = (
        SAMPLES / f"server-graph-overlap-{name}.parquet" for name in ("emulated", "off", "nodes")
    )

    without = document_of(run_cli("diff", "--json", on, off))
    document = document_of(run_cli("diff", "--json", on, off, "--kernel-times", nodes))

    assert (without["kernel_times"], without["kind_of_input"]) == (None, "graphs")
    assert (document["kernel_times"], document["kind_of_input"]) == (str(nodes), "kernels")
    shares = [one["shares"]["overlap"]["share_us"] for one in (without, document)]
    assert abs(shares[1] - shares[0]) < 0.02 * document["off_step_us"]


@pytest.mark.parametrize(("limit", "code"), [("1", 1), ("1%", 1), ("900 %", 0)])
def test_fail_over_decides_the_exit_code(limit: str, code: int, write_run: WriteRun, run_cli: RunCli) -> None:
    on, off = write_run("on", "on", 1), write_run("off", "off", 2)

    done = run_cli("diff", on, off, "--fail-over", limit)

    assert done.returncode == code
    text = " ".join(done.stdout.split())
    assert f"--fail-over {limit.rstrip(' %')} %: {'failed' if code else 'passed'}: step growth +" in text
    assert "of the off arm's step is" in text


def test_html_is_written_once(write_run: WriteRun, tmp_path: Path, run_cli: RunCli) -> None:
    on, off, target = write_run("on", "on", 1), write_run("off", "off", 2), tmp_path / "report.html"

    first = run_cli("diff", on, off, "--html", target)
    again = run_cli("diff", on, off, "--html", target)
    forced = run_cli("diff", on, off, "--html", target, "--force", "--by", "class")

    assert first.returncode == 0
    assert first.stderr == f"cctrace: wrote {target}\n"
    assert again.returncode == 2
    assert again.stdout == ""
    assert again.stderr == f"cctrace: {target} exists; --force overwrites it\n"
    assert forced.returncode == 0
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("by", ["phase", "class", "thread"])
def test_every_view_fits_a_pipe(by: str, write_run: WriteRun, run_cli: RunCli) -> None:
    done = run_cli("diff", write_run("on", "on", 1), write_run("off", "off", 2), "--by", by)

    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout


def test_a_copy_of_a_run_is_no_repeat(write_run: WriteRun, tmp_path: Path, run_cli: RunCli) -> None:
    on, off = write_run("on", "on", 1), write_run("off", "off", 2)
    copy = tmp_path / "again.parquet"
    shutil.copy(on, copy)

    done = run_cli("diff", "--on", on, copy, "--off", off, write_run("other", "off", 3))

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"cctrace: {copy}: the same recording as {on}; a run is no repeat of itself\n"


def test_a_copy_with_another_label_is_no_repeat(
    write_run: WriteRun, write_trace: WriteTrace, run_cli: RunCli
) -> None:
    def run(name: str, seed: int, start_ns: int, label: str) -> Path:
        begin = Recording(host="node", start_ns=start_ns, started_at=START.isoformat())
        said = replace(metadata("on", 0), recording=begin, label=label)
        return write_trace(name, build(replace(LOAD, tolls=LAUNCH, seed=seed)).table, said)

    off = [write_run(f"off{number}", "off", number) for number in range(2)]
    first, relabelled, second = run("a", 8, 100, "one"), run("b", 8, 100, "two"), run("c", 9, 200, "one")

    refused = run_cli("diff", "--on", first, relabelled, "--off", *off)
    taken = run_cli("diff", "--on", first, second, "--off", *off)

    assert (refused.returncode, taken.returncode) == (2, 0)
    assert f"{relabelled}: the same recording as {first}" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'ON'"),
        (("on",), "Missing argument 'OFF'"),
        (("--on", "on"), "Missing option '--off'"),
        (("--off", "off"), "Missing option '--on'"),
        (("on", "off", "--off", "off"), "give either ON OFF, or --on"),
        (("on", "off", "--by", "kernel"), "--by kernel: choose phase, class, thread"),
        (("on", "off", "--fail-over", "much"), "give a percentage"),
        (("on", "off", "--fail-over", "-3"), "-3"),
        (("on", "off", "--fail-over", "9" * 400), "give a percentage"),
        (("on", "off", "--html", "/no/such/folder/x.html"), "name a file in a folder that exists"),
        (("on", "off", "--html", "off", "--force"), "is one of the recordings"),
        (("on", "missing"), "no such file"),
        (("on", "empty-folder"), "no *.parquet in this folder"),
        (("on", "off", "--tee-only", "missing"), "no such file"),
        (("on", "off", "--kernel-times", "off"), "holds no kernel times"),
        (("--on", "on", "on", "--off", "off"), "given twice in --on"),
        (("on", "off", "--nonsense"), "No such option"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str, ...], message: str, write_run: WriteRun, tmp_path: Path, run_cli: RunCli
) -> None:
    (tmp_path / "empty-folder").mkdir()
    names = {"on": write_run("on", "on", 1), "off": write_run("off", "off", 2)}
    names |= {name: tmp_path / name for name in ("missing", "empty-folder")}

    done = run_cli("diff", *(str(names.get(word, word)) for word in arguments))

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
