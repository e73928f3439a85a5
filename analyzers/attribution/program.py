"""The merged program: the operations of both arms, paired, with costs that every cause can switch.

A cost is a row of coefficients over COLUMNS: what it is in the off arm, and what each player adds when it is
switched to the on arm. With a 0 or 1 for every player, the dot product is the cost in that mix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cctrace.analyzers.attribution.align import NOT_THERE, Aligner
from cctrace.analyzers.attribution.classes import Passage
from cctrace.analyzers.attribution.device import BOUNDED, KNOWN, DeviceWork
from cctrace.analyzers.attribution.own_cost import OwnCost
from cctrace.analyzers.attribution.result import PLAYERS
from cctrace.analyzers.attribution.timeline import BOUNDARY, JOIN, NONE, SUBMITTING, Timeline
from cctrace.analyzers.categories import CATEGORIES, CATEGORY, ORDER, WAIT, WORK, group_of
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

COLUMNS: Final = ("off", *PLAYERS)
"""Columns of a cost: its value in the off arm, then what each player adds."""
OFF, LAUNCH, PCIE, OVERLAP, NVLINK, HOST, GPU = range(len(COLUMNS))
Costs = npt.NDArray[np.float64]
"""Costs by operation (rows) and COLUMNS, µs."""

NEVER: Final = -1e9
"""Added to a dependency that does not exist in a mix, µs: it is then never the latest one."""
_PINNED_ALLOCATION: Final = ("host-alloc", "host-free", "host-register", "host-unregister")
_HOST_COPIES: Final = (CATEGORY["copy h2d"], CATEGORY["copy d2h"])
_PEER_COPY: Final = CATEGORY["copy p2p"]


@dataclass(frozen=True, eq=False)
class Arm:
    """What is known of one arm: its operations, what they cost, and its GPU work."""

    timeline: Timeline
    cost: OwnCost
    work: DeviceWork


@dataclass(frozen=True, eq=False)
class HostProgram:
    """Operations of host threads in an order in which they can be replayed.

    Attributes:
        passage: number of the passage.
        step: number of the step in the program, leading ones included.
        thread: number of the thread.
        category: position in CATEGORIES, BOUNDARY or JOIN.
        off: position in the off arm's timeline, NOT_THERE if only the on arm has it.
        on: the same in the on arm.
        gap: host time before the call.
        own: time in the call without waiting.
        post: from the end of the awaited GPU work to the return; NEVER where the call does not wait.
    """

    passage: IntArray
    step: IntArray
    thread: IntArray
    category: IntArray
    off: IntArray
    on: IntArray
    gap: Costs
    own: Costs
    post: Costs

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, eq=False)
class DeviceProgram:
    """Operations on the GPU, in order of (passage, stream, submission).

    Attributes:
        passage: number of the passage.
        stream: number of the stream, as in the off arm where it has one.
        off_owner: position in the host program of the call that submits it in the off arm's structure.
        on_owner: the same in the on arm's structure.
        delay: from the begin of the submitting call until an idle stream starts.
        duration: how long it takes.
        pause: time that the stream stands still before it.
    """

    passage: IntArray
    stream: IntArray
    off_owner: IntArray
    on_owner: IntArray
    delay: Costs
    duration: Costs
    pause: Costs

    def __len__(self) -> int:
        return len(self.stream)


@dataclass(frozen=True, eq=False)
class Program:
    """The merged program of one step class.

    Attributes:
        host: operations of host threads.
        device: operations on the GPU.
        counts: which steps count: those that only lead in do not.
        off_period: measured length of each step in the off arm, µs.
        on_period: the same in the on arm.
        off_dependency: position in the host program of the operation that a synchronization, stream wait or
            join refers to in the off arm, NONE if none.
        on_dependency: the same in the on arm.
        stream: number of the stream of each host operation, NONE if none.
        alone: calls that only one arm makes, per arm: (off, on).
        unknown_device: part of the GPU operations whose time neither arm shows; 0–1.
    """

    host: HostProgram
    device: DeviceProgram
    counts: BoolArray
    off_period: FloatArray
    on_period: FloatArray
    off_dependency: IntArray
    on_dependency: IntArray
    stream: IntArray
    alone: tuple[int, int]
    unknown_device: float


@dataclass(frozen=True, eq=False)
class _Merged:
    """Pairs of operations with the passage and step they lie in."""

    passage: IntArray
    step: IntArray
    lane: IntArray
    off: IntArray
    on: IntArray


def merge(
    off: Arm,
    on: Arm,
    passages: tuple[Passage, ...],
    periods: tuple[FloatArray, FloatArray],
    slowdown: float,
) -> Program:
    """The merged program of paired passages.

    Args:
        off: the off arm.
        on: the on arm.
        passages: which steps are replayed.
        periods: measured length of every step of the off and of the on arm, µs.
        slowdown: how much longer calls take in the on arm because its host is slower.
    """
    aligner = Aligner()
    threads = _matching(off.timeline.thread, on.timeline.thread, off.timeline, on.timeline, fixed=SUBMITTING)
    streams = _matching(off.timeline.stream, on.timeline.stream, off.timeline, on.timeline)
    merged = _merge_host(off.timeline, on.timeline, passages, threads, streams, aligner)
    merged = _ordered(merged, off.timeline, on.timeline)
    off_places, on_places = _Places(merged.passage, merged.off, len(off.timeline)), _Places(merged.passage, merged.on, len(on.timeline))
    host = _host_program(merged, off, on, slowdown)
    device, unknown = _merge_device(off, on, passages, streams, aligner, (off_places, on_places))
    steps_off = np.concatenate([np.arange(one.off_first, one.off_first + one.steps) for one in passages])
    steps_on = np.concatenate([np.arange(one.on_first, one.on_first + one.steps) for one in passages])
    return Program(
        host=host,
        device=device,
        counts=np.concatenate([np.arange(one.steps) >= one.lead for one in passages]),
        off_period=periods[0][steps_off],
        on_period=periods[1][steps_on],
        off_dependency=_dependency(merged.passage, merged.off, off.timeline, off_places),
        on_dependency=_dependency(merged.passage, merged.on, on.timeline, on_places),
        stream=_streams(merged, off.timeline, on.timeline, streams),
        alone=(int((merged.on == NOT_THERE).sum()), int((merged.off == NOT_THERE).sum())),
        unknown_device=unknown,
    )


# ---- pairing


def _matching(
    off_lane: IntArray, on_lane: IntArray, off: Timeline, on: Timeline, fixed: int | None = None
) -> dict[int, int]:
    """Thread or stream of the on arm → the one of the off arm that does the same work.

    Numbers follow the order of first use, which may differ between two runs. Lanes are paired by the calls
    that they hold, the most similar first; `fixed` is paired with itself.
    """
    off_counts, on_counts = _signatures(off_lane, off), _signatures(on_lane, on)
    matching = {} if fixed is None else {fixed: fixed}
    scores = [
        (float(np.minimum(first, second).sum() / max(first.sum(), second.sum())), -there, here)
        for here, first in off_counts.items()
        for there, second in on_counts.items()
    ]
    for score, there, here in sorted(scores, reverse=True):
        if score > 0 and -there not in matching and here not in matching.values():
            matching[-there] = here
    return matching


def _signatures(lane: IntArray, timeline: Timeline) -> dict[int, IntArray]:
    found = np.unique(lane[lane >= 0]).tolist()
    return {one: np.bincount(timeline.category[lane == one], minlength=JOIN + 1) for one in found}


def _translated(lane: IntArray, matching: dict[int, int]) -> IntArray:
    """Lanes of the on arm as those of the off arm; without a counterpart they get numbers of their own."""
    found, index = np.unique(lane, return_inverse=True)
    numbers = [one if one < 0 else matching.get(one, 1_000_000 + one) for one in found.tolist()]
    return np.array(numbers, np.int64)[index.reshape(-1)] if len(found) else lane.astype(np.int64)


def _merge_host(
    off: Timeline,
    on: Timeline,
    passages: tuple[Passage, ...],
    threads: dict[int, int],
    streams: dict[int, int],
    aligner: Aligner,
) -> _Merged:
    words = _shared_words(off.symbols, on.symbols)
    off_keys = _host_keys(off, off.stream, words[0])
    on_keys = _host_keys(on, _translated(on.stream, streams), words[1])
    categories = (off.category, on.category)
    off_rows, on_rows = _by_lane(off.thread, off.step), _by_lane(_translated(on.thread, threads), on.step)
    return _merge(passages, off_rows, on_rows, (off_keys, on_keys), categories, aligner)


def _host_keys(timeline: Timeline, stream: IntArray, words: IntArray) -> IntArray:
    """What a call is: operation, stream, host memory, and the kernel that it launches."""
    symbol = np.where(timeline.category == CATEGORY["kernel"], words[timeline.symbol], 0)
    place = (timeline.category * 16 + timeline.host_memory + 1) * 2_000_003 + stream + 1
    return (place * 1_000_003 + symbol).astype(np.int64)


def _shared_words(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[IntArray, IntArray]:
    """Numbers of words that mean the same in both arms; the last entry stands for no word."""
    number = {word: index + 1 for index, word in enumerate(dict.fromkeys((*first, *second)))}
    return (
        np.array([*(number[word] for word in first), 0], np.int64),
        np.array([*(number[word] for word in second), 0], np.int64),
    )


_Rows = dict[tuple[int, int], IntArray]


def _by_lane(lane: IntArray, step: IntArray) -> _Rows:
    """Positions by (lane, step), in order."""
    order = np.lexsort((np.arange(len(lane)), step, lane))
    change = np.flatnonzero((np.diff(lane[order]) != 0) | (np.diff(step[order]) != 0)) + 1
    groups = np.split(order, change) if len(order) else []
    return {(int(lane[group[0]]), int(step[group[0]])): group for group in groups}


def _merge(
    passages: tuple[Passage, ...],
    off_rows: _Rows,
    on_rows: _Rows,
    keys: tuple[IntArray, IntArray],
    categories: tuple[IntArray, IntArray],
    aligner: Aligner,
) -> _Merged:
    lanes = sorted({lane for lane, _ in off_rows} | {lane for lane, _ in on_rows})
    none = np.zeros(0, np.int64)
    parts: list[tuple[IntArray, IntArray, int, int, int]] = []
    step = 0
    for number, passage in enumerate(passages):
        for offset in range(passage.steps):
            for lane in lanes:
                first = off_rows.get((lane, passage.off_first + offset), none)
                second = on_rows.get((lane, passage.on_first + offset), none)
                if len(first) or len(second):
                    left, right = _step_pairs(first, second, keys, categories, aligner)
                    parts.append((left, right, number, step, lane))
            step += 1
    lengths = [len(part[0]) for part in parts]
    return _Merged(
        passage=np.repeat(np.array([part[2] for part in parts], np.int64), lengths),
        step=np.repeat(np.array([part[3] for part in parts], np.int64), lengths),
        lane=np.repeat(np.array([part[4] for part in parts], np.int64), lengths),
        off=np.concatenate([part[0] for part in parts]),
        on=np.concatenate([part[1] for part in parts]),
    )


def _step_pairs(
    first: IntArray,
    second: IntArray,
    keys: tuple[IntArray, IntArray],
    categories: tuple[IntArray, IntArray],
    aligner: Aligner,
) -> tuple[IntArray, IntArray]:
    """Pairs of one step and lane as positions in both arms."""
    left, right = aligner.pairs(
        keys[0][first], keys[1][second], categories[0][first], categories[1][second]
    )
    return _at(first, left), _at(second, right)


def _at(rows: IntArray, index: IntArray) -> IntArray:
    if not len(rows):
        return np.full(len(index), NOT_THERE, np.int64)
    return np.where(index >= 0, rows[index], NOT_THERE)


def _ordered(merged: _Merged, off: Timeline, on: Timeline) -> _Merged:
    """Operations by passage and time, so that every one comes after what it depends on.

    Time is the off arm's; what only the on arm has follows the operation before it on its thread.
    """
    del on
    time = np.where(merged.off >= 0, off.start[merged.off], -np.inf)
    order = np.lexsort((np.arange(len(time)), merged.lane, merged.passage))
    lane, passage = merged.lane[order], merged.passage[order]
    opens = np.concatenate(([True], (np.diff(lane) != 0) | (np.diff(passage) != 0)))
    filled = _running_maximum(time[order], opens)
    again = np.lexsort((np.arange(len(order)), filled, passage))
    rows = order[again]
    return _Merged(*(getattr(merged, name)[rows] for name in _Merged.__dataclass_fields__))


def _running_maximum(values: FloatArray, opens: BoolArray) -> FloatArray:
    """Running maximum within groups that begin where `opens` is set."""
    group = np.cumsum(opens)
    finite = values[np.isfinite(values)]
    span = float(finite.max() - finite.min()) + 1.0 if len(finite) else 1.0
    low = float(finite.min()) if len(finite) else 0.0
    shifted = np.where(np.isfinite(values), values, low - 0.5) + group * 2 * span
    return np.asarray(np.maximum.accumulate(shifted) - group * 2 * span, np.float64)


class _Places:
    """Where the operations of an arm lie in the program; a step that leads in can lie in two passages."""

    def __init__(self, passage: IntArray, of_arm: IntArray, length: int) -> None:
        there = np.flatnonzero(of_arm >= 0)
        self._width = length
        key = passage[there] * self._width + of_arm[there]
        order = np.argsort(key)
        self._key, self._place = key[order], there[order]
        self.last = np.full(self._width + 1, NONE, np.int64)
        """Position of each operation in the last passage that holds it; the last entry stands for none."""
        self.last[of_arm[there]] = there

    def of(self, passage: IntArray, operation: IntArray) -> IntArray:
        """Positions in the program, NONE for operations that are not in the passage."""
        key = np.where((operation >= 0) & (operation < self._width), passage * self._width + operation, -1)
        at = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        return np.where(self._key[at] == key, self._place[at], NONE)


def _dependency(passage: IntArray, of_arm: IntArray, timeline: Timeline, places: _Places) -> IntArray:
    """What each operation refers to, as a position in the program."""
    refers = np.where(timeline.partner >= 0, timeline.partner, timeline.record)
    found = places.of(passage, np.append(refers, NONE)[of_arm])
    # What comes later cannot be waited for: such a reference is a mistake of the pairing.
    return np.where(found < np.arange(len(of_arm)), found, NONE)


def _streams(merged: _Merged, off: Timeline, on: Timeline, streams: dict[int, int]) -> IntArray:
    of_off = np.append(off.stream, NONE)[merged.off]
    of_on = np.append(_translated(on.stream, streams), NONE)[merged.on]
    return np.where(merged.off >= 0, of_off, of_on)


# ---- costs of host operations


def _host_program(merged: _Merged, off: Arm, on: Arm, slowdown: float) -> HostProgram:
    has_off, has_on = merged.off >= 0, merged.on >= 0
    category = np.where(
        has_off,
        np.append(off.timeline.category, 0)[merged.off],
        np.append(on.timeline.category, 0)[merged.on],
    )

    def both(values: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A cost in both arms; what one lacks costs there what it does in the other."""
        first, second = np.append(values, 0.0)[merged.off], np.append(others, 0.0)[merged.on]
        return np.where(has_off, first, second), np.where(has_on, second, first)

    def spent(values: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Host time of both arms; where one lacks the call it does not spend the time."""
        return np.append(values, 0.0)[merged.off] * has_off, np.append(others, 0.0)[merged.on] * has_on

    gap = _switched(*spent(off.timeline.gap, on.timeline.gap), HOST)
    gap += _switched(*spent(off.cost.excess, on.cost.excess), HOST)
    toll, waited = both(off.cost.toll, on.cost.toll)[1], both(off.cost.self_wait, on.cost.self_wait)
    own = _own_costs(category, both(off.cost.own, on.cost.own), toll, waited[1] - waited[0])
    _share_speed(own, category, slowdown)
    waits = both(off.cost.waits * 1.0, on.cost.waits * 1.0)
    post = _post_costs(category, waits, both(off.cost.post, on.cost.post))
    return HostProgram(
        passage=merged.passage,
        step=merged.step,
        thread=merged.lane,
        category=category,
        off=merged.off,
        on=merged.on,
        gap=gap,
        own=own,
        post=post,
    )


def _switched(off: FloatArray, on: FloatArray, player: int | IntArray) -> Costs:
    """Costs that one player switches from the off arm's value to the on arm's."""
    costs = np.zeros((len(off), len(COLUMNS)))
    costs[:, OFF] = off
    costs[np.arange(len(off)), player] += on - off
    return costs


def _player_of_call() -> IntArray:
    """The player that switches the own cost of a call, by category."""
    players = np.full(JOIN + 1, HOST, np.int64)
    for number, category in enumerate(CATEGORIES):
        if group_of(category) in (WORK, ORDER, WAIT):
            players[number] = LAUNCH
        elif category in _PINNED_ALLOCATION:
            players[number] = PCIE
    return players


_PLAYER_OF_CALL: Final = _player_of_call()


def _own_costs(
    category: IntArray, own: tuple[FloatArray, FloatArray], toll: FloatArray, self_wait: FloatArray
) -> Costs:
    """Own costs; of a copy between host and GPU launch toll, waiting for itself and the rest are three players'."""
    off, on = own
    costs = _switched(off, on, _PLAYER_OF_CALL[category])
    copies = np.isin(category, _HOST_COPIES)
    part = np.where(np.isfinite(toll), toll, 0.0)
    costs[copies, LAUNCH] = part[copies]
    costs[copies, OVERLAP] = self_wait[copies]
    costs[copies, PCIE] = (on - off - part - self_wait)[copies]
    return costs


def _share_speed(own: Costs, category: IntArray, slowdown: float) -> None:
    """Gives the host what calls take longer because it is slower, and takes it from tolls."""
    slower = own[:, OFF] * (slowdown - 1.0)
    copies = np.isin(category, _HOST_COPIES)
    player = np.where(copies, PCIE, _PLAYER_OF_CALL[category])
    own[np.arange(len(own)), player] -= slower
    own[:, HOST] += slower


def _post_costs(
    category: IntArray, waits: tuple[FloatArray, FloatArray], post: tuple[FloatArray, FloatArray]
) -> Costs:
    """What is added to the end of the awaited work; whether a copy waits at all is the overlap player's."""
    off, on = (np.where(waiting > 0, after, NEVER) for waiting, after in zip(waits, post, strict=True))
    player = np.where((category < BOUNDARY) & (waits[0] != waits[1]), OVERLAP, LAUNCH)
    return _switched(off, on, player)


# ---- GPU operations


def _merge_device(
    off: Arm,
    on: Arm,
    passages: tuple[Passage, ...],
    streams: dict[int, int],
    aligner: Aligner,
    places: tuple[_Places, _Places],
) -> tuple[DeviceProgram, float]:
    """Pairs GPU operations stream by stream, apart from the calls that submit them.

    One graph in one arm and its pieces in the other then still match kernel by kernel.
    """
    words = _shared_words(off.work.symbols, on.work.symbols)
    off_stream, on_stream = off.work.stream, _translated(on.work.stream, streams)
    copies = places[0].last[off.work.owner], places[1].last[on.work.owner]
    keys = _device_keys(off.work, copies[0], words[0]), _device_keys(on.work, copies[1], words[1])
    kinds = off.work.kind, on.work.kind
    off_rows = _by_lane(off_stream, off.timeline.step[off.work.owner])
    on_rows = _by_lane(on_stream, on.timeline.step[on.work.owner])
    merged = _merge(passages, off_rows, on_rows, keys, kinds, aligner)
    order = np.lexsort((np.arange(len(merged.off)), merged.lane, merged.passage))
    merged = _Merged(*(getattr(merged, name)[order] for name in _Merged.__dataclass_fields__))
    owners = (
        places[0].of(merged.passage, np.append(off.work.owner, NONE)[merged.off]),
        places[1].of(merged.passage, np.append(on.work.owner, NONE)[merged.on]),
    )
    return _device_program(merged, off.work, on.work, owners)


def _device_keys(work: DeviceWork, place: IntArray, words: IntArray) -> IntArray:
    """What a GPU operation is: kernels and graphs by name; a copy is the one that its call submits."""
    by_name = words[work.symbol] * 8 + work.kind
    return np.where(np.isin(work.kind, (2, 3)), -2 - place, by_name).astype(np.int64)


def _device_program(
    merged: _Merged, off: DeviceWork, on: DeviceWork, owners: tuple[IntArray, IntArray]
) -> tuple[DeviceProgram, float]:
    has_off, has_on = merged.off >= 0, merged.on >= 0
    kind = np.where(has_off, np.append(off.kind, 0)[merged.off], np.append(on.kind, 0)[merged.on])
    first, second, unknown = _durations(merged, off, on)
    delay = np.append(off.delay, 0.0)[merged.off], np.append(on.delay, 0.0)[merged.on]
    pause = np.append(off.pause, 0.0)[merged.off] * has_off, np.append(on.pause, 0.0)[merged.on] * has_on
    delay = np.where(has_off, delay[0], delay[1]), np.where(has_on, delay[1], delay[0])
    player = np.where(kind == 2, PCIE, GPU)
    program = DeviceProgram(
        passage=merged.passage,
        stream=merged.lane,
        off_owner=_inherited(owners[0], merged),
        on_owner=_inherited(owners[1], merged),
        delay=_switched(*delay, LAUNCH),
        duration=_switched(first, second, player),
        pause=_switched(*pause, GPU),
    )
    return program, unknown


def _inherited(owner: IntArray, merged: _Merged) -> IntArray:
    """Who submits an operation that an arm lacks: whoever submits the one before it in the stream."""
    group = merged.passage * (int(merged.lane.max(initial=0)) + 1) + merged.lane
    opens = np.concatenate(([True], np.diff(group) != 0)) if len(group) else np.zeros(0, np.bool_)
    index = np.where(owner >= 0, np.arange(len(owner)), NONE)
    start = np.maximum.accumulate(np.where(opens, np.arange(len(owner)), 0))
    latest = np.maximum.accumulate(index)
    after = np.where(owner >= 0, np.arange(len(owner)), len(owner))
    following = np.minimum.accumulate(after[::-1])[::-1] if len(owner) else after
    following = np.where(following < len(owner), following, NONE)
    chosen = np.where(latest >= start, latest, following)
    return np.where(chosen >= 0, owner[chosen], NONE)


def _durations(merged: _Merged, off: DeviceWork, on: DeviceWork) -> tuple[FloatArray, FloatArray, float]:
    """Durations in both arms, and the part of the operations of which neither arm shows one.

    What only one arm shows holds for both, as far as the other allows it: GPU-local work runs at the same
    speed with confidential computing. Unknown work takes what the same place in other steps shows, else its
    nominal time, which is none for a kernel: it never kept the host waiting.
    """
    has_off, has_on = merged.off >= 0, merged.on >= 0
    slot = _slots(merged)
    first, first_limit = _one_arm(merged.off, off, slot)
    second, second_limit = _one_arm(merged.on, on, slot)
    neither = np.isnan(first) & np.isnan(second)
    nominal = np.where(has_off, np.append(off.nominal, 0.0)[merged.off], np.append(on.nominal, 0.0)[merged.on])
    first, second = np.where(neither, nominal, first), np.where(neither, nominal, second)
    off_time = np.minimum(np.where(np.isnan(first), second, first), first_limit)
    on_time = np.minimum(np.where(np.isnan(second), first, second), second_limit)
    return off_time * has_off, on_time * has_on, float(neither.mean()) if len(neither) else 0.0


def _one_arm(rows: IntArray, work: DeviceWork, slot: IntArray) -> tuple[FloatArray, FloatArray]:
    """(known durations, else those usual at the place, else NaN; the longest possible) of one arm."""
    state = np.append(work.state, NONE)[rows]
    known = state == KNOWN
    duration = np.where(known, np.append(work.duration, np.nan)[rows], np.nan)
    limit = np.where(state == BOUNDED, np.append(work.longest, np.inf)[rows], np.inf)
    usual = _median_by(slot, duration)
    return np.where(known, duration, np.minimum(usual, limit)), limit


def _slots(merged: _Merged) -> IntArray:
    """Number of each operation's place: its stream, and how many come before it there in its step."""
    group = merged.step * (int(merged.lane.max(initial=0)) + 1) + merged.lane
    opens = np.concatenate(([True], np.diff(group) != 0)) if len(group) else np.zeros(0, np.bool_)
    first = np.maximum.accumulate(np.where(opens, np.arange(len(group)), 0)) if len(group) else group
    return merged.lane * 1_000_000 + np.arange(len(group)) - first


def _median_by(group: IntArray, values: FloatArray) -> FloatArray:
    """Median of the values that are known in each group; NaN where most are not.

    The few steps in which the host had to wait are those in which the GPU took longest.
    """
    order = np.lexsort((values, group))  # NaN comes last
    sorted_group = group[order]
    opens = np.flatnonzero(np.concatenate(([True], np.diff(sorted_group) != 0))) if len(group) else group
    known = np.add.reduceat(np.isfinite(values[order]).astype(np.int64), opens) if len(group) else group
    at = order[opens + np.maximum(known - 1, 0) // 2]
    size = np.diff(np.append(opens, len(group)))
    medians = np.where(known * 2 >= np.maximum(size, 1), values[at], np.nan)
    number = np.searchsorted(sorted_group[opens], group)
    return np.asarray(medians[number], np.float64)
