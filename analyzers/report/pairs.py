"""Comparison of one pair of recordings: causes, calls and waiting, what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cctrace.analyzers.arms import Arm, ClassPair, arm_of, main_pair, pair_classes
from cctrace.analyzers.attribution.engine import attribute_arms
from cctrace.analyzers.attribution.kernel_times import KernelTimes
from cctrace.analyzers.columns import FloatArray
from cctrace.analyzers.diff import Diff, compare_arms
from cctrace.analyzers.findings import Observation, find_in_pair
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.report.assembly import ComparedPair
from cctrace.analyzers.results import NANOSECONDS_PER_MICROSECOND
from cctrace.analyzers.statistics import WithinRun, within_run
from cctrace.trace import Trace

MAX_VALUES: Final = 2000
"""Values of a run that the bootstrap draws from; it takes thousands of draws of as many values."""


def compared_pair(
    off: Trace, on: Trace, rows: tuple[Recording, Recording], kernel_times: KernelTimes | None = None
) -> ComparedPair:
    """What one pair of runs says.

    Args:
        off: file with confidential computing off.
        on: file with it on, or emulated.
        rows: what was loaded of `off` and of `on`.
        kernel_times: GPU times of kernels from another recording.

    Raises:
        UnusableInputError: one of them has no steps.
    """
    off_arm, on_arm = (arm_of(one) for one in rows)
    attribution = attribute_arms(off_arm, on_arm, kernel_times)
    calls, within = _without_replay(off_arm, on_arm)
    return ComparedPair(
        off=str(off.path),
        on=str(on.path),
        attribution=attribution,
        calls=calls,
        within=within,
        findings=find_in_pair(_observation(on, on_arm), _observation(off, off_arm), attribution),
    )


def _observation(trace: Trace, arm: Arm) -> Observation:
    return Observation(trace, arm.recording, arm.process, arm.steps, None, arm.other_processes)


def _without_replay(off: Arm, on: Arm) -> tuple[Diff, WithinRun | None]:
    """Calls and waiting compared, and the within-run spread of the steps."""
    pairs = pair_classes(off, on)
    return compare_arms(on, off, pairs), _within(off, on, pairs)


def _within(off: Arm, on: Arm, pairs: Sequence[ClassPair]) -> WithinRun | None:
    """The within-run spread of the class of steps that stands for the runs."""
    main = pairs[0] if pairs else main_pair(off, on)
    return within_run(_periods_us(off, main.off), _periods_us(on, main.on))


def _periods_us(arm: Arm, number: int) -> FloatArray:
    """Step times of a class; of many, means of a few neighbours each: their mean is known as well."""
    periods = arm.steps.period_ns[arm.steps.steady_of(number)] / NANOSECONDS_PER_MICROSECOND
    neighbours = max(1, len(periods) // MAX_VALUES)
    whole = len(periods) // neighbours * neighbours
    means: FloatArray = periods[:whole].reshape(-1, neighbours).mean(axis=1)
    return means
