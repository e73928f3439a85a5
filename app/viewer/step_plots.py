"""Steps of both arms in two static charts: periods over time, and how they are distributed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.columns import FloatArray
from cctrace.analyzers.downsample import extremes
from cctrace.analyzers.sentences import plural, time_text
from cctrace.analyzers.step_series import StepSeries, main_process
from cctrace.app.blocks import FAINT, Block, Paragraph, Title
from cctrace.app.palette import ARM_COLOURS
from cctrace.app.plots import Plot, Series
from cctrace.app.viewer.view import OFF

MAX_POINTS: Final = 800
"""Points of an arm: as many as a chart has pixels."""
MAX_CORNERS: Final = 400
"""Corners of a distribution: more cannot be told apart."""
MILLISECONDS_FROM_US: Final = 1000.0
"""Periods are given in milliseconds if the longest is at least this."""


@dataclass(frozen=True, eq=False)
class _Periods:
    """Steady steps of a class in one arm: its name, step numbers, and periods in µs."""

    arm: str
    name: str
    step: FloatArray
    us: FloatArray


def step_blocks(series: Mapping[str, StepSeries], classes: Mapping[str, str]) -> Iterable[Block | Plot]:
    """Charts of the steady steps of one class of each arm.

    Args:
        series: arm → its steps.
        classes: arm → name of the class that is shown; without one, the class that stands for the run.
    """
    yield Title("Steps")
    found = []
    for arm, steps in series.items():
        periods = _periods(arm, steps, classes.get(arm))
        if isinstance(periods, str):
            yield Paragraph(f"{arm}: no steps to draw, because {periods}.")
        else:
            found.append(periods)
    if not found:
        return
    longest = max(float(one.us.max()) for one in found)
    unit, scale = ("ms", 1e3) if longest >= MILLISECONDS_FROM_US else ("µs", 1.0)
    yield _over_time(found, unit, scale)
    yield _distribution(found, unit, scale)
    names = dict.fromkeys(one.name for one in found)
    counts = ", ".join(f"{plural(len(one.us), 'step')} {_of(one.arm, series)}" for one in found)
    yield Paragraph(
        f"Steady steps of class {' and '.join(names)}: {counts}. Of many, the longest and the shortest of "
        "each stretch are drawn.",
        FAINT,
    )


def _of(arm: str, series: Mapping[str, StepSeries]) -> str:
    return f"of the {arm} arm" if len(series) > 1 else "in all"


def _periods(arm: str, steps: StepSeries, name: str | None) -> _Periods | str:
    """Steady steps of a class; or why there are none."""
    process = main_process(steps)
    if process is None:
        return steps.no_steps_because or "none were found"
    names = [one.name for one in process.classes]
    number = names.index(name) if name in names else process.main_class
    chosen = np.flatnonzero(process.steady & (process.class_of == number))
    if not len(chosen):
        return f"no step of class {names[number]} is steady"
    return _Periods(arm, names[number], chosen.astype(np.float64), process.period_ns[chosen] / 1e3)


def _over_time(found: list[_Periods], unit: str, scale: float) -> Plot:
    series = []
    for one in found:
        drawn = extremes(one.step, one.us, MAX_POINTS)
        series.append(_series(one, one.step[drawn], one.us[drawn] / scale, line=False))
    medians = "; ".join(f"{one.arm}: median {time_text(float(np.median(one.us)))}" for one in found)
    return Plot(f"Period of each step: {medians}", "step", f"period [{unit}]", tuple(series))


def _distribution(found: list[_Periods], unit: str, scale: float) -> Plot:
    series = []
    for one in found:
        ordered = np.sort(one.us) / scale
        part = np.linspace(0, len(ordered) - 1, min(len(ordered), MAX_CORNERS)).astype(np.int64)
        below = (part + 1) / len(ordered) * 100
        x, y = np.concatenate(([ordered[0]], ordered[part])), np.concatenate(([0.0], below))
        series.append(_series(one, x, y, line=True))
    words = "; ".join(
        f"{one.arm}: half of the steps take at most {time_text(float(np.median(one.us)))}, 99 % at most "
        f"{time_text(float(np.percentile(one.us, 99)))}"
        for one in found
    )
    return Plot(
        f"How periods are distributed: {words}",
        f"period [{unit}]",
        "steps that are no longer [%]",
        tuple(series),
    )


def _series(one: _Periods, x: FloatArray, y: FloatArray, *, line: bool) -> Series:
    return Series(one.arm, x, y, ARM_COLOURS[one.arm], hollow=one.arm == OFF, line=line)
