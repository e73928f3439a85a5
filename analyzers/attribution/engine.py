"""From two arms to an attribution: how the parts fit together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cctrace.analyzers.arms import Arm as RecordedArm
from cctrace.analyzers.arms import arm_of, main_pair
from cctrace.analyzers.attribution.breakdown import (
    ClassEffects,
    Knowledge,
    breakdown,
    breakdown_values,
    refused_values,
)
from cctrace.analyzers.attribution.classes import MatchedClass, matched_classes, not_compared
from cctrace.analyzers.attribution.copy_cost import copy_rows
from cctrace.analyzers.attribution.costs import COLUMNS, OVERLAP
from cctrace.analyzers.attribution.device import Elsewhere, device_work
from cctrace.analyzers.attribution.gpu_program import Arm
from cctrace.analyzers.attribution.handover import common_places, with_joins
from cctrace.analyzers.attribution.kernel_times import KernelTimes
from cctrace.analyzers.attribution.knowledge import input_kind, knowledge_of
from cctrace.analyzers.attribution.own_cost import call_slowdown, own_costs
from cctrace.analyzers.attribution.program import Program, merge
from cctrace.analyzers.attribution.ranks import (
    as_rank,
    counterpart,
    holds_collectives,
    joined,
    joined_rows,
    other_ranks,
    rows_as_rank,
)
from cctrace.analyzers.attribution.recorder_tax import recorder_effect, tax_us, without_tax
from cctrace.analyzers.attribution.replay import replay
from cctrace.analyzers.attribution.result import (
    PHASE_NAMES,
    PLAYERS,
    Attribution,
    ClassBreakdown,
    Phases,
    Site,
)
from cctrace.analyzers.attribution.rows import AFTER_STEPS, DeviceRows, device_rows, host_rows, windows_of
from cctrace.analyzers.attribution.shapley import mixes_of, shapley_values
from cctrace.analyzers.attribution.sites import sites_of, visible_cost
from cctrace.analyzers.attribution.timeline import Timeline, timeline_of
from cctrace.analyzers.columns import FloatArray, IntArray
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.provenance import provenance_of
from cctrace.analyzers.results import RESULT_FORMAT_VERSION, microseconds
from cctrace.analyzers.sentences import signed_time, time_text
from cctrace.trace import open_trace


@dataclass(frozen=True, eq=False)
class ReplayedClass:
    """One step class, replayed in every mix of the players that change anything.

    Attributes:
        matched: the class.
        program: its merged program.
        off: operations of the off arm.
        on: operations of the on arm.
        takes_part: which of PLAYERS change anything.
        periods: mixes × steps that count, µs; bit i of a mix's number is the i-th player that takes part.
        recorder: how much longer recording made a mean step of the off and of the on arm, µs.
        quarantined: GPU rows that were left out because they end before, or when, they begin.
        unresolved: part of the synchronizations with events whose record is not known; 0–1.
    """

    matched: MatchedClass
    program: Program
    off: Timeline
    on: Timeline
    takes_part: tuple[bool, ...]
    periods: FloatArray
    recorder: tuple[float, float]
    quarantined: int
    unresolved: float


def attribute(on: Recording, off: Recording, kernel_times: KernelTimes | None = None) -> Attribution:
    """Which cause makes the steps of the on arm longer, and by how much.

    Args:
        on: the recording with confidential computing on, or emulated.
        off: the one with it off.
        kernel_times: GPU times of kernels from another recording; see `kernel_times_of`.

    Returns:
        The attribution of one pair. Where the replay cannot reproduce the recorded steps, or host times are
        distorted, `refused_because` says why and there are no shares.

    Raises:
        UnusableInputError: a recording has no steps to compare, or its file is gone or damaged.
    """
    return attribute_arms(arm_of(off), arm_of(on), kernel_times)


def attribute_arms(off: RecordedArm, on: RecordedArm, kernel_times: KernelTimes | None = None) -> Attribution:
    """As `attribute`, of arms whose steps are found already."""
    matched = matched_classes(off, on)
    replayed = [replayed_class(one, off, on, kernel_times) for one in matched if one.passages]
    knowledge = knowledge_of(off, on, kernel_times=kernel_times is not None)
    effects = [effects_of(one) for one in replayed]
    whole = (sum(one.off_count for one in effects), sum(one.on_count for one in effects))
    classes = tuple(
        _class(one, effect, whole, knowledge, on) for one, effect in zip(replayed, effects, strict=True)
    )
    by_phase = {
        name: [effect for one, effect in zip(replayed, effects, strict=True) if one.matched.phase == name]
        for name in PHASE_NAMES
    }
    phases = Phases(
        **{
            name: breakdown(name, found, whole, knowledge) if found else None
            for name, found in by_phase.items()
        }
    )
    together = (
        breakdown_values("all steps", effects, whole, knowledge) if effects else _nothing(off, on, knowledge)
    )
    labels = tuple(
        dict.fromkeys((*provenance_of(off.recording).warnings, *provenance_of(on.recording).warnings))
    )
    return Attribution(
        **together,
        format_version=RESULT_FORMAT_VERSION,
        headline=_headline(together),
        pairs=1,
        kind_of_input=input_kind(off, on, kernel_times=kernel_times is not None),
        verdict=None,
        verdict_because=None,
        ci_kind=None,
        comparability=(),
        labels=labels,
        phases=phases,
        classes=classes,
        not_compared=not_compared(off, on, matched),
    )


def _headline(together: dict[str, Any]) -> str:
    """What one pair says before its statistics are known."""
    if together["refused_because"]:
        return f"Cannot attribute, because {together['refused_because'][0]}."
    return f"{signed_time(together['delta_us'])} on a step of {time_text(together['off_step_us'])}."


def _nothing(off: RecordedArm, on: RecordedArm, knowledge: Knowledge) -> dict[str, Any]:
    pair = main_pair(off, on)
    steps = [microseconds(float(scope.period_ns.mean())) for scope in (pair.off_scope, pair.on_scope)]
    reason = "the arms have no steps in common that hold the same work"
    return refused_values("all steps", (steps[0], steps[1]), (*knowledge.refused_because, reason))


def replayed_class(
    matched: MatchedClass, off: RecordedArm, on: RecordedArm, kernel_times: KernelTimes | None = None
) -> ReplayedClass:
    """One class, replayed in all mixes.

    Raises:
        UnusableInputError: the file of a recording is gone or damaged.
    """
    passages = matched.passages
    off_line, off_rows, off_base = _read(off, [(one.off_first, one.steps) for one in passages])
    on_line, on_rows, on_base = _read(on, [(one.on_first, one.steps) for one in passages])
    places = common_places(off_line, on_line)
    off_line, off_taken = without_tax(with_joins(off_line, places), tax_us(off))
    on_line, on_taken = without_tax(with_joins(on_line, places), tax_us(on))
    slowdown = call_slowdown(off_line, on_line)
    copies = copy_rows(off_line, off_rows, off_base), copy_rows(on_line, on_rows, on_base)
    off_cost, on_cost = own_costs(off_line, on_line, copies, slowdown)
    elsewhere = None if kernel_times is None else Elsewhere(kernel_times, matched.phase)
    off_work, off_cost = device_work(off_line, off_cost, off_rows, off_base, elsewhere)
    on_work, on_cost = device_work(on_line, on_cost, on_rows, on_base, elsewhere)
    program = merge(
        Arm(off_line, off_cost, off_work),
        Arm(on_line, on_cost, on_work, slowdown),
        passages,
        (off.steps.period_ns / 1e3, on.steps.period_ns / 1e3),
    )
    takes_part = changing_players(program)
    periods = replay(program, mixes_of(takes_part))[:, program.counts]
    recorder = recorder_effect(program, off_taken, on_taken)
    return ReplayedClass(
        matched=matched,
        program=program,
        off=off_line,
        on=on_line,
        takes_part=takes_part,
        periods=periods,
        recorder=recorder,
        quarantined=off_rows.quarantined + on_rows.quarantined,
        unresolved=max(off_line.unresolved, on_line.unresolved),
    )


def _read(arm: RecordedArm, stretches: list[tuple[int, int]]) -> tuple[Timeline, DeviceRows, int]:
    """(operations, GPU rows, time that is zero) of the steps of the passages and those behind them.

    In the steps behind them the host waits for their GPU work. Where GPU rows show collectives, all ranks are
    read: a collective ends when the last of them has come to it.
    """
    read = [np.arange(first, first + count + AFTER_STEPS) for first, count in stretches]
    chosen: IntArray = np.unique(np.concatenate(read))
    chosen = chosen[chosen < len(arm.steps)]
    windows = windows_of(arm.steps, chosen)
    trace, base = open_trace(Path(arm.recording.path)), windows[0][0]
    timelines = [timeline_of(arm, host_rows(trace, arm.process.pid, windows), chosen, base)]
    rows = [device_rows(trace, arm.process.pid, windows)]
    others = other_ranks(arm) if holds_collectives(rows[0]) else ()
    for rank, other in enumerate(others, 1):
        own = counterpart(arm, other, chosen)
        steps = {int(there): int(here) for there, here in zip(own, chosen, strict=True) if there >= 0}
        numbers = np.array(sorted(steps), np.int64)
        pid = other.process.pid
        timeline = timeline_of(other, host_rows(trace, pid, windows), numbers, base)
        timelines.append(as_rank(timeline, rank, steps))
        rows.append(rows_as_rank(device_rows(trace, pid, windows), rank))
    return joined(timelines), joined_rows(rows), base


def changing_players(program: Program) -> tuple[bool, ...]:
    """Which of PLAYERS change any cost; each one that does not halves the mixes."""
    host, device = program.host, program.device
    costs = (host.gap, host.own, host.post, device.delay, device.duration, device.pause)
    return tuple(any(bool(one[:, column].any()) for one in costs) for column in range(1, len(COLUMNS)))


def effects_of(replayed: ReplayedClass) -> ClassEffects:
    """What the replay of a class says of each player."""
    worth, program, counts = replayed.periods.mean(axis=1), replayed.program, replayed.program.counts
    taking_part = np.flatnonzero(replayed.takes_part)
    share, alone, saved = (np.zeros(len(PLAYERS)) for _ in range(3))
    share[taking_part] = shapley_values(worth)
    every = len(worth) - 1
    for bit, player in enumerate(taking_part.tolist()):
        alone[player] = worth[1 << bit] - worth[0]
        saved[player] = worth[every] - worth[every & ~(1 << bit)]
    return ClassEffects(
        off_count=replayed.matched.off_steady,
        on_count=replayed.matched.on_steady,
        compared=int(counts.sum()),
        off_step=float(program.off_period[counts].mean()) - replayed.recorder[0],
        on_step=float(program.on_period[counts].mean()) - replayed.recorder[1],
        off_replayed=float(worth[0]),
        on_replayed=float(worth[-1]),
        share=share,
        alone=alone,
        saved=saved,
        raw=_raw_tolls(replayed),
        recorder=replayed.recorder,
        quarantined=replayed.quarantined,
        unresolved=replayed.unresolved,
    )


def _raw_tolls(replayed: ReplayedClass) -> FloatArray:
    """What calls and GPU work of each player take longer in sum, whether it shows or not; µs per step."""
    program = replayed.program
    host, device, steps = program.host, program.device, max(int(program.counts.sum()), 1)
    rows = np.flatnonzero(program.counts[host.step])
    owner = np.where(device.on_owner >= 0, device.on_owner, device.off_owner)
    work = np.flatnonzero((owner >= 0) & program.counts[host.step[owner]])
    sums = (host.own[rows] + host.gap[rows]).sum(axis=0)
    sums += (device.duration[work] + device.pause[work]).sum(axis=0)
    both = rows[(host.off[rows] >= 0) & (host.on[rows] >= 0)]
    sums[OVERLAP] = visible_cost(host, both, OVERLAP, replayed.on).sum()
    return np.asarray(sums[1:] / steps, np.float64)


def _class(
    replayed: ReplayedClass,
    effects: ClassEffects,
    whole: tuple[int, int],
    knowledge: Knowledge,
    on: RecordedArm,
) -> ClassBreakdown:
    matched = replayed.matched
    values = breakdown_values(matched.off_name, [effects], whole, knowledge)
    sites: Sequence[Site] = ()
    if not values["refused_because"]:
        sites = sites_of(replayed.program, replayed.off, replayed.on, _thread_names(replayed.on, on))
    return ClassBreakdown(
        **values,
        phase=matched.phase,
        off_class=matched.off_name,
        on_class=matched.on_name,
        sites=tuple(sites),
    )


def _thread_names(timeline: Timeline, arm: RecordedArm) -> dict[int, str]:
    """Role and number of each thread of the program; the submitting one is the scheduler if none is named."""
    roles = {
        lane.tid: lane.role
        for lane in arm.recording.metadata.lanes
        if lane.pid == arm.process.pid and lane.kind == "thread" and lane.role
    }
    return {
        number: f"{roles.get(tid, 'submitting thread' if number == 0 else 'thread')} {tid}"
        for number, tid in timeline.threads.items()
    }
