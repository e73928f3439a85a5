"""Own cost and waiting: what each call of a thread costs by itself, and what it waited for the GPU.

A synchronization waits by contract. Whether an asynchronous copy does is decided by what it costs in this arm,
because that contract is what confidential computing breaks: a copy blocks if it costs more than the same copy
in the off arm plus the launch toll of any submission plus what encrypting its bytes can take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.timeline import SUBMITTING, SYNC_NUMBERS, Timeline
from cctrace.analyzers.categories import CATEGORIES, CATEGORY
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray
from cctrace.analyzers.copies import size_bucket
from cctrace.analyzers.waiting import COPY_BANDWIDTH_BYTES_PER_NS, COPY_OVER_LAUNCH, not_slow
from cctrace.trace.schema import MEMORY_KINDS

SYNC_OWN_US: Final = 5.0
"""A synchronization that has nothing to wait for costs at most this: 1.6 µs published, 2–6 µs recorded."""
WAITED_US: Final = 3.0
"""A call that takes this much longer than its own cost waited: twice the scatter of own costs."""
CRYPTO_US: Final = 8.0
"""What encrypting a small copy can add to it (3–6 µs published for up to 64 KB); more than this is a wait."""
SELF_WAIT_US: Final = 2.5
"""A blocking copy on an idle stream waits for itself: about what a synchronization costs."""
SHORT_GAP_US: Final = 100.0
"""Host time between two calls of less than this is code that ran through; longer gaps can hold waits."""
MIN_GAPS: Final = 200
"""Fewer short gaps do not show how fast the host was."""
SPEED_OF_CALLS: Final = 0.5
"""Calls follow the host's speed with this exponent: in eleven of twelve pairs of recordings with a known toll,
whose hosts differed in speed by up to a factor 1.9, a square root puts the found toll within 3 % of it; without
it up to 14 % are missing or too many."""
SPEED_LIMITS: Final = (0.5, 2.0)
"""Processes of one machine differ in speed by less than this."""
MIN_CALLS: Final = 3
"""Fewer calls of a kind give no typical cost."""
_TOLL_CATEGORIES: Final = ("kernel", "graph", "copy d2d", "memset")
"""Submissions whose growth is launch toll and nothing else; the first that both arms have is taken."""
_BETWEEN_HOST_AND_GPU: Final = (CATEGORY["copy h2d"], CATEGORY["copy d2h"])
_PINNED: Final = MEMORY_KINDS.index("pinned")


@dataclass(frozen=True, eq=False)
class OwnCost:
    """What each operation of a timeline costs its thread. All µs.

    Attributes:
        own: time in the call without waiting for the GPU.
        excess: time in a slow call above what such calls cost: lost CPU, or no room in the queue.
        toll: launch toll within `own` of a copy between host and GPU; NaN for other calls, where all growth
            is launch toll.
        self_wait: part of `own` in which a blocking copy waits for itself.
        waits: the call returns only when its GPU work is done.
        post: from the end of that GPU work to the return, for calls that wait.
        done: latest time at which the GPU work of a waiting call was done.
        exact: the call was kept waiting, so `done` is when the GPU work ended.
    """

    own: FloatArray
    excess: FloatArray
    toll: FloatArray
    self_wait: FloatArray
    waits: BoolArray
    post: FloatArray
    done: FloatArray
    exact: BoolArray


@dataclass(frozen=True)
class CopyKind:
    """Copies of one direction, host memory and size in one arm. All µs per copy.

    Attributes:
        typical: median time in the call.
        expected: what it costs by itself, without encryption.
        crypto: what it takes longer than that without waiting for other work.
        toll: launch toll within it.
        blocks: the call returns only when the copy is done.
        is_kept_waiting: and usually has to wait for other work.
        toll_behind: the copy is submitted, and its toll paid, behind that wait: such a copy waits in the off
            arm as well, because the driver stages it when its stream has come to it.
    """

    typical: float
    expected: float
    crypto: float
    toll: float
    blocks: bool
    is_kept_waiting: bool
    toll_behind: bool


def own_costs(off: Timeline, on: Timeline, slowdown: float) -> tuple[OwnCost, OwnCost]:
    """Own costs of both arms.

    Args:
        off: the off arm.
        on: the on arm.
        slowdown: how much longer calls take in the on arm because its host is slower; see `call_slowdown`.
    """
    off_launch, on_launch = _typical_submission(off), _typical_submission(on)
    toll = max(0.0, _launch_toll(off, on, slowdown))
    off_typical, on_typical = _typical_copies(off), _typical_copies(on)
    expected_off = {key: _expected(cost, off_launch) for key, cost in off_typical.items()}
    expected_on = {
        key: expected_off[key] * slowdown + toll if key in expected_off else _expected(cost, on_launch)
        for key, cost in on_typical.items()
    }
    off_kinds = _copy_kinds(off_typical, expected_off, 0.0, frozenset())
    waits_anyway = frozenset(key for key, kind in off_kinds.items() if kind.is_kept_waiting)
    on_kinds = _copy_kinds(on_typical, expected_on, toll, waits_anyway)
    return _arm(off, off_kinds), _arm(on, on_kinds)


def call_slowdown(off: Timeline, on: Timeline) -> float:
    """Factor by which calls of the on arm take longer because its host runs slower, tolls aside.

    Two processes of one machine differ in speed. The host code between calls shows it; calls follow less.
    """
    first, second = _short_gaps(off), _short_gaps(on)
    common = [category for category in first if category in second]
    if sum(min(first[one][0], second[one][0]) for one in common) < MIN_GAPS:
        return 1.0
    before = sum(first[one][0] * first[one][1] for one in common)
    after = sum(first[one][0] * second[one][1] for one in common)
    return float(np.clip(after / before, *SPEED_LIMITS) ** SPEED_OF_CALLS)


def _short_gaps(timeline: Timeline) -> dict[int, tuple[int, float]]:
    """Number and mean of the short gaps of the submitting thread, by the category of the call behind them."""
    short = (timeline.thread == SUBMITTING) & (timeline.gap > 0) & (timeline.gap < SHORT_GAP_US)
    gap, category = timeline.gap[short], timeline.category[short]
    counts = np.bincount(category, minlength=len(CATEGORIES))
    sums = np.bincount(category, weights=gap, minlength=len(CATEGORIES))
    return {one: (int(counts[one]), float(sums[one] / counts[one])) for one in np.flatnonzero(counts).tolist()}


def _launch_toll(off: Timeline, on: Timeline, slowdown: float) -> float:
    """What a submission costs more in the on arm: difference of the typical own costs, µs."""
    for word in _TOLL_CATEGORIES:
        first, second = (_typical(one, one.is_category(CATEGORY[word])) for one in (off, on))
        if np.isfinite(first) and np.isfinite(second):
            return second - first * slowdown
    return 0.0


def _typical_submission(timeline: Timeline) -> float:
    numbers = [CATEGORY[word] for word in _TOLL_CATEGORIES]
    return float(np.nan_to_num(_typical(timeline, timeline.is_category(*numbers)), nan=SYNC_OWN_US))


def _typical(timeline: Timeline, chosen: BoolArray) -> float:
    """Median time of calls that are not slow, NaN of too few."""
    length = (timeline.end - timeline.start)[chosen]
    length = length[_not_slow(length)]
    return float(np.median(length)) if len(length) >= MIN_CALLS else float("nan")


def _not_slow(length_us: FloatArray) -> BoolArray:
    return not_slow((length_us * 1e3).astype(np.int64))


def _copy_key(timeline: Timeline) -> IntArray:
    """Number of each operation's copy kind (direction, memory, contract, size); −1 for all but copies between
    host and GPU."""
    memory = (timeline.host_memory + 1) * 2 + timeline.contract
    key = (timeline.category * 2 * (len(MEMORY_KINDS) + 1) + memory) * 64 + size_bucket(timeline.bytes)
    return np.where(timeline.is_category(*_BETWEEN_HOST_AND_GPU), key, -1)


def _is_pinned(key: int) -> bool:
    return key // 64 % (2 * (len(MEMORY_KINDS) + 1)) // 2 - 1 == _PINNED


def _is_contract(key: int) -> bool:
    return bool(key // 64 % 2)


def _bytes_of(key: int) -> float:
    return float(1 << (key % 64)) if key % 64 else 0.0


def _typical_copies(timeline: Timeline) -> dict[int, float]:
    """Median time of the copies of each kind, waiting included."""
    keys, length = _copy_key(timeline), timeline.end - timeline.start
    return {int(key): float(np.median(length[keys == key])) for key in np.unique(keys[keys >= 0])}


def _expected(typical_us: float, launch_us: float) -> float:
    """Own cost of a copy as far as its own arm tells: no more than a submission's cost allows."""
    return min(typical_us, COPY_OVER_LAUNCH * launch_us + CRYPTO_US)


