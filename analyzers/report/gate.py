"""`--fail-over`: whether the growth of a step is above a limit."""

from __future__ import annotations

from typing import Final

from cctrace.analyzers.report.document import Gate
from cctrace.analyzers.sentences import percent
from cctrace.analyzers.statistics import PairStatistics

DENOMINATOR: Final = "the off arm's step"


def judged(limit_pct: float, growth: float, statistics: PairStatistics, forbidden: tuple[str, ...]) -> Gate:
    """The judgement. Arms that cannot be compared fail: a check that cannot tell has not passed.

    Args:
        limit_pct: largest growth that passes, % of the off arm's step.
        growth: on ÷ off − 1 of the step time.
        statistics: for what the growth is worth.
        forbidden: why the arms cannot be compared; empty if they can.
    """
    measured = 100 * growth
    if forbidden:
        failed, because = True, f"the growth cannot be judged, because {forbidden[0]}"
    else:
        failed = measured > limit_pct
        side = "above" if failed else "not above"
        because = (
            f"step growth {percent(growth, signed=True)} of {DENOMINATOR} is {side} {limit_pct:g} %"
            f"{_doubt(limit_pct, statistics)}"
        )
    return Gate(
        limit_pct=limit_pct, denominator=DENOMINATOR, measured_pct=measured, failed=failed, because=because
    )


def _doubt(limit_pct: float, statistics: PairStatistics) -> str:
    """What the runs do not exclude."""
    growth = statistics.growth
    if growth is None:
        return "; one pair of runs does not show how far it would differ from another"
    if growth.low * 100 <= limit_pct < growth.high * 100:
        low, high = percent(growth.low, signed=True), percent(growth.high, signed=True)
        return f"; its interval, {low} … {high}, holds the limit"
    return ""
