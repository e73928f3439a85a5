"""The GPU work of the merged program: operations of both arms, paired stream by stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.classes import Passage
from cctrace.analyzers.attribution.costs import (
    GPU,
    HOST_COPIES,
    LAUNCH,
    PCIE,
    Costs,
    player_of_work,
    switched,
)
from cctrace.analyzers.attribution.gpu_work import AGREES_US, BOUNDED, KNOWN, SMALL_KINDS, DeviceWork
from cctrace.analyzers.attribution.own_cost import OwnCost
from cctrace.analyzers.attribution.pairing import (
    Paired,
    Places,
    Side,
    first_of_group,
    group_numbers,
    opens,
    paired,
    shared_words,
    translated,
)
from cctrace.analyzers.attribution.timeline import NONE, Timeline
from cctrace.analyzers.categories import CATEGORY
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

_PEER_COPY: Final = CATEGORY["copy p2p"]


@dataclass(frozen=True, eq=False)
class Arm:
    """What is known of one arm.

    Attributes:
        timeline: its operations.
        cost: what they cost.
        work: its GPU work.
        slowdown: how much longer its calls take than those of the off arm because its host is slower.
    """

    timeline: Timeline
    cost: OwnCost
    work: DeviceWork
    slowdown: float = 1.0


@dataclass(frozen=True, eq=False)
class DeviceProgram:
    """Operations on the GPU, in order of (passage, stream, submission).

    Attributes:
        passage: number of the passage.
        stream: number of the stream, as in the off arm where it has one.
        off_owner: position in the host program of the call that submits it in the off arm's structure.
        on_owner: the same in the on arm's structure.
        meeting: number of the collective that it is a part of, with one part on each rank; NONE if none.
        delay: from the begin of the submitting call until an idle stream starts.
        duration: how long it takes; a collective from when all ranks have come to it.
        pause: time that the stream stands still before it.
    """

    passage: IntArray
    stream: IntArray
    off_owner: IntArray
    on_owner: IntArray
    meeting: IntArray
    delay: Costs
    duration: Costs
    pause: Costs

    def __len__(self) -> int:
        return len(self.stream)


def device_program(
    off: Arm,
    on: Arm,
    passages: tuple[Passage, ...],
    streams: dict[int, int],
    places: tuple[Places, Places],
) -> DeviceProgram:
    """Pairs GPU operations stream by stream, apart from the calls that submit them.

    One graph in one arm and its pieces in the other then still match kernel by kernel.
    """
    pairs = _device_pairs(off, on, passages, streams, places)
    pairs = pairs.taken(np.lexsort((np.arange(len(pairs)), pairs.lane, pairs.passage)))
    first, second = off.work, on.work
    owners = (
        places[0].of(pairs.passage, np.append(first.owner, NONE)[pairs.off]),
        places[1].of(pairs.passage, np.append(second.owner, NONE)[pairs.on]),
    )
    kind, meets = (
        np.where(pairs.has_off, np.append(one, 0)[pairs.off], np.append(other, 0)[pairs.on])
        for one, other in ((first.kind, second.kind), (first.meeting, second.meeting))
    )
    between_gpus = _is_peer_copy(pairs, off, on) | _in_exchanging_steps(pairs, kind, first, second)
    durations = _durations(pairs, first, second)
    delay = switched(pairs.values(first.delay, second.delay), LAUNCH)
    toll = pairs.values(_owned(off), _owned(on))[1]
    copies, toll = np.isfinite(toll), np.nan_to_num(toll)
    delay[copies, PCIE] += (delay[:, LAUNCH] - np.minimum(toll, np.maximum(delay[:, LAUNCH], 0.0)))[copies]
    delay[copies, LAUNCH] -= delay[copies, PCIE]
    # No copy is faster with encryption: what it seems to gain was shared out to other work of the stream.
    over_pcie = copies & (durations[1] >= durations[0] - AGREES_US)
    return DeviceProgram(
        passage=pairs.passage,
        stream=pairs.lane,
        off_owner=_inherited(owners[0], pairs),
        on_owner=_inherited(owners[1], pairs),
        meeting=_meetings(pairs, meets),
        delay=delay,
        duration=switched(durations, player_of_work(over_pcie, (meets >= 0) | between_gpus)),
        pause=switched(pairs.spent(first.pause, second.pause), GPU),
    )


def _owned(arm: Arm) -> FloatArray:
    """Launch toll of the copy that each GPU operation is, NaN for other work."""
    is_host_copy = arm.timeline.is_category(*HOST_COPIES)[arm.work.owner]
    return np.where(is_host_copy, arm.cost.toll[arm.work.owner], np.nan)


def _is_peer_copy(pairs: Paired, off: Arm, on: Arm) -> BoolArray:
    of_off, of_on = (arm.timeline.is_category(_PEER_COPY)[arm.work.owner] for arm in (off, on))
    is_peer: BoolArray = np.append(of_off, False)[pairs.off] | np.append(of_on, False)[pairs.on]
    return is_peer


def _in_exchanging_steps(pairs: Paired, kind: IntArray, off: DeviceWork, on: DeviceWork) -> BoolArray:
    """Kernels and graphs of steps in which another recording shows collectives.

    GPU-local work takes the same time in both arms, so what the work of such steps takes longer, they take.
    """
    exchanges = np.append(off.exchanges, False)[pairs.off] | np.append(on.exchanges, False)[pairs.on]
    steps = np.unique(pairs.step[exchanges])
    inside: BoolArray = np.isin(pairs.step, steps) & ~np.isin(kind, SMALL_KINDS)
    return inside


def _device_pairs(
    off: Arm,
    on: Arm,
    passages: tuple[Passage, ...],
    streams: dict[int, int],
    places: tuple[Places, Places],
) -> Paired:
    words = shared_words(off.work.symbols, on.work.symbols)
    sides = [
        Side(
            lane,
            arm.timeline.step[arm.work.owner],
            _device_keys(arm.work, place.last[arm.work.owner], numbers),
            arm.work.kind,
        )
        for arm, lane, place, numbers in (
            (off, off.work.stream, places[0], words[0]),
            (on, translated(on.work.stream, streams), places[1], words[1]),
        )
    ]
    return paired(passages, sides[0], sides[1])


def _device_keys(work: DeviceWork, place: IntArray, words: IntArray) -> IntArray:
    """What a GPU operation is: kernels and graphs by name; a copy is the one that its call submits."""
    by_name = words[work.symbol] * 8 + work.kind
    return np.where(np.isin(work.kind, SMALL_KINDS), -2 - place, by_name).astype(np.int64)


def _inherited(owner: IntArray, pairs: Paired) -> IntArray:
    """Who submits an operation that an arm lacks: whoever submits its neighbour, best the one before."""
    count = len(owner)
    begin = first_of_group(opens(pairs.lane, pairs.passage))
    latest = np.maximum.accumulate(np.where(owner >= 0, np.arange(count), NONE)) if count else owner
    later = (
        np.minimum.accumulate(np.where(owner >= 0, np.arange(count), count)[::-1])[::-1] if count else owner
    )
    chosen = np.where(latest >= begin, latest, np.where(later < count, later, NONE))
    return np.where(chosen >= 0, owner[chosen], NONE)


def _meetings(pairs: Paired, meets: IntArray) -> IntArray:
    """Number of each collective within the program: its passage, its step, and its number there."""
    if not (meets >= 0).any():
        return np.full(len(pairs), NONE, np.int64)
    return np.where(meets >= 0, group_numbers(pairs.passage, pairs.step, meets), NONE)


def _durations(pairs: Paired, off: DeviceWork, on: DeviceWork) -> tuple[FloatArray, FloatArray]:
    """Durations in both arms.

    What only one arm shows holds for both, as far as the other allows it: GPU-local work runs at the same
    speed with confidential computing. Unknown work takes what the same place in other steps shows, else its
    nominal time, which is none for a kernel: it never kept the host waiting.
    """
    slot = _slots(pairs)
    first, first_limit = _one_arm(pairs.off, off, slot)
    second, second_limit = _one_arm(pairs.on, on, slot)
    neither = np.isnan(first) & np.isnan(second)
    nominal = pairs.values(off.nominal, on.nominal)[0]
    first, second = np.where(neither, nominal, first), np.where(neither, nominal, second)
    off_time = np.minimum(np.where(np.isnan(first), second, first), first_limit) * pairs.has_off
    on_time = np.minimum(np.where(np.isnan(second), first, second), second_limit) * pairs.has_on
    return off_time, on_time


def _one_arm(rows: IntArray, work: DeviceWork, slot: IntArray) -> tuple[FloatArray, FloatArray]:
    """(known durations, else those usual at the place, else NaN; the longest possible) of one arm."""
    state = np.append(work.state, NONE)[rows]
    known = state == KNOWN
    duration = np.where(known, np.append(work.duration, np.nan)[rows], np.nan)
    limit = np.where(state == BOUNDED, np.append(work.longest, np.inf)[rows], np.inf)
    usual = _usual(slot, duration)
    return np.where(known, duration, np.minimum(usual, limit)), limit


def _slots(pairs: Paired) -> IntArray:
    """Number of each operation's place: its stream, and how many come before it there in its step."""
    first = first_of_group(opens(pairs.lane, pairs.step))
    return group_numbers(pairs.lane, np.arange(len(pairs)) - first)


def _usual(slot: IntArray, values: FloatArray) -> FloatArray:
    """Median of the values at each place; NaN where most are not known.

    The few steps in which the host had to wait are those in which the GPU took longest.
    """
    if not len(slot):
        return values
    order = np.lexsort((values, slot))  # NaN comes last
    begins = np.flatnonzero(opens(slot[order]))
    known = np.add.reduceat(np.isfinite(values[order]).astype(np.int64), begins)
    size = np.diff(np.append(begins, len(slot)))
    median = values[order[begins + np.maximum(known - 1, 0) // 2]]
    return np.asarray(np.where(known * 2 >= size, median, np.nan)[slot], np.float64)
