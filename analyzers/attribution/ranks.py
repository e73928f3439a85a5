"""Several ranks of one arm as one timeline: collectives couple the GPUs of all of them.

Threads and streams of the n-th rank get numbers of their own; its steps are those of the first rank that they
begin with. Where no collective can be seen, nothing couples the ranks, and the first one stands for all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from cctrace.analyzers.arms import Arm
from cctrace.analyzers.attribution.collectives import any_collective
from cctrace.analyzers.attribution.rows import DeviceRows
from cctrace.analyzers.attribution.timeline import COLUMNS, NONE, THREADS, Timeline
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.steps import NoSteps

STREAMS: Final = 1_000_000
"""Numbers of streams of one rank: those of the n-th rank begin at n times this."""
_CORRELATIONS: Final = 1 << 44
MAX_RANKS: Final = 8
"""Ranks that are replayed together: the GPUs of one host."""
MAX_SHIFT: Final = 0.5
"""Steps of two ranks are the same one if they begin within this part of a step."""


def other_ranks(arm: Arm) -> tuple[Arm, ...]:
    """Further processes of a recording that run the same steps at the same time, by pid."""
    found = []
    for process in arm.recording.processes:
        if process.pid == arm.process.pid or not process.calls.work_count:
            continue
        steps = process.steps
        if isinstance(steps, NoSteps):
            continue
        candidate = Arm(arm.recording, process, steps, 0)
        if (counterpart(arm, candidate, np.arange(len(arm.steps))) != NONE).mean() > MAX_SHIFT:
            found.append(candidate)
    return tuple(found[: MAX_RANKS - 1])


def counterpart(arm: Arm, other: Arm, chosen: IntArray) -> IntArray:
    """For each chosen step of an arm's process the step of another process that runs with it, else NONE."""
    start = arm.steps.start_ns[chosen]
    starts = other.steps.start_ns
    after = np.clip(np.searchsorted(starts, start), 1, max(len(starts) - 1, 1))
    if len(starts) < 2:
        return np.full(len(chosen), NONE, np.int64)
    nearest = np.where(start - starts[after - 1] <= starts[after] - start, after - 1, after)
    close = np.abs(starts[nearest] - start) <= MAX_SHIFT * arm.steps.period_ns[chosen]
    return np.where(close, nearest, NONE)


def as_rank(timeline: Timeline, rank: int, steps: dict[int, int]) -> Timeline:
    """A process's timeline with the numbers of a rank; `steps` translates its steps to the first rank's."""
    found, index = np.unique(timeline.step, return_inverse=True)
    translated = np.array([steps[one] for one in found.tolist()], np.int64)
    return replace(
        timeline,
        thread=timeline.thread + rank * THREADS,
        step=translated[index.reshape(-1)] if len(found) else timeline.step,
        stream=np.where(timeline.stream >= 0, timeline.stream + rank * STREAMS, NONE),
        correlation=np.where(timeline.correlation >= 0, timeline.correlation + rank * _CORRELATIONS, NONE),
        threads={number + rank * THREADS: tid for number, tid in timeline.threads.items()},
    )


def joined(timelines: list[Timeline]) -> Timeline:
    """The timelines of all ranks as one."""
    if len(timelines) == 1:
        return timelines[0]
    words = tuple(dict.fromkeys(word for one in timelines for word in one.symbols))
    number = {word: index for index, word in enumerate(words)}
    columns: dict[str, Any] = {name: [] for name in COLUMNS}
    before = 0
    for one in timelines:
        translation = np.array([*(number[word] for word in one.symbols), NONE], np.int64)
        moved = {
            "symbol": translation[one.symbol],
            "record": np.where(one.record >= 0, one.record + before, NONE),
            "partner": np.where(one.partner >= 0, one.partner + before, NONE),
        }
        for name in COLUMNS:
            columns[name].append(moved.get(name, getattr(one, name)))
        before += len(one)
    threads = {number: tid for one in timelines for number, tid in one.threads.items()}
    return Timeline(
        **{name: np.concatenate(parts) for name, parts in columns.items()}, symbols=words, threads=threads
    )


def rows_as_rank(rows: DeviceRows, rank: int) -> DeviceRows:
    """A process's GPU rows with the numbers of a rank."""
    return replace(
        rows,
        stream=np.where(rows.stream >= 0, rows.stream + rank * STREAMS, NONE),
        correlation=rows.correlation.astype(np.int64) + rank * _CORRELATIONS,
    )


def joined_rows(rows: list[DeviceRows]) -> DeviceRows:
    """The GPU rows of all ranks as one; correlations of later ranks are larger, so the order holds."""
    if len(rows) == 1:
        return rows[0]
    words = tuple(dict.fromkeys(word for one in rows for word in one.names))
    number = {word: index for index, word in enumerate(words)}
    names = [
        np.array([*(number[word] for word in one.names), NONE], np.int64)[one.name.astype(np.int64)]
        for one in rows
    ]
    return DeviceRows(
        kind=np.concatenate([one.kind for one in rows]),
        name=np.concatenate(names),
        start_ns=np.concatenate([one.start_ns for one in rows]),
        end_ns=np.concatenate([one.end_ns for one in rows]),
        stream=np.concatenate([one.stream for one in rows]),
        correlation=np.concatenate([one.correlation for one in rows]),
        names=words,
        quarantined=sum(one.quarantined for one in rows),
    )


def holds_collectives(rows: DeviceRows) -> bool:
    """Whether GPU rows show collectives."""
    return any_collective(rows.names)
