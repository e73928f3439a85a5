"""What the runs of a scenario should have lost, what they did lose, and whether that is within the bars.

All arithmetic is on the results of `measuring.run`. Arms are compared process by process: those of one index
were started together and took turns with each other. A difference counts once per index; what is reported is
the median over the indices, and its spread is their range.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groundtruth.measuring import IDLE, WORK
from groundtruth.scenarios import BARE, PLAIN, ZERO

NEAR_BAR: Final = 0.03
"""Of the expected growth, or of the expected step."""
PUBLISHED_GRAPH_RATIO: Final = 2589 / 2500
"""A step of one full graph, B200, confidential computing on ÷ off."""
GRAPH_BAR: Final = 0.02
"""Of the ratio."""
LOSS_RANGE: Final = (30.0, 40.0)
"""Percent. Published losses of throughput with overlap scheduling: 34–39 %; H = 0.4–0.5 G gives 29–33 %."""
WORKER_BAR: Final = 3.0
"""Loss of throughput, percent."""

MEASURABLE_P: Final = 0.05
"""Two arms differ measurably if so few of all ways to deal their processes out to two arms give means as far
apart as theirs (exact permutation test)."""
SPREAD_PROCESSES: Final = 4
"""Of both arms. Fewer cannot reach that: 4 + 4 can be dealt out in 70 ways. Such a row informs only."""
EXACT: Final = "equal"

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """One expectation: `values` are the measured ones by process, `expected` likewise or a range.

    Attributes:
        scenario: its name.
        what: in words.
        unit: of the numbers, '' for ratios and counts.
        expected: a number, or lowest and highest.
        values: measured, one per process index.
        bar: the bar in words.
        passed: None where there is nothing to compare.
    """

    scenario: str
    what: str
    unit: str
    expected: float | tuple[float, float] | None
    values: tuple[float, ...]
    bar: str
    passed: bool | None

    @property
    def measured(self) -> float | None:
        """Median of the values."""
        return statistics.median(self.values) if self.values else None


def checks_of(result: Result) -> list[Check]:
    """All checks of a scenario: its own, then that the counts of every recording equal the truth."""
    own = [check for name in result["scenario"]["checks"] for check in RULES[name](result)]
    return own + counts(result)


def medians(result: Result, arm: str, field: str, variant: str = WORK) -> list[float]:
    """The median of each process of an arm."""
    return [statistics.median(process["rounds"][variant][field]) for process in result["arms"][arm]]


def differences(result: Result, arm: str, field: str, base: str = ZERO) -> list[float]:
    """What an arm has more than the base, by process index."""
    pairs = zip(medians(result, arm, field), medians(result, base, field), strict=True)
    return [value - other for value, other in pairs]


def ratios(result: Result, arm: str, field: str, base: str = ZERO) -> list[float]:
    """An arm ÷ the base, by process index."""
    pairs = zip(medians(result, arm, field), medians(result, base, field), strict=True)
    return [value / other for value, other in pairs]


def launch_cost(recording: Mapping[str, Any]) -> float | None:
    """Microseconds of launch toll in one step: its submissions × toll × (injected ÷ nominal sum).

    None if the recording does not tell its steps or its truth.
    """
    tolls = recording["tolls_us"]
    nominal = sum(recording["submissions"].get(operation, 0) * toll for operation, toll in tolls.items())
    truth = recording["injected"].get("launch", {}).get("sum_ns")
    if not nominal or truth is None or not recording["per_step"]:
        return None
    return toll_of_step(recording) * truth / 1e3 / nominal


def toll_of_step(recording: Mapping[str, Any]) -> float:
    """Microseconds of launch toll asked for in one step: its submissions × toll; 0 if no step is known."""
    return float(
        sum(recording["per_step"].get(name, 0) * toll for name, toll in recording["tolls_us"].items())
    )


def in_unit(microseconds: float, field: str) -> float:
    """Microseconds in the unit of a field, which is at the end of its name."""
    return microseconds / 1e3 if field.endswith("_ms") else microseconds


def launch(result: Result) -> list[Check]:
    """A host-bound step grows by its submissions × their toll: by the medians, and by the fastest rounds.

    Where other work slows the host down in half of the rounds, medians compare slow rounds with fast ones.
    """
    step = result["scenario"]["step"]
    costs = [launch_cost(process["recording"]) for process in result["arms"]["launch"]]
    known = [cost for cost in costs if cost is not None]
    expected = in_unit(statistics.median(known), step) if known else None
    what = "launch: growth of the step = submissions × toll"
    fastest = zip(fastest_rounds(result, "launch", step), fastest_rounds(result, ZERO, step), strict=True)
    return [
        _near(result, what, differences(result, "launch", step), expected, unit_of(step)),
        _near(result, f"{what}, fastest rounds", [a - b for a, b in fastest], expected, unit_of(step)),
    ]


def fastest_rounds(result: Result, arm: str, field: str) -> list[float]:
    """The least of each process of an arm."""
    return [min(process["rounds"][WORK][field]) for process in result["arms"][arm]]


def graph_ratio(result: Result) -> list[Check]:
    """The step of one full graph grows as published."""
    found = ratios(result, "launch", result["scenario"]["step"])
    passed = abs(statistics.median(found) - PUBLISHED_GRAPH_RATIO) <= GRAPH_BAR
    what = "launch: step ÷ step without"
    return [_check(result, what, found, PUBLISHED_GRAPH_RATIO, bar=f"± {GRAPH_BAR}", passed=passed)]


def overlap(result: Result) -> list[Check]:
    """The step goes from max(G, H) to G + H, and throughput falls as published."""
    step = result["scenario"]["step"]
    pairs = gpu_and_host(result)
    share = statistics.median(host / gpu for gpu, host in pairs)
    before = statistics.median(max(pair) for pair in pairs)
    after = statistics.median(sum(pair) for pair in pairs)
    lost = losses(result)
    low, high = LOSS_RANGE
    return [
        _near(
            result,
            f"zero: step = max(G, H), where H = {share:.2f} G",
            medians(result, ZERO, step),
            before,
            unit_of(step),
        ),
        _near(result, "overlap: step = G + H", medians(result, "overlap", step), after, unit_of(step)),
        _check(
            result,
            "overlap: loss of throughput",
            lost,
            LOSS_RANGE,
            bar=f"{low:.0f}–{high:.0f} %",
            passed=low <= statistics.median(lost) <= high,
            unit="%",
        ),
    ]


def gpu_and_host(result: Result) -> list[tuple[float, float]]:
    """G and H of each process of zero: the step without host work, and what the scheduler did not wait."""
    gpu = medians(result, ZERO, result["scenario"]["step"], IDLE)
    return list(zip(gpu, medians(result, ZERO, "median_host_ms"), strict=True))


def losses(result: Result) -> list[float]:
    """Loss of throughput of the overlap arm against zero, by process, percent."""
    return [100 * (1 - ratio) for ratio in ratios(result, "overlap", "output_throughput")]


def worker(result: Result) -> list[Check]:
    """With a worker for the read-back, lost overlap costs next to nothing."""
    lost = losses(result)
    what, bar = "overlap: loss of throughput, read back by a worker", f"≤ {WORKER_BAR:.0f} %"
    passed = statistics.median(lost) <= WORKER_BAR
    return [_check(result, what, lost, (0.0, WORKER_BAR), bar=bar, passed=passed, unit="%")]


def nvlink(result: Result) -> list[Check]:
    """Growth beside what was injected into the collectives of a step; a step that hosts limit hides it."""
    step = result["scenario"]["step"]
    number = statistics.median(medians(result, "nvlink", "collectives_per_step"))
    truths = [process["recording"]["injected"].get("nvlink", {}) for process in result["arms"]["nvlink"]]
    means = [truth["sum_ns"] / truth["count"] / 1e3 for truth in truths if truth.get("count")]
    expected = in_unit(number * statistics.median(means), step) if means else None
    what = f"nvlink: growth of the step, {number:.0f} collectives"
    grown = differences(result, "nvlink", step)
    return [_check(result, what, grown, expected, bar="", passed=None, unit=unit_of(step))]


def zero(result: Result) -> list[Check]:
    """The emulator without costs changes nothing measurable: it is not told from plain recordings."""
    found = []
    for field in (result["scenario"]["step"], *result["scenario"]["fields"]):
        if field.endswith("_per_step"):  # a count, which has no spread
            continue
        plain, values = medians(result, PLAIN, field), medians(result, ZERO, field)
        enough = min(len(plain), len(values)) >= SPREAD_PROCESSES
        alike = permutation_p(plain, values) >= MEASURABLE_P if enough else None
        what = f"zero: {field} as in plain recordings"
        spread = (min(plain), max(plain))
        bar = f"p ≥ {100 * MEASURABLE_P:.0f} %"
        found.append(_check(result, what, values, spread, bar=bar, passed=alike, unit=unit_of(field)))
    return found


def permutation_p(one: Sequence[float], other: Sequence[float]) -> float:
    """Share of all ways to deal the values out anew whose means lie at least as far apart."""
    pooled = [*one, *other]
    apart = abs(statistics.fmean(one) - statistics.fmean(other))
    ways = list(itertools.combinations(range(len(pooled)), len(one)))
    as_far = 0
    for chosen in ways:
        first = [pooled[i] for i in chosen]
        second = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        as_far += abs(statistics.fmean(first) - statistics.fmean(second)) >= apart * (1 - 1e-9)
    return as_far / len(ways)


def counts(result: Result) -> list[Check]:
    """For each cause charged: the rows of the recording that it applies to are as many as were charged."""
    found = []
    for arm, processes in result["arms"].items():
        recordings = [process["recording"] for process in processes if process["recording"]]
        for cause in sorted({cause for recording in recordings for cause in recording["injected"]}):
            truth = [recording["injected"][cause].get("count", 0) for recording in recordings]
            rows = [recording["counts"].get(cause) for recording in recordings]
            if not any(truth) and not any(rows):
                continue
            known = [row for row in rows if row is not None]
            passed = truth == rows if len(known) == len(rows) else None
            what = f"{arm}: rows that {cause} is charged to"
            values = [float(sum(known))] if passed is not None else []
            found.append(_check(result, what, values, float(sum(truth)), bar=EXACT, passed=passed))
    return found


RULES: Final[dict[str, Callable[[Result], list[Check]]]] = {
    "launch": launch,
    "graph-ratio": graph_ratio,
    "overlap": overlap,
    "worker": worker,
    "nvlink": nvlink,
    "zero": zero,
}
"""The names that `Scenario.checks` uses."""


def arms_compared(result: Result) -> list[str]:
    """Arms whose growth is of interest: all but the one that they are compared with."""
    return [arm for arm in result["arms"] if arm not in (ZERO, BARE, PLAIN)]


def unit_of(field: str) -> str:
    """The unit at the end of a field's name; '' for throughputs."""
    return "ms" if field.endswith("_ms") else "µs" if field.endswith("_us") else ""


def _near(result: Result, what: str, values: list[float], expected: float | None, unit: str) -> Check:
    passed = abs(statistics.median(values) / expected - 1) <= NEAR_BAR if expected else None
    return _check(result, what, values, expected, bar=f"± {100 * NEAR_BAR:.0f} %", passed=passed, unit=unit)


def _check(
    result: Result,
    what: str,
    values: Sequence[float],
    expected: float | tuple[float, float] | None,
    *,
    bar: str,
    passed: bool | None,
    unit: str = "",
) -> Check:
    return Check(result["scenario"]["name"], what, unit, expected, tuple(values), bar, passed)
