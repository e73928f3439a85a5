"""Whether one pair of runs can show a difference at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cctrace.analyzers.sentences import signed_time

if TYPE_CHECKING:
    from cctrace.analyzers.diff import ArmResult

NOISE_FLOOR: Final = 0.02
"""A difference below this, from one pair of runs, is within noise: the spread of single runs in the published
tests."""
_PERCENTILES: Final = (("median", "median_us"), ("p10", "p10_us"), ("p90", "p90_us"))


def noise_of(off: ArmResult, on: ArmResult) -> str | None:
    """Why the difference of two arms is within the noise of one pair of runs; None if it is not.

    What confidential computing adds to every step moves the whole distribution of steps one way. A median
    that moves against the mean, or a 10th or 90th percentile that does so by more than the noise floor, shows
    that the arms differ in their disturbances instead.
    """
    delta = on.period_us - off.period_us
    if abs(delta) < NOISE_FLOOR * off.period_us:
        return f"it is below {NOISE_FLOOR:.0%} of the off arm's step".replace("%", " %")
    against = percentile_against(off, on)
    return None if against is None else f"the mean moves by {signed_time(delta)}, but the {against}"


def percentile_against(off: ArmResult, on: ArmResult) -> str | None:
    """The percentile of the step time that moves against the mean, as text; None if none does."""
    if off.period is None or on.period is None:
        return None
    direction = 1 if on.period_us >= off.period_us else -1
    for name, field in _PERCENTILES:
        change = getattr(on.period, field) - getattr(off.period, field)
        allowed = 0.0 if name == "median" else NOISE_FLOOR * off.period_us
        if -direction * change > allowed:
            return f"{name} by {signed_time(change)}"
    return None
