"""Steps as the time line asks for them: the typical one, the one at a time, that of the other arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cctrace.analyzers.arms import same_work
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.step_series import ProcessSeries


@dataclass(frozen=True)
class StepPlace:
    """One step.

    Attributes:
        step: its number in its process.
        start_ns: its begin, CLOCK_MONOTONIC.
        end_ns: its end.
        class_index: its class, position in the classes of the series.
        step_class: name of the class.
        phase: its phase.
        ordinal: how many steps of its class come before it.
        steps: steps of the process.
        counts: whether it is steady.
    """

    step: int
    start_ns: int
    end_ns: int
    class_index: int
    step_class: str
    phase: str
    ordinal: int
    steps: int
    counts: bool


def place_of(series: ProcessSeries, step: int) -> StepPlace:
    """Where a step is; raises IndexError if there is no such step."""
    number = int(series.class_of[step])
    begin = int(series.start_ns[step])
    return StepPlace(
        step=step,
        start_ns=begin,
        end_ns=begin + int(series.period_ns[step]),
        class_index=number,
        step_class=series.classes[number].name,
        phase=series.classes[number].phase,
        ordinal=int(np.count_nonzero(series.class_of[:step] == number)),
        steps=len(series),
        counts=bool(series.steady[step]),
    )


def typical_step(series: ProcessSeries) -> int:
    """The steady step of the main class whose period is nearest to the median of those.

    Where none of its steps is steady, one of all its steps.
    """
    of_class = series.class_of == series.main_class
    steps = np.flatnonzero(of_class & series.steady)
    steps = steps if len(steps) else np.flatnonzero(of_class)
    period = series.period_ns[steps]
    return int(steps[np.argmin(np.abs(period - np.median(period)))])


def step_at(series: ProcessSeries, time_ns: float) -> int | None:
    """The step that holds a time, CLOCK_MONOTONIC; None if none does."""
    step = int(np.searchsorted(series.start_ns, time_ns, side="right")) - 1
    return step if step >= 0 and time_ns < series.start_ns[step] + series.period_ns[step] else None


def step_of_class(series: ProcessSeries, number: int, ordinal: int) -> int:
    """The step of a class that so many others of it come before; its last one, if it has fewer."""
    steps: IntArray = np.flatnonzero(series.class_of == number)
    return int(steps[min(ordinal, len(steps) - 1)])


def class_named(series: ProcessSeries, name: str, other: ProcessSeries | None = None) -> int | None:
    """The class of this name; else the one that does the same work as a class of this name in the other arm.

    Classes of recordings without labels are named by what their steps look like, which differs between arms.
    """
    found = next((number for number, one in enumerate(series.classes) if one.name == name), None)
    if found is not None or other is None:
        return found
    pairs = same_work(other.traits, series.traits)
    return next((mine for theirs, mine, _ in pairs if other.classes[theirs].name == name), None)
