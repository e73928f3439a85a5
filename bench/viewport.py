"""How long a time line's index takes to build, its memory, and how long a viewport takes at any zoom.

    python bench/viewport.py [--millions 10] [--repeats 3] [--zooms 500] [--folder /tmp] [--trace TRACE]

The recording is that of bench/analysis.py; --trace measures another one. Every repeat is a process of its
own: its peak holds the interpreter and all libraries. A viewport is asked for as the browser does, without
the network: from the request to the text of the answer, JSON and links included.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import flask
import numpy as np
from analysis import PIECE_STEPS, SERVER, peak_mib, write

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from simulator import OFF, Recorder, Run

from cctrace.app.viewer.timeline_api import PREFIX, register
from cctrace.app.viewer.view import ONE, opened
from cctrace.trace import open_trace

PIXELS = 1280
NARROWEST_NS = 10_000
"""Of the random zooms: one call. The widest is everything."""


def measured(path: Path, zooms: int) -> None:
    """The measured process: builds an index, asks for viewports, and prints JSON."""
    server = flask.Flask("viewer")
    register(server, opened([path]))
    client = server.test_client()
    begin, cpu = time.perf_counter(), time.process_time()
    while (lanes := client.get(f"{PREFIX}lanes", query_string={"arm": ONE})).status_code == 202:
        time.sleep(0.05)
    found: dict[str, Any] = {
        "index": (time.perf_counter() - begin, time.process_time() - cpu),
        "index_mib": peak_mib(),
        "viewports": [],
    }
    for window in windows(int(lanes.json["end"]), zooms):
        begin, cpu = time.perf_counter(), time.process_time()
        answer = client.get(f"{PREFIX}view", query_string={"arm": ONE, "pixels": PIXELS, **window})
        found["viewports"].append((time.perf_counter() - begin, time.process_time() - cpu))
        assert answer.status_code == 200, answer.text
    print(json.dumps({**found, "peak_mib": peak_mib()}))


def windows(end: int, count: int) -> list[dict[str, int]]:
    """Windows of every width, evenly spread over its orders of magnitude, each at a random place."""
    chance = random.Random(1)
    widths = np.geomspace(NARROWEST_NS, end, count).astype(np.int64).tolist()
    starts = [chance.randint(0, end - width) for width in widths]
    return [{"from": start, "to": start + width} for start, width in zip(starts, widths, strict=True)]


def report(runs: list[dict[str, Any]]) -> None:
    """Times of the index over the repeats, and of viewports over the zooms of all repeats."""
    index, viewports = (
        np.array([run[name] for run in runs]).reshape(-1, 2) for name in ("index", "viewports")
    )
    print(f"{'':24s} {'median':>8s} {'95 %':>8s} {'most':>8s}")
    for name, times in (("index", index), ("viewport", viewports * 1e3)):
        unit = "s" if name == "index" else "ms"
        for of_what, column in (("by the clock", times[:, 0]), ("on processors", times[:, 1])):
            middle, high, most = np.percentile(column, (50, 95, 100)).tolist()
            print(f"{name + ', ' + of_what:24s} {middle:8.2f} {high:8.2f} {most:8.2f} {unit}")
    index_mib, peak = (max(run[name] for run in runs) for name in ("index_mib", "peak_mib"))
    print(f"peak {index_mib:.0f} MiB with the index, {peak:.0f} MiB after all viewports")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--millions", type=float, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--zooms", type=int, default=500)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--measure", type=Path, metavar="TRACE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measured(options.measure, options.zooms)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = options.trace or Path(folder) / "trace.parquet"
        if not options.trace:
            run = Run(SERVER, OFF, steps=PIECE_STEPS, seed=1, recorder=Recorder(gpu="stamps", marks=False))
            write(path, run, "off", int(options.millions * 1e6))
        print(f"{open_trace(path).num_rows:,} rows, {options.zooms} zooms, {PIXELS} pixels")
        command = [sys.executable, __file__, "--measure", str(path), "--zooms", str(options.zooms)]
        report(
            [
                json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                for _ in range(options.repeats)
            ]
        )


if __name__ == "__main__":
    main()
