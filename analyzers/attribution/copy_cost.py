"""What copies between host and GPU cost, and whether they block.

Where a row shows when a copy ran, its call blocked if it returned later. Elsewhere a copy blocks if it
costs more than the same copy in the off arm, plus the launch toll of any submission, plus what encrypting
its bytes can take. Whether asynchronous copies of page-locked memory block is a property of the platform,
so what copies of one size show holds for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.rows import DeviceRows, in_microseconds
from cctrace.analyzers.attribution.timeline import Timeline
from cctrace.analyzers.categories import CATEGORY
from cctrace.analyzers.columns import FloatArray, IntArray
from cctrace.analyzers.copies import size_bucket
from cctrace.analyzers.waiting import COPY_BANDWIDTH_BYTES_PER_NS, COPY_OVER_LAUNCH
from cctrace.trace.schema import MEMORY_KINDS

CRYPTO_US: Final = 25.0
"""What encrypting a small copy can add to it: 5 µs on a B200, 14 on an H100, 22 on an H20, as measured.
Copies that usually take longer than that wait."""
SLACK_US: Final = 8.0
"""A copy that takes this much longer than usual copies of its kind waits: twice the scatter of such calls."""
SELF_WAIT_US: Final = 2.5
"""A blocking copy on an idle stream waits for itself: about what a synchronization costs."""
RETURN_US: Final = 1.0
"""From the end of a copy to the return of the call that it blocks; what takes longer decrypts."""
_BETWEEN_HOST_AND_GPU: Final = (CATEGORY["copy h2d"], CATEGORY["copy d2h"])
_PINNED: Final = MEMORY_KINDS.index("pinned")
_MEMORIES: Final = len(MEMORY_KINDS) + 1
_SIZES: Final = 64


@dataclass(frozen=True, eq=False)
class CopyRows:
    """When copies ran, by operation of a timeline; µs, NaN where no row tells."""

    begin: FloatArray
    end: FloatArray


@dataclass(frozen=True)
class Submissions:
    """What any submission costs.

    Attributes:
        off: typical own cost in the off arm, µs.
        on: the same in the on arm.
        toll: what it costs more in the on arm, host speed aside.
        slowdown: how much longer calls take in the on arm because its host is slower.
    """

    off: float
    on: float
    toll: float
    slowdown: float


@dataclass(frozen=True)
class CopyKind:
    """Copies of one direction, host memory and size in one arm. All µs per copy.

    Attributes:
        typical: median time in the call.
        expected: what it costs by itself, without encryption.
        crypto: what it takes longer than that without waiting for other work.
        slack: what single copies can take longer without waiting.
        toll: launch toll within it.
        blocks: the call returns only when the copy is done.
        is_kept_waiting: and usually has to wait for other work.
        toll_behind: the copy is submitted, and its toll paid, behind that wait: such a copy waits in the off
            arm as well, because the driver stages it when its stream has come to it.
        decrypts: it brings data to the host, which are decrypted when they are there.
    """

    typical: float
    expected: float
    crypto: float
    slack: float
    toll: float
    blocks: bool
    is_kept_waiting: bool
    toll_behind: bool
    decrypts: bool


def copy_rows(timeline: Timeline, rows: DeviceRows, base_ns: int) -> CopyRows:
    """When the copies of an arm ran."""
    begin, end = np.full(len(timeline), np.nan), np.full(len(timeline), np.nan)
    copies = np.flatnonzero((copy_keys(timeline) >= 0) & (timeline.correlation >= 0))
    if len(rows) and len(copies):
        at = np.searchsorted(rows.correlation, timeline.correlation[copies])
        at = np.minimum(at, len(rows) - 1)
        found = rows.correlation[at] == timeline.correlation[copies]
        begin[copies[found]] = in_microseconds(rows.start_ns[at[found]], base_ns)
        end[copies[found]] = in_microseconds(rows.end_ns[at[found]], base_ns)
    return CopyRows(begin, end)


def copy_keys(timeline: Timeline) -> IntArray:
    """Number of each operation's copy kind: direction, memory, contract, size. −1 where it is none."""
    memory = (timeline.host_memory + 1) * 2 + timeline.contract
    key = (timeline.category * 2 * _MEMORIES + memory) * _SIZES + size_bucket(timeline.bytes)
    return np.where(timeline.is_category(*_BETWEEN_HOST_AND_GPU), key, -1)


