"""How long an attribution takes: 64 replays of 200 steps × 600 operations, and a whole pair of recordings.

    python bench/attribution.py [--steps 200] [--kernels 590] [--repeats 5]

The pair is a simulated server whose kernels are launched one by one, with a GPU row for each.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from simulator import OFF, ON, Load, Run, simulate

from cctrace.analyzers.arms import Arm, arm_of
from cctrace.analyzers.attribution import classes
from cctrace.analyzers.attribution.engine import attribute_arms, replayed_class
from cctrace.analyzers.attribution.replay import replay
from cctrace.analyzers.attribution.result import PLAYERS
from cctrace.analyzers.attribution.shapley import mixes_of
from cctrace.analyzers.loading import load
from cctrace.trace import open_trace


def arms(steps: int, kernels: int, folder: Path) -> tuple[Arm, Arm]:
    """The two arms of a simulated pair."""
    server = Load(execution="eager", readback="overlap", kernels=kernels, kernel_us=8.0, dispatch_us=3.0)
    off = Run(server, OFF, steps=steps + 3 * classes.LEAD_STEPS, seed=1)
    on = replace(off, costs=replace(ON, cpu=1.05, gpu=1.01), seed=2)
    paths = [
        simulate(run).trace(cc_mode=name).write(folder / f"{name}.parquet")
        for run, name in ((off, "off"), (on, "on"))
    ]
    first, second = (arm_of(load(open_trace(path))) for path in paths)
    return first, second


def report(name: str, seconds: list[float]) -> None:
    """One line: fastest, median, slowest."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name:60s} {min(seconds):6.2f} {np.median(seconds):6.2f} {max(seconds):6.2f} s   "
        f"peak {peak:5.0f} MiB"
    )


def timed(repeats: int, work: object) -> list[float]:
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()  # type: ignore[operator]
        seconds.append(time.perf_counter() - begin)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--kernels", type=int, default=590)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        off, on = arms(options.steps, options.kernels, Path(folder))
        (matched,) = classes.matched_classes(off, on)
        program = replayed_class(matched, off, on).program
        operations = len(program.host) / len(program.counts)
        every = mixes_of([True] * len(PLAYERS))
        print(f"{'':60s} {'least':>6s} {'median':>6s} {'most':>6s}")
        name = f"{len(every)} replays of {len(program.counts)} steps × {operations:.0f} host operations"
        report(name, timed(options.repeats, lambda: replay(program, every)))
        report("the whole attribution of the pair", timed(options.repeats, lambda: attribute_arms(off, on)))


if __name__ == "__main__":
    main()
