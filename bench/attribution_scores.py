#!/usr/bin/env python3
"""How near three ways to split a difference come to the truth, over simulated pairs of recordings.

  bench/attribution_scores.py [NAME …]

The truth is the Shapley value of the simulator itself, with the same noise for all mixes of causes; the two
recordings have a noise of their own, 3 % for each operation. A score is the sum of the absolute errors of six
shares (launch, pcie, overlap, nvlink, host, gpu) in percent of the off arm's step. Beside it stands the
largest error of one cause. NAME picks the scenarios whose name holds it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from attribution_alternatives import critical_path, sums_of_durations
from simulator import PLAYERS, Pair, Recorder, SimulatedTrace, Truth, truth_of
from simulator.attributed import attributed, errors_of, shares_of
from simulator.scenarios import FAULTY, INSIDE, OUTSIDE, Scenario

CAUSES: Final = ("launch", "pcie", "overlap", "nvlink")
Shares = Mapping[str, float]
Method = Callable[[SimulatedTrace, SimulatedTrace], "Shares | None"]


def replay(off: SimulatedTrace, on: SimulatedTrace) -> Shares | None:
    """The shares of `cctrace diff`; None if it refuses."""
    result = attributed(off, on)
    return shares_of(result) if result.shares is not None else None


METHODS: Final[dict[str, Method]] = {
    "sums of durations": lambda off, on: sums_of_durations(off.table, on.table),
    "critical path": lambda off, on: critical_path(off.table, on.table),
    "replay": replay,
}


def main() -> None:
    """Prints a Markdown table for each group of scenarios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names
    truths: dict[Pair, Truth] = {}
    groups = {
        "situations that the replay's rules can explain": INSIDE,
        "beyond these rules": OUTSIDE,
        "the same, badly recorded": FAULTY,
    }
    for title, scenarios in groups.items():
        chosen = [one for one in scenarios if not names or any(name in one.name for name in names)]
        if chosen:
            print(f"\n{title}\n\n{_table(chosen, truths)}", flush=True)


def _table(scenarios: Sequence[Scenario], truths: dict[Pair, Truth]) -> str:
    """A Markdown table of scenarios, with the median and the worst score of each method."""
    head = ("scenario", "off µs", "delta µs", "/".join(PLAYERS), *METHODS, "replay s")
    scores: dict[str, list[float]] = {name: [] for name in METHODS}
    rows = [head, ("---", *["---:"] * (len(head) - 1))]
    rows += [(scenario.name, *_row(scenario, truths, scores)) for scenario in scenarios]
    for name, of in (("median", statistics.median), ("worst", max)):
        cells = [f"**{of(found):.2f}**" if found else "" for found in scores.values()]
        rows.append((f"**{name}**", "", "", "", *cells, ""))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(scenario: Scenario, truths: dict[Pair, Truth], scores: dict[str, list[float]]) -> Iterator[str]:
    pair, plain = scenario.pair, Recorder()
    same_runs = Pair(replace(pair.off, recorder=plain), replace(pair.on, recorder=plain))
    truth = truths.get(same_runs) or truth_of(pair)
    truths[same_runs] = truth
    off, on = scenario.traces()
    yield f"{truth.off_us:.0f}"
    yield f"{truth.delta_us:.0f}"
    yield "/".join(f"{truth.shares[player]:.0f}" for player in PLAYERS)
    for name, method in METHODS.items():
        begin = time.perf_counter()
        shares = method(off, on)
        seconds = time.perf_counter() - begin
        if shares is None:
            yield "refused"
            continue
        errors = {player: abs(error) for player, error in errors_of(shares, truth).items()}
        scores[name].append(100 * sum(errors.values()) / truth.off_us)
        yield f"{scores[name][-1]:.2f} ({100 * max(errors[one] for one in CAUSES) / truth.off_us:.2f})"
    yield f"{seconds:.1f}"


if __name__ == "__main__":
    main()