def copy_kinds(
    off: Timeline, on: Timeline, rows: tuple[CopyRows, CopyRows], submissions: Submissions
) -> tuple[dict[int, CopyKind], dict[int, CopyKind]]:
    """The kinds of copies of both arms, by number."""
    off_typical, on_typical = _typical(off, off.length), _typical(on, on.length)
    expected_off = {key: _expected(cost, submissions.off) for key, cost in off_typical.items()}
    expected_on = {
        key: expected_off[key] * submissions.slowdown + submissions.toll
        if key in expected_off
        else _expected(cost, submissions.on)
        for key, cost in on_typical.items()
    }
    off_kinds = _kinds(off_typical, expected_off, 0.0, frozenset())
    waits_anyway = frozenset(key for key, kind in off_kinds.items() if kind.is_kept_waiting)
    on_kinds = _kinds(on_typical, expected_on, submissions.toll, waits_anyway)
    return off_kinds, _with_seen_crypto(on_kinds, (off, on), rows, submissions)


def _typical(timeline: Timeline, values: FloatArray) -> dict[int, float]:
    """Median of a value over the copies of each kind; NaN values are left out."""
    keys, known = copy_keys(timeline), np.isfinite(values)
    chosen = keys[(keys >= 0) & known]
    return {int(key): float(np.median(values[(keys == key) & known])) for key in np.unique(chosen)}


def _expected(typical_us: float, launch_us: float) -> float:
    """Own cost of a copy as far as its own arm tells: no more than a submission's cost allows."""
    return min(typical_us, COPY_OVER_LAUNCH * launch_us + SLACK_US)


def _kinds(
    typical: dict[int, float], expected: dict[int, float], toll: float, waits_anyway: frozenset[int]
) -> dict[int, CopyKind]:
    beyond = {key: cost - expected[key] for key, cost in typical.items()}
    waiting = {key for key, more in beyond.items() if _is_contract(key) or more > _slack(key)}
    pinned_block = any(_is_pinned(key) and not _is_contract(key) for key in waiting)
    kinds = {}
    for key, cost in typical.items():
        blocks = key in waiting or (pinned_block and _is_pinned(key))
        crypto = max(0.0, beyond[key] - (SELF_WAIT_US if blocks else 0.0))
        kinds[key] = CopyKind(
            typical=cost,
            expected=expected[key],
            crypto=0.0 if key in waiting else crypto,
            slack=SLACK_US,
            toll=float(np.clip(toll + min(0.0, beyond[key]), 0.0, None)),
            blocks=blocks,
            is_kept_waiting=key in waiting,
            toll_behind=key in waiting and key in waits_anyway,
            decrypts=_decrypts(key),
        )
    return kinds


def _with_seen_crypto(
    kinds: dict[int, CopyKind],
    arms: tuple[Timeline, Timeline],
    rows: tuple[CopyRows, CopyRows],
    submissions: Submissions,
) -> dict[int, CopyKind]:
    """The on arm's kinds with the encryption that rows show.

    To the GPU, a copy is encrypted before it starts; to the host, it is decrypted before a blocking call
    returns.
    """
    first, second = (
        _quick(timeline, of_arm.begin - timeline.start) for timeline, of_arm in zip(arms, rows, strict=True)
    )
    late = _typical(arms[1], np.where(rows[1].end <= arms[1].end, arms[1].end - rows[1].end, np.nan))
    seen = {}
    for key, kind in kinds.items():
        crypto = kind.crypto
        if kind.decrypts and key in late:
            crypto = max(0.0, late[key] - RETURN_US)
        elif not kind.decrypts and key in first and key in second:
            more = second[key] - first[key] * submissions.slowdown - submissions.toll
            crypto = float(np.clip(more, 0.0, _slack(key)))
        seen[key] = CopyKind(**{**kind.__dict__, "crypto": crypto})
    return seen


def _quick(timeline: Timeline, latency: FloatArray) -> dict[int, float]:
    """From the call to the begin of the copy, for the quarter of each kind that finds its stream idle."""
    keys, known = copy_keys(timeline), np.isfinite(latency)
    return {
        int(key): float(np.percentile(latency[(keys == key) & known], 25))
        for key in np.unique(keys[(keys >= 0) & known])
    }


def _is_pinned(key: int) -> bool:
    return key // _SIZES % (2 * _MEMORIES) // 2 - 1 == _PINNED


def _is_contract(key: int) -> bool:
    return bool(key // _SIZES % 2)


def _decrypts(key: int) -> bool:
    return key // _SIZES // (2 * _MEMORIES) == CATEGORY["copy d2h"]


def _slack(key: int) -> float:
    """What a copy may cost beyond the expected without waiting for the GPU."""
    size = float(1 << (key % _SIZES)) if key % _SIZES else 0.0
    return CRYPTO_US + size / (COPY_BANDWIDTH_BYTES_PER_NS * 1e3)
