"""From two arms to an attribution: how the parts fit together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cctrace.analyzers.arms import Arm as RecordedArm
from cctrace.analyzers.attribution.classes import MatchedClass, matched_classes
from cctrace.analyzers.attribution.device import device_work
from cctrace.analyzers.attribution.handover import wait_places, with_joins
from cctrace.analyzers.attribution.own_cost import own_costs
from cctrace.analyzers.attribution.program import COLUMNS, HOST, OFF, Arm, Program, merge
from cctrace.analyzers.attribution.replay import replay
from cctrace.analyzers.attribution.result import PLAYERS
from cctrace.analyzers.attribution.rows import AFTER_STEPS, device_rows, host_rows, windows_of
from cctrace.analyzers.attribution.shapley import mixes_of, shapley_values
from cctrace.analyzers.attribution.timeline import Timeline, timeline_of
from cctrace.analyzers.columns import FloatArray, IntArray
from cctrace.trace import Trace


@dataclass(frozen=True, eq=False)
class ReplayedClass:
    """One step class, replayed in every mix of the players that change anything.

    Attributes:
        matched: the class.
        program: its merged program.
        takes_part: which of PLAYERS change anything.
        mixes: the mixes, by player.
        periods: mixes × steps that count, µs.
    """

    matched: MatchedClass
    program: Program
    takes_part: tuple[bool, ...]
    mixes: FloatArray
    periods: FloatArray


def replayed_classes(off: RecordedArm, on: RecordedArm, off_trace: Trace, on_trace: Trace) -> tuple[ReplayedClass, ...]:
    """Every class that both arms have, replayed."""
    return tuple(
        replayed_class(one, (off, off_trace), (on, on_trace))
        for one in matched_classes(off, on) if one.passages
    )


def replayed_class(
    matched: MatchedClass, off: tuple[RecordedArm, Trace], on: tuple[RecordedArm, Trace]
) -> ReplayedClass:
    """One class, replayed."""
    passages = matched.passages
    off_steps = _steps(off[0], [(one.off_first, one.steps) for one in passages])
    on_steps = _steps(on[0], [(one.on_first, one.steps) for one in passages])
    off_line, off_rows, off_base = _timeline(*off, off_steps)
    on_line, on_rows, on_base = _timeline(*on, on_steps)
    places = tuple(dict.fromkeys((*wait_places(off_line), *wait_places(on_line))))
    off_line, on_line = with_joins(off_line, places), with_joins(on_line, places)
    off_cost, on_cost = own_costs(off_line, on_line)
    off_work, off_cost = device_work(off_line, off_cost, off_rows, off_base)
    on_work, on_cost = device_work(on_line, on_cost, on_rows, on_base)
    program = merge(
        Arm(off_line, off_cost, off_work),
        Arm(on_line, on_cost, on_work),
        passages,
        off[0].steps.period_ns / 1e3,
        on[0].steps.period_ns / 1e3,
    )
    takes_part = changing_players(program)
    mixes = mixes_of(takes_part)
    return ReplayedClass(matched, program, takes_part, mixes, replay(program, mixes)[:, program.counts])


def _steps(arm: RecordedArm, stretches: list[tuple[int, int]]) -> IntArray:
    """The steps of the passages and those behind them, in which the host waits for their GPU work."""
    read = [np.arange(first, first + count + AFTER_STEPS) for first, count in stretches]
    steps = np.unique(np.concatenate(read))
    return steps[steps < len(arm.steps)]


def _timeline(arm: RecordedArm, trace: Trace, chosen: IntArray):
    windows = windows_of(arm.steps, chosen)
    base = windows[0][0]
    timeline = timeline_of(arm, host_rows(trace, arm.process.pid, windows), chosen, base)
    return timeline, device_rows(trace, arm.process.pid, windows), base


def changing_players(program: Program) -> tuple[bool, ...]:
    """Which players change any cost or any call."""
    host, device = program.host, program.device
    changed = [
        any(bool(costs[:, column].any()) for costs in (host.gap, host.own, host.post, device.delay, device.duration, device.pause))
        for column in range(1, len(COLUMNS))
    ]
    return tuple(changed)
