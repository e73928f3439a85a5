"""The merged program: the operations of both arms, paired, with costs that every cause can switch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.classes import Passage
from cctrace.analyzers.attribution.costs import (
    HOST,
    Costs,
    own_costs_of,
    post_costs_of,
    switched,
)
from cctrace.analyzers.attribution.gpu_program import Arm, DeviceProgram, device_program
from cctrace.analyzers.attribution.pairing import (
    Paired,
    Places,
    Side,
    matching,
    opens,
    paired,
    shared_words,
    translated,
)
from cctrace.analyzers.attribution.ranks import STREAMS
from cctrace.analyzers.attribution.timeline import JOIN, NONE, THREADS, Timeline
from cctrace.analyzers.categories import CATEGORY
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

SAME_MOMENT_US: Final = 0.01
"""Puts what waits behind what it waits for, where both have one time; calls take longer."""


@dataclass(frozen=True, eq=False)
class HostProgram:
    """Operations of host threads in an order in which they can be replayed.

    Attributes:
        passage: number of the passage.
        step: number of the step in the program, leading ones included.
        thread: number of the thread, as in the off arm.
        category: category, as in `Timeline`.
        stream: stream, as in the off arm; NONE if none.
        off: position in the off arm's timeline, NOT_THERE if only the on arm has it.
        on: the same in the on arm.
        off_dependency: position in the program of what a synchronization, stream wait or join refers to in
        the
            off arm, NONE if none.
        on_dependency: the same in the on arm.
        gap: host time before the call.
        own: time in the call without waiting.
        post: from the end of the awaited work to the return; NEVER where the call does not wait.
    """

    passage: IntArray
    step: IntArray
    thread: IntArray
    category: IntArray
    stream: IntArray
    off: IntArray
    on: IntArray
    off_dependency: IntArray
    on_dependency: IntArray
    gap: Costs
    own: Costs
    post: Costs

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, eq=False)
class Program:
    """The merged program of one step class.

    Attributes:
        host: operations of host threads.
        device: operations on the GPU.
        counts: which steps count: those that only lead in do not.
        off_period: measured length of each step in the off arm, µs.
        on_period: the same in the on arm.
        alone: calls that only one arm makes, per arm: (off, on).
    """

    host: HostProgram
    device: DeviceProgram
    counts: BoolArray
    off_period: FloatArray
    on_period: FloatArray
    alone: tuple[int, int]


def merge(
    off: Arm, on: Arm, passages: tuple[Passage, ...], periods: tuple[FloatArray, FloatArray]
) -> Program:
    """The merged program of paired passages.

    Args:
        off: the off arm.
        on: the on arm.
        passages: which steps are replayed.
        periods: measured length of every step of the off and of the on arm, µs.
    """
    first, second = off.timeline, on.timeline
    threads = _matching_lanes(first.thread, second.thread, (first, second), THREADS, mains=True)
    streams = _matching_lanes(first.stream, second.stream, (first, second), STREAMS, mains=False)
    host_pairs = _ordered(_host_pairs(first, second, passages, threads, streams), first)
    places = (
        Places(host_pairs.passage, host_pairs.off, len(first)),
        Places(host_pairs.passage, host_pairs.on, len(second)),
    )
    host = _host_program(host_pairs, off, on, places, translated(second.stream, streams))
    device = device_program(off, on, passages, streams, places)
    off_steps = np.concatenate([np.arange(one.off_first, one.off_first + one.steps) for one in passages])
    on_steps = np.concatenate([np.arange(one.on_first, one.on_first + one.steps) for one in passages])
    return Program(
        host=host,
        device=device,
        counts=np.concatenate([np.arange(one.steps) >= one.lead for one in passages]),
        off_period=periods[0][off_steps],
        on_period=periods[1][on_steps],
        alone=(int((~host_pairs.has_on).sum()), int((~host_pairs.has_off).sum())),
    )


def _matching_lanes(
    off: IntArray, on: IntArray, arms: tuple[Timeline, Timeline], numbers: int, *, mains: bool
) -> dict[int, int]:
    """Thread or stream of the on arm → that of the off arm, rank by rank; ranks keep their numbers."""
    found: dict[int, int] = {}
    for rank in np.unique(np.concatenate((off[off >= 0], on[on >= 0])) // numbers).tolist():
        here, there = off // numbers == rank, on // numbers == rank
        found |= matching(
            (off[here], arms[0].category[here]),
            (on[there], arms[1].category[there]),
            fixed=(rank * numbers,) if mains else (),
        )
    return found


# ---- host operations


def _host_pairs(
    off: Timeline,
    on: Timeline,
    passages: tuple[Passage, ...],
    threads: dict[int, int],
    streams: dict[int, int],
) -> Paired:
    words = shared_words(off.symbols, on.symbols)
    off_keys = _host_keys(off, off.stream, words[0])
    on_keys = _host_keys(on, translated(on.stream, streams), words[1])
    return paired(
        passages,
        Side(off.thread, off.step, off_keys, off.category),
        Side(translated(on.thread, threads), on.step, on_keys, on.category),
    )


def _host_keys(timeline: Timeline, stream: IntArray, words: IntArray) -> IntArray:
    """What a call is: operation, stream, host memory, and the kernel that it launches."""
    symbol = np.where(timeline.category == CATEGORY["kernel"], words[timeline.symbol], 0)
    place = (timeline.category * 16 + timeline.host_memory + 1) * 4096 + stream % 4093 + 1
    return (place * 10_000_019 + symbol).astype(np.int64)


def _ordered(pairs: Paired, off: Timeline) -> Paired:
    """Operations by passage and time, so that every one comes after what it depends on.

    Time is the off arm's: the end of a call that waits, and else the begin; what only the on arm has follows
    the operation before it on its thread.
    """
    moment = np.where(off.is_sync | off.is_copy, off.end, off.start)
    # A wait can end at the very moment of the hand-over.
    moment = np.where(off.is_category(JOIN), off.end + SAME_MOMENT_US, moment)
    time = np.where(pairs.has_off, np.append(moment, 0.0)[pairs.off], -np.inf)
    by_lane = np.lexsort((np.arange(len(pairs)), pairs.lane, pairs.passage))
    pairs = pairs.taken(by_lane)
    filled = _running_maximum(time[by_lane], opens(pairs.lane, pairs.passage))
    return pairs.taken(np.lexsort((np.arange(len(pairs)), filled, pairs.passage)))


def _running_maximum(values: FloatArray, begins: BoolArray) -> FloatArray:
    """Running maximum within groups."""
    known = values[np.isfinite(values)]
    low, span = (float(known.min()), float(np.ptp(known)) + 1.0) if len(known) else (0.0, 1.0)
    lift = np.cumsum(begins) * 2 * span
    return np.asarray(
        np.maximum.accumulate(np.where(np.isfinite(values), values, low) + lift) - lift, np.float64
    )


def _host_program(
    pairs: Paired,
    off: Arm,
    on: Arm,
    places: tuple[Places, Places],
    on_stream: IntArray,
) -> HostProgram:
    first, second = off.timeline, on.timeline
    category = np.where(
        pairs.has_off, np.append(first.category, 0)[pairs.off], np.append(second.category, 0)[pairs.on]
    )
    stream = np.where(
        pairs.has_off, np.append(first.stream, NONE)[pairs.off], np.append(on_stream, NONE)[pairs.on]
    )
    gap = switched(pairs.spent(first.gap, second.gap), HOST)
    gap += switched(pairs.spent(off.cost.excess, on.cost.excess), HOST)
    waited = pairs.values(off.cost.self_wait, on.cost.self_wait)
    own = own_costs_of(
        category,
        pairs.values(off.cost.own, on.cost.own),
        pairs.values(off.cost.toll, on.cost.toll)[1],
        waited[1] - waited[0],
        on.slowdown,
    )
    waits = pairs.values(off.cost.waits.astype(np.float64), on.cost.waits.astype(np.float64))
    post = post_costs_of(
        (waits[0] > 0, waits[1] > 0),
        pairs.values(off.cost.post, on.cost.post),
        pairs.values(off.cost.crypto, on.cost.crypto),
    )
    return HostProgram(
        passage=pairs.passage,
        step=pairs.step,
        thread=pairs.lane,
        category=category,
        stream=stream,
        off=pairs.off,
        on=pairs.on,
        off_dependency=_dependency(pairs.passage, pairs.off, first, places[0]),
        on_dependency=_dependency(pairs.passage, pairs.on, second, places[1]),
        gap=gap,
        own=own,
        post=post,
    )


def _dependency(passage: IntArray, of_arm: IntArray, timeline: Timeline, places: Places) -> IntArray:
    """What each operation refers to, as a position in the program."""
    refers = np.where(timeline.partner >= 0, timeline.partner, timeline.record)
    found = places.of(passage, np.append(refers, NONE)[of_arm])
    # What comes later cannot be waited for: such a reference is a mistake of the pairing.
    return np.where(found < np.arange(len(of_arm)), found, NONE)