def _copy_kinds(
    typical: dict[int, float], expected: dict[int, float], toll: float, waits_anyway: frozenset[int]
) -> dict[int, CopyKind]:
    beyond = {key: cost - expected[key] for key, cost in typical.items()}
    waiting = {key for key, more in beyond.items() if _is_contract(key) or more > _limit(key)}
    # Whether pinned copies block is a property of the platform: what one size shows holds for all.
    pinned_block = any(_is_pinned(key) and not _is_contract(key) for key in waiting)
    kinds = {}
    for key, cost in typical.items():
        blocks = key in waiting or (pinned_block and _is_pinned(key))
        crypto = max(0.0, beyond[key] - (SELF_WAIT_US if blocks else 0.0))
        kinds[key] = CopyKind(
            typical=cost,
            expected=expected[key],
            crypto=0.0 if key in waiting else crypto,
            toll=float(np.clip(toll + min(0.0, beyond[key]), 0.0, None)),
            blocks=blocks,
            is_kept_waiting=key in waiting,
            toll_behind=key in waiting and key in waits_anyway,
        )
    return kinds


def _limit(key: int) -> float:
    """What a copy may cost beyond the expected without waiting for the GPU."""
    return CRYPTO_US + _bytes_of(key) / (COPY_BANDWIDTH_BYTES_PER_NS * 1e3)


