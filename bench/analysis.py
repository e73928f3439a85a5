"""How long `summary` and `diff` take on a trace of N million rows, and how much memory.

    python bench/analysis.py [--millions 10] [--folder /tmp]

The trace is a decode loop repeated: 150 calls a step, 8 worker threads, graph stamps.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from trace_builder import Load, build

from cctrace.analyzers.diff import compare
from cctrace.analyzers.loading import load
from cctrace.analyzers.summary import summarize
from cctrace.trace import Metadata, TraceWriter, open_trace


def write(path: Path, rows: int, seed: int) -> None:
    piece = build(
        Load(execution="piecewise", layers=28, steps=400, readback="overlap", gpu_rows="stamps", seed=seed)
    ).table
    lanes = np.array(piece["lane"])
    start = piece["start_ns"].to_numpy()
    span = int(start.max() - start.min()) + 300_000
    copies = max(1, rows // piece.num_rows)
    column = piece.schema.get_field_index("start_ns")
    with TraceWriter(path, force=True) as writer:
        for lane in np.unique(lanes):
            own = piece.filter(pa.array(lanes == lane))
            begin = own["start_ns"].to_numpy()
            for number in range(copies):
                writer.write(own.set_column(column, "start_ns", pa.array(begin + number * span)))
        writer.finish(Metadata())


def timed(name: str, function: object) -> None:
    begin = time.perf_counter()
    function()  # type: ignore[operator]
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:30s} {seconds:7.2f} s   peak {peak:7.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--millions", type=float, default=10)
    parser.add_argument("--folder", type=Path, default=Path("/tmp"))
    options = parser.parse_args()
    rows = int(options.millions * 1e6)
    off, on = options.folder / "bench-off.parquet", options.folder / "bench-on.parquet"
    for path, seed in ((off, 1), (on, 2)):
        write(path, rows, seed)
    print(
        f"{open_trace(off).num_rows:,} rows, {off.stat().st_size / open_trace(off).num_rows:.1f} bytes a row"
    )
    timed("read and summarize (cold)", lambda: summarize(load(open_trace(off))))
    timed("read and summarize (warm)", lambda: summarize(load(open_trace(off))))
    timed("read two and compare", lambda: compare(load(open_trace(on)), load(open_trace(off))))
    off.unlink()
    on.unlink()


if __name__ == "__main__":
    main()
