"""From the page of steps to the timeline: the slowest steps, and any other one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from dash import dcc
from dash.development.base_component import Component

from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.sentences import seconds_text, time_text
from cctrace.analyzers.steady import EXCLUSIONS, HICCUP, STEADY
from cctrace.analyzers.step_series import METRICS
from cctrace.app.viewer.address import TIMELINE, Address
from cctrace.app.viewer.grid import table
from cctrace.app.viewer.step_charts import value_text
from cctrace.app.viewer.step_choice import ArmSteps, Choice

SLOWEST: Final = 8
"""Steps of each arm in the table."""


def timeline_address(state: Address, steps: ArmSteps, step: int) -> Address:
    """Where the timeline shows a step; the same recordings stay chosen."""
    usual = steps.process is steps.others[0]
    return state.elsewhere(TIMELINE).with_(arm=steps.arm, step=step, pid=None if usual else steps.process.pid)


def slowest(arms: Sequence[ArmSteps], choice: Choice, state: Address) -> Component:
    """The longest of the chosen steps of each arm: steady ones and hiccups."""
    columns = ["step", "class", "left out", "begins at", *(one.title for one in METRICS)]
    rows: list[list[str | Component]] = []
    for one in arms:
        process = one.process
        seconds, columns_of = one.seconds(), [process.values(metric) for metric in METRICS]
        medians = {number: _median_us(one, number) for number in range(len(process.classes))}
        for step in _longest(one, choice):
            number = int(process.class_of[step])
            period = float(process.period_ns[step]) / 1e3
            against = f" ({period / medians[number]:.2f} × median)" if medians[number] else ""
            values = [
                value_text(metric, float(column[step]))
                for metric, column in zip(METRICS, columns_of, strict=True)
            ]
            link = dcc.Link(f"{one.prefix}{step}", href=str(timeline_address(state, one, step)))
            reason = int(process.exclusion[step])
            rows.append(
                [
                    link,
                    process.classes[number].name,
                    "" if reason == STEADY else EXCLUSIONS[reason],
                    seconds_text(float(seconds[step])),
                    time_text(period) + against,
                    *values[1:],
                ]
            )
    return table(columns, rows, numbers_from=3, label="Slowest steps")


def _median_us(steps: ArmSteps, number: int) -> float:
    process = steps.process
    periods = process.period_ns[process.steady & (process.class_of == number)]
    return float(np.median(periods)) / 1e3 if len(periods) else 0.0


def _longest(steps: ArmSteps, choice: Choice) -> list[int]:
    process = steps.process
    typical = process.steady | (process.exclusion == HICCUP)
    rows: IntArray = np.flatnonzero(typical & choice.group.mask(steps))
    if len(rows) > SLOWEST:
        rows = rows[np.argpartition(process.period_ns[rows], len(rows) - SLOWEST)[-SLOWEST:]]
    return sorted(rows.tolist(), key=lambda row: (-int(process.period_ns[row]), row))