def _arm(timeline: Timeline, kinds: dict[int, CopyKind]) -> OwnCost:
    length = timeline.end - timeline.start
    own, excess = length.copy(), np.zeros(len(timeline))
    waits, post = np.zeros(len(timeline), np.bool_), np.zeros(len(timeline))
    toll, self_wait = np.full(len(timeline), np.nan), np.zeros(len(timeline))
    for group in _groups(timeline):
        slow = group[~_not_slow(length[group])]
        usual = np.setdiff1d(group, slow, assume_unique=True)
        if len(slow) and len(usual):
            own[slow] = np.median(length[usual])
            excess[slow] = length[slow] - own[slow]
    for number in SYNC_NUMBERS:
        rows = np.flatnonzero(timeline.is_category(number))
        if len(rows):
            waits[rows] = True
            post[rows] = min(SYNC_OWN_US, float(np.percentile(length[rows], 10)))
            own[rows] = np.where(length[rows] > post[rows] + WAITED_US, post[rows], length[rows])
    keys, kept = _copy_key(timeline), length > own + WAITED_US
    for key, kind in kinds.items():
        rows = np.flatnonzero(keys == key)
        behind = kind.toll if kind.toll_behind else 0.0
        toll[rows] = kind.toll - behind
        if not kind.blocks:
            continue
        excess[rows], waits[rows] = 0.0, True
        before = kind.expected + kind.crypto - behind
        kept[rows] = kind.is_kept_waiting | (length[rows] > before + CRYPTO_US)
        own[rows] = np.where(kept[rows], np.minimum(length[rows], before), length[rows])
        room = length[rows] - np.where(kept[rows], own[rows], 0.0)
        post[rows] = np.minimum(SELF_WAIT_US + behind, room)
        alone = min(SELF_WAIT_US, max(0.0, kind.typical - kind.expected))
        self_wait[rows] = np.where(kept[rows], 0.0, alone)
    return OwnCost(
        own=own,
        excess=excess,
        toll=toll,
        self_wait=self_wait,
        waits=waits,
        post=post,
        done=timeline.end - post,
        exact=waits & kept,
    )


def _groups(timeline: Timeline) -> list[IntArray]:
    """Positions of calls that should cost the same: category, graph, and for copies kind and size."""
    calls = np.flatnonzero((timeline.category < len(CATEGORIES)) & ~timeline.is_sync)
    if not len(calls):
        return []
    graph = np.where(timeline.category == CATEGORY["graph"], timeline.graph, 0)
    key = np.stack((timeline.category, _copy_key(timeline), size_bucket(timeline.bytes), graph), axis=1)
    _, group = np.unique(key[calls], axis=0, return_inverse=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    return np.split(calls[order], np.cumsum(np.bincount(group.reshape(-1)))[:-1])
