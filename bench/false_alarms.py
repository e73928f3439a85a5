#!/usr/bin/env python3
"""How often `diff` calls runs different that differ by nothing but chance.

  bench/false_alarms.py

Each null experiment has k pairs of runs. A run has a level of its own (log-normal, "drift"), and steps that
remember the one before (AR(1)). The table says how often the verdict is "difference", which must be at most
5 %, how often "equivalent", and how often the within-run interval of a single pair excludes zero, which is
why that interval is no verdict. A second table says how often a real effect is found.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from cctrace.analyzers.statistics import MeasuredPair, PairStatistics, statistics_of, within_run

FloatArray = npt.NDArray[np.float64]
STEP_US: Final = 4000.0
STEP_SPREAD: Final = 0.01
MEMORY: Final = 0.7
DRIFTS: Final = (0.0, 0.005, 0.01)
PAIRS: Final = (1, 2, 3, 5, 10)
EFFECTS: Final = (0.005, 0.01, 0.02, 0.04)


def main() -> None:
    """Runs the experiments and prints both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experiments", type=int, default=2000, metavar="N", help="per row (default 2000)")
    parser.add_argument("--steps", type=int, default=200, metavar="N", help="per run (default 200)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    Console(width=100).print(_false_alarms(random, args.experiments, args.steps))
    Console(width=100).print(_found(random, args.experiments // 4, args.steps))


def _false_alarms(random: np.random.Generator, experiments: int, steps: int) -> Table:
    error = 100 * math.sqrt(0.05 * 0.95 / experiments)
    table = Table(title=f"null experiments, {experiments} a row; 5 % are known to ± {error:.1f}")
    for heading in ("drift", "pairs", "difference", "equivalent", "within noise", "within-run excludes 0"):
        table.add_column(heading, justify="right")
    for drift in DRIFTS:
        for pairs in PAIRS:
            results = [_experiment(random, pairs, steps, drift, 0.0) for _ in range(experiments)]
            cells = [f"{drift:.1%}", str(pairs), *_verdicts(results)]
            table.add_row(*cells, _within_run_alarms(results) if pairs == 1 else "")
    return table


def _found(random: np.random.Generator, experiments: int, steps: int) -> Table:
    table = Table(title=f"a real effect: how often the verdict is a difference, {experiments} a cell")
    table.add_column("drift", justify="right")
    table.add_column("pairs", justify="right")
    for effect in EFFECTS:
        table.add_column(f"+{effect:.1%}", justify="right")
    for drift in DRIFTS:
        for pairs in PAIRS:
            cells = []
            for effect in EFFECTS:
                results = [_experiment(random, pairs, steps, drift, effect) for _ in range(experiments)]
                cells.append(_verdicts(results)[0])
            table.add_row(f"{drift:.1%}", str(pairs), *cells)
    return table


def _experiment(
    random: np.random.Generator, pairs: int, steps: int, drift: float, effect: float
) -> PairStatistics:
    runs = _runs(random, 2 * pairs, steps, drift)
    runs[pairs:] *= 1 + effect
    needs_spread = pairs < 3  # from three pairs on, the verdict does not look inside of runs
    return statistics_of(
        [
            MeasuredPair(
                float(off.mean()), float(on.mean()), {}, within_run(off, on) if needs_spread else None
            )
            for off, on in zip(runs[:pairs], runs[pairs:], strict=True)
        ]
    )


def _runs(random: np.random.Generator, count: int, steps: int, drift: float) -> FloatArray:
    """Step times of several runs, one a row."""
    shocks = random.normal(0.0, 1.0, (count, steps))
    levels = np.empty_like(shocks)
    levels[:, 0] = shocks[:, 0]
    for step in range(1, steps):
        levels[:, step] = MEMORY * levels[:, step - 1] + math.sqrt(1 - MEMORY**2) * shocks[:, step]
    own = np.exp(random.normal(0.0, drift, (count, 1)))
    runs: FloatArray = STEP_US * own * (1 + STEP_SPREAD * levels)
    return runs


def _verdicts(results: Sequence[PairStatistics]) -> list[str]:
    words = [result.verdict.verdict for result in results]
    names = ("difference", "equivalent", "within noise")
    return [f"{words.count(name) / len(words):.1%}" for name in names]


def _within_run_alarms(results: Sequence[PairStatistics]) -> str:
    spreads = [result.within_run for result in results if result.within_run is not None]
    alarms = sum(not one.low_us <= 0 <= one.high_us for one in spreads)
    return f"{alarms / len(spreads):.1%}" if spreads else "runs too short"


if __name__ == "__main__":
    main()
