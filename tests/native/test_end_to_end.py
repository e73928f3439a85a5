"""The commands on a real program, from record to diff; only the driver and the GPU are stand-ins."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cctrace.trace import open_trace

STEPS = 120
PROGRAM = """
start(); s = stream(); d = device(4096); h = pinned(4096)
library = ctypes.CDLL(os.environ["CCTRACE_LIBRARY"])
check(cuda.cuStreamBeginCapture_v2(s, 0))
for _ in range(20): launch(s)
e = instantiate(end_capture(s)); f = function(b"sample_kernel")
for _ in range(120):
    library.cctrace_step_begin(b"decode")
    for _ in range(5): launch(s, f)
    check(cuda.cuMemcpyHtoDAsync_v2(d, h, c_size_t(64), s))
    check(cuda.cuGraphLaunch(e, s))
    check(cuda.cuMemcpyDtoHAsync_v2(h, d, c_size_t(4), s))
    check(cuda.cuStreamSynchronize(s))
    library.cctrace_step_end()
"""
DELAYS = (
    "cuLaunchKernel=20,cuGraphLaunch=30,cuMemcpyHtoDAsync_v2=15,cuMemcpyDtoHAsync_v2=15,"
    "cuStreamSynchronize=500"
)


class Commands:
    """Runs `cctrace` as a user does, with the stand-ins on the loader's path."""

    def __init__(self, recorder: Any) -> None:
        self.folder: Path = recorder.folder
        self.env = recorder.environment({"MOCK_CUDA_DELAYS": DELAYS})
        for name in ("LD_PRELOAD", "CCTRACE_SPOOL", "CCTRACE_GPU", "NVTX_INJECTION64_PATH"):
            del self.env[name]
        self.program = recorder.write_script(PROGRAM)

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """One command."""
        command = [sys.executable, "-m", "cctrace", *arguments]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.env | env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def record(self, name: str, *options: str, **env: str) -> tuple[Any, str]:
        """A recording of the program, and what the recorder said."""
        path = str(self.folder / name)
        done = self.run("record", "-o", path, *options, "--", sys.executable, str(self.program), **env)
        assert done.returncode == 0, done.stderr
        return open_trace(path), done.stderr

    def json(self, *arguments: str) -> Any:
        """What a command prints as JSON."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def commands(recorder: Any) -> Commands:
    """The commands, and a program to record."""
    return Commands(recorder)


def counts(trace: Any) -> dict[tuple[str, str | None], int]:
    """Rows by kind and operation."""
    frame = trace.frame(["kind", "operation"])
    grouped = frame.astype(object).fillna("").groupby(["kind", "operation"]).size()
    return {(str(kind), str(operation)): int(n) for (kind, operation), n in grouped.items()}


def test_a_recording_has_all_rows(commands: Commands) -> None:
    trace, said = commands.record("off.parquet")
    found = counts(trace)
    assert found["submit", "kernel"] == 5 * STEPS
    assert found["submit", "graph"] == STEPS
    assert found["submit", "copy"] == 2 * STEPS
    assert found["wait", "stream-sync"] == STEPS
    assert found["capture", "kernel"] == 20
    assert found["graph", ""] == STEPS
    assert found["step", ""] == STEPS
    assert trace.metadata.collector.timing == "undisturbed"
    assert "rows of 1 process" in said


def test_a_summary_counts_the_steps(commands: Commands) -> None:
    trace, _ = commands.record("off.parquet")
    summary = commands.json("summary", str(commands.folder / "off.parquet"))
    (process,) = summary["processes"]
    (group,) = process["steps"]["classes"]
    assert STEPS - 2 <= group["steps"] <= STEPS
    # Five launches, a replay, two copies and a wait, as long as the driver was told to take at least.
    assert group["period"]["median_us"] > 660
    rows = trace.frame(["kind", "start_ns"])
    begins = np.sort(rows.loc[rows["kind"] == "step", "start_ns"].to_numpy())
    assert group["period"]["median_us"] == pytest.approx(np.median(np.diff(begins)) / 1e3, rel=0.1)


def test_diff_finds_the_emulated_toll(commands: Commands) -> None:
    commands.record("off.parquet")
    tolls = ("--emulate-set", "kernel_us=200", "--emulate-set", "graph_us=300")
    commands.record("on.parquet", "--emulate", "b200-tdx:launch", *tolls)
    result = commands.json("diff", str(commands.folder / "on.parquet"), str(commands.folder / "off.parquet"))
    found = {row["category"]: row["toll_us"] for row in result["calls"]["account"]["tolls"]}
    assert found["kernel"] == pytest.approx(200, rel=0.05)
    assert found["graph"] == pytest.approx(300, rel=0.05)
    assert result["labels"] == ["emulated"]
    assert result["calls"]["on"]["provenance"]["emulated"]
    assert not result["calls"]["off"]["provenance"]["emulated"]


def test_a_cupti_recording_is_marked_distorted(commands: Commands) -> None:
    trace, _ = commands.record("nodes.parquet", "--gpu", "nodes")
    assert trace.metadata.collector.timing == "distorted"
    sources = set(trace.frame(["source"])["source"].astype(object).dropna())
    assert "cupti" in sources
    assert counts(trace)["submit", "kernel"] == 5 * STEPS


def test_a_refusal_of_cupti_is_in_the_metadata(commands: Commands) -> None:
    trace, said = commands.record("nodes.parquet", "--gpu", "nodes", MOCK_CUPTI="cc41")
    (process,) = trace.metadata.collector.processes
    assert process.state["gpu.state"].count("41") == 1
    assert "no GPU rows" in said
    assert (trace.metadata.labels, trace.metadata.collector.timing) == ((), "undisturbed")
    assert counts(trace)["submit", "kernel"] == 5 * STEPS


def test_tolls_are_found_where_cupti_was_refused(commands: Commands) -> None:
    """As in production CC: nothing slowed the host calls, so nothing is withheld."""
    commands.record("off.parquet", "--gpu", "nodes", MOCK_CUPTI="cc41")
    tolls = ("--emulate", "b200-tdx:launch", "--emulate-set", "kernel_us=200")
    commands.record("on.parquet", "--gpu", "nodes", *tolls, MOCK_CUPTI="cc41")
    result = commands.json("diff", str(commands.folder / "on.parquet"), str(commands.folder / "off.parquet"))
    found = {row["category"]: row["toll_us"] for row in result["calls"]["account"]["tolls"]}
    assert found["kernel"] == pytest.approx(200, rel=0.05)


def test_the_acceptance_table_holds_what_the_rows_tell(commands: Commands) -> None:
    trace, _ = commands.record("off.parquet")
    acceptance, recording = trace.metadata.acceptance, trace.metadata.recording
    assert (acceptance.scale.hosts, acceptance.scale.ranks) == (1, 1)
    first = trace.frame(["start_ns"], kinds="step")["start_ns"].min()
    assert acceptance.life_cycle.startup_s == pytest.approx((first - recording.start_ns) / 1e9, abs=1e-3)
