"""How long `summary` and `diff` take on recordings of N million rows, and how much memory.

    python bench/analysis.py [--millions 10] [--repeats 3] [--folder /tmp]

The recordings are a simulated server's, repeated: a decode loop of 28 graphs a step with kernels between
them, about 90 rows a step with the graph stamps, and no step marks. Each measurement is a process of its own:
its peak holds the interpreter and all libraries.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from simulator import OFF, ON, Load, Recorder, Run, SimulatedTrace, simulate

from cctrace.analyzers.loading import load
from cctrace.analyzers.report.runs import compared_runs
from cctrace.analyzers.summary import summarize
from cctrace.trace import TraceWriter, open_trace

PIECE_STEPS = 400
SERVER = Load(execution="pieces", pieces=28, kernels=168, readback="overlap", around=28, input_copies=3)


def write(path: Path, run: Run, mode: str, rows: int) -> None:
    """A recording of about so many rows: the run's, again and again."""
    piece = simulate(run).trace(cc_mode=mode)
    copies = max(1, rows // piece.table.num_rows)
    with TraceWriter(path, force=True) as writer:
        for lane in pc.unique(piece.table["lane"]):
            own = piece.table.filter(pc.equal(piece.table["lane"], lane))
            for number in range(copies):
                writer.write(later(own, number, piece))
        writer.finish(piece.metadata)


def later(rows: pa.Table, number: int, piece: SimulatedTrace) -> pa.Table:
    """The rows as the n-th repetition holds them: later, and with numbers that join them anew."""
    start = piece.table["start_ns"].to_numpy()
    steps = {
        "start_ns": int(start.max() - start.min()) + 300_000,
        "correlation": int(pc.max(piece.table["correlation"]).as_py() or 0) + 1,
    }
    for name, step in steps.items():
        column = rows.schema.get_field_index(name)
        rows = rows.set_column(column, name, pc.add(rows[name], number * step))
    return rows


def peak_mib() -> float:
    """The most memory that this process had at once, by the kernel's count."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measured(times: int, work: Callable[[], object]) -> None:
    """The measured process: does its work, and prints JSON."""
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds, "peak_mib": peak_mib()}))


def summarized(path: Path) -> None:
    measured(2, lambda: summarize(load(open_trace(path))))


def compared(off: Path, on: Path) -> None:
    measured(1, lambda: compared_runs([off], [on]))


def runs_of(words: list[str], repeats: int) -> list[dict[str, Any]]:
    """Results of processes that were started with these words."""
    command = [sys.executable, __file__, *words]
    return [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    ]


def report(name: str, runs: list[dict[str, Any]], number: int = 0) -> None:
    """One line: the n-th time of each process, fastest, median and slowest; and the largest peak."""
    seconds = [run["seconds"][number] for run in runs]
    peak = max(run["peak_mib"] for run in runs)
    print(
        f"{name:24s} {min(seconds):6.2f} {np.median(seconds):6.2f} {max(seconds):6.2f} s   "
        f"peak {peak:5.0f} MiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--millions", type=float, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--summarize", type=Path, metavar="TRACE", help=argparse.SUPPRESS)
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OFF", "ON"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.summarize:
        summarized(options.summarize)
        return
    if options.compare:
        compared(*options.compare)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        off, on = Path(folder) / "off.parquet", Path(folder) / "on.parquet"
        recorder = Recorder(gpu="stamps", marks=False)
        run = Run(SERVER, OFF, steps=PIECE_STEPS, seed=1, recorder=recorder)
        write(off, run, "off", int(options.millions * 1e6))
        write(on, replace(run, costs=ON, seed=2), "on", int(options.millions * 1e6))
        rows = open_trace(off).num_rows
        print(f"2 × {rows:,} rows, {off.stat().st_size / rows:.1f} bytes a row")
        print(f"{'':24s} {'least':>6s} {'median':>6s} {'most':>6s}")
        summaries = runs_of(["--summarize", str(off)], options.repeats)
        report("summary, first time", summaries)
        report("summary, once more", summaries, 1)
        report("diff", runs_of(["--compare", str(off), str(on)], options.repeats))


if __name__ == "__main__":
    main()
