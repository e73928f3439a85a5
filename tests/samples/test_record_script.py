from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from cctrace.trace import SCHEMA, Metadata, TraceWriter

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "sample_traces" / "record.sh"

STUB = r"""#!/usr/bin/env bash
# Stands in for `cctrace`: notes its arguments and leaves a trace where it was told to.
echo "$*" >>"$HERE/calls"
[[ -z $FAILS || "$*" != *"$FAILS"* ]] || exit 3
[[ $1 == record && $2 == -o ]] || exit 9
trace=$HERE/plain.parquet
[[ "$*" != *--emulate* ]] || trace=$HERE/emulated.parquet
cp "$trace" "$3"
echo '{"steps": 3, "median_step_us": 12.5, "p10_step_us": 1}'
"""
COMMAND = ["python3", "serve.py", "--bench", "--result-filename", "x.json", "--model", "0.6b"]

Run = Callable[..., "tuple[subprocess.CompletedProcess[str], list[str]]"]


def write_trace(path: Path, labels: list[str]) -> None:
    marks = [("step", "hook"), ("step", "nvtx"), ("step", "hook"), ("submit", "interposer")]
    rows = [
        {"kind": kind, "source": source, "start_ns": i, "duration_ns": 1, "pid": 1, "tid": 1, "lane": 0}
        for i, (kind, source) in enumerate(marks)
    ]
    about = {
        "format_version": 1,
        "labels": labels,
        "recording": {"command": COMMAND, "started_at": "2026-11-30T12:00:00+00:00"},
        "acceptance": {"hardware": {"gpus": 1, "gpu_model": "X|Y"}, "software": {"driver": "580.1"}},
    }
    with TraceWriter(path) as writer:
        writer.write(pa.Table.from_pylist(rows, schema=SCHEMA))
        writer.finish(Metadata.from_document(about))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    write_trace(tmp_path / "plain.parquet", [])
    write_trace(tmp_path / "emulated.parquet", ["emulated"])
    stub, out, log = tmp_path / "stub", tmp_path / "out", tmp_path / "calls"
    stub.write_text(STUB)
    stub.chmod(0o755)
    out.mkdir()
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "CCTRACE": str(stub), "PYTHON": sys.executable, "OUT": str(out)}
    environment |= {"HERE": str(tmp_path), "PYTHONPATH": paths}

    def call(*arguments: str, fails: str = "") -> tuple[subprocess.CompletedProcess[str], list[str]]:
        log.unlink(missing_ok=True)
        done = subprocess.run(
            [str(SCRIPT), *arguments],
            capture_output=True,
            text=True,
            env={**environment, "FAILS": fails},
            timeout=120,
            check=False,
        )
        return done, log.read_text().splitlines() if log.exists() else []

    return call


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "out").iterdir())


def test_a_pair_is_recorded_plain_and_emulated_and_tabled(run: Run, tmp_path: Path) -> None:
    done, calls = run("server", "server-graph-overlap-*")
    assert done.returncode == 0, done.stderr
    assert names(tmp_path) == [
        "TRACES.md",
        "server-graph-overlap-emulated.parquet",
        "server-graph-overlap-off.parquet",
    ]
    assert len(calls) == 2
    assert "--emulate b200-tdx:launch,overlap" in calls[1]
    assert "--emulate" not in calls[0]
    assert calls[0].split(" -- ")[1] == calls[1].replace("-emulated", "-off").split(" -- ")[1]
    table = (tmp_path / "out" / "TRACES.md").read_text()
    row = next(line for line in table.splitlines() if "overlap-emulated" in line)
    assert "| emulated | 2 | 4 |" in row
    assert "1 × X\\|Y" in row
    assert "580.1" in row
    assert "--result-filename" not in table
    assert "python3 serve.py --bench --model 0.6b`" in table


def test_traces_that_exist_are_left_alone(run: Run, tmp_path: Path) -> None:
    run("launch", "launch-graph-off")
    before = (tmp_path / "out" / "launch-graph-off.parquet").stat().st_mtime_ns
    done, calls = run("launch", "launch-graph-off")
    assert done.returncode == 0
    assert calls == []
    assert "launch-graph-off: exists" in done.stdout
    assert (tmp_path / "out" / "launch-graph-off.parquet").stat().st_mtime_ns == before


def test_launch_pairs_are_charged_for_launches_alone(run: Run) -> None:
    done, calls = run("launch")
    emulated = [call for call in calls if "--emulate" in call]
    assert len(emulated) == 3
    assert done.stdout.count(" s, median_step_us: 12.5\n") == 6
    assert all(" --emulate b200-tdx:launch --steps " in call for call in emulated)


def test_a_failure_is_named_and_the_rest_is_recorded(run: Run, tmp_path: Path) -> None:
    done, _ = run("launch", fails="launch-graph-emulated")
    assert done.returncode == 1
    assert "launch-graph-emulated: exit code 3" in done.stderr
    assert done.stderr.strip().endswith("failed: launch-graph-emulated")
    assert "launch-eager-emulated.parquet" in names(tmp_path)
    assert "launch-graph-emulated.parquet" not in names(tmp_path)


@pytest.mark.parametrize(
    ("group", "count"), [("server", 18), ("launch", 6), ("nodes", 1), ("vllm", 6), ("all", 31)]
)
def test_groups_have_all_their_traces(run: Run, tmp_path: Path, group: str, count: int) -> None:
    done, calls = run(group)
    assert done.returncode == 0, done.stderr
    assert len(calls) == count
    assert len(list((tmp_path / "out").glob("*.parquet"))) == count


@pytest.mark.parametrize("arguments", [(), ("everything",)])
def test_unknown_groups_print_the_usage(run: Run, arguments: tuple[str, ...]) -> None:
    done, calls = run(*arguments)
    assert done.returncode == 2
    assert "server|launch|nodes|vllm|all" in done.stderr
    assert calls == []
