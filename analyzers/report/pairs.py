"""Comparison of one pair of recordings: causes, calls and waiting, within-run spread."""

from __future__ import annotations

from cctrace.analyzers.arms import Arm, arm_of, main_pair, pair_classes
from cctrace.analyzers.attribution.engine import attribute_arms
from cctrace.analyzers.columns import FloatArray
from cctrace.analyzers.diff import compare_arms
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.report.assembly import ComparedPair
from cctrace.analyzers.results import NANOSECONDS_PER_MICROSECOND
from cctrace.analyzers.statistics import WithinRun, within_run


def compared_pair(off: Recording, on: Recording) -> ComparedPair:
    """What one pair of runs says.

    Args:
        off: recording with confidential computing off.
        on: recording with it on, or emulated.

    Raises:
        UnusableInputError: one of them has no steps.
    """
    off_arm, on_arm = arm_of(off), arm_of(on)
    return ComparedPair(
        off=off.path,
        on=on.path,
        attribution=attribute_arms(off_arm, on_arm),
        calls=compare_arms(on_arm, off_arm),
        within=_within(off_arm, on_arm),
    )


def _within(off: Arm, on: Arm) -> WithinRun | None:
    """The within-run spread of the class of steps that stands for the runs."""
    main = next(iter(pair_classes(off, on)), None) or main_pair(off, on)
    return within_run(_periods_us(off, main.off), _periods_us(on, main.on))


def _periods_us(arm: Arm, number: int) -> FloatArray:
    periods: FloatArray = arm.steps.period_ns[arm.steps.steady_of(number)] / NANOSECONDS_PER_MICROSECOND
    return periods
