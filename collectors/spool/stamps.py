"""Stamps from inside the GPU: into begin and end of graph replays and of sampled eager steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.layout import Flag
from cctrace.collectors.spool.spoolfile import Records

EARLY_NS: Final = 20_000
"""A replay may seem to begin this long before its launch call: the two clocks are tied with an error of up
to one clock reading (about 20 µs)."""

RING_SHIFT: Final = np.uint64(40)
RING_MASK: Final = np.uint64(2**40 - 1)
"""Each context has a ring of its own; the collector numbers it above the stamps."""

MOST_WRONG_NS: Final = 10_000_000
"""Clock readings were seen to be off by up to 3 ms, while other programs had the GPU. A late window that was
cut off at its end can hold as many runs as launches by chance: these are further apart."""

MAX_LATE_SHARE: Final = 0.05
"""So many runs may seem to begin before their launches before the order itself is doubted."""

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """Begin and end of runs on the GPU, by begin.

    `index` is the place of the begin in the ring; `error_ns` by how much times may be off, 0 if it is None.
    """

    tag: npt.NDArray[np.uint64]
    begin_ns: Times
    end_ns: Times
    index: npt.NDArray[np.uint64]
    error_ns: Times | None = None

    def __len__(self) -> int:
        return len(self.tag)

    def select(self, where: npt.NDArray[np.intp]) -> Pairs:
        """Some of them."""
        error = None if self.error_ns is None else self.error_ns[where]
        return Pairs(self.tag[where], self.begin_ns[where], self.end_ns[where], self.index[where], error)

    def moved(self, by_ns: int) -> Pairs:
        """The pairs at later times."""
        return replace(self, begin_ns=self.begin_ns + by_ns, end_ns=self.end_ns + by_ns)


def pair_stamps(stamps: Records) -> tuple[Pairs, int]:
    """Joins each first stamp of a tag with the last stamp behind it; also counts stamps that stay single.

    Args:
        stamps: stamp records of one device, either all of graphs or all of eager steps. Times stay those of
            the GPU.
    """
    times = np.minimum(stamps["start_ns"], np.uint64(2**63 - 1)).astype(np.int64)
    order = np.lexsort((times, stamps["object"]))
    tag, is_end = stamps["object"][order], (stamps["flags"][order] & Flag.STAMP_END) != 0
    at, index = times[order], stamps["bytes"][order]
    found = np.flatnonzero((tag[:-1] == tag[1:]) & ~is_end[:-1] & is_end[1:])
    by_begin = found[np.argsort(at[found], kind="stable")]
    pairs = Pairs(tag[by_begin], at[by_begin], at[by_begin + 1], index[by_begin])
    return pairs, len(stamps) - 2 * len(pairs)


def places_by(keys: npt.NDArray[np.uint64]) -> dict[int, npt.NDArray[np.intp]]:
    """For each distinct key the places where it stands, ascending. Servers capture thousands of graphs."""
    if not len(keys):
        return {}
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return dict(zip(ordered[begins].tolist(), np.split(order, begins[1:]), strict=True))


@dataclass(frozen=True)
class Launches:
    """Graph launches that succeeded, by start; `position` is the place of the call."""

    start_ns: npt.NDArray[np.uint64]
    exec_handle: npt.NDArray[np.uint64]
    position: npt.NDArray[np.intp]


def launch_tags(launches: Launches, bindings: Records) -> npt.NDArray[np.uint64]:
    """Tag that each launch's executable graph carried when it was launched; 0: none."""
    tags = np.zeros(len(launches.start_ns), dtype=np.uint64)
    order = np.lexsort((bindings["start_ns"], bindings["object"]))
    handles, times, values = (bindings[name][order] for name in ("object", "start_ns", "bytes"))
    for handle, mine in places_by(launches.exec_handle).items():
        low, high = (np.searchsorted(handles, np.uint64(handle), side=side) for side in ("left", "right"))
        latest = np.searchsorted(times[low:high], launches.start_ns[mine], side="right") - 1
        bound = latest >= 0
        tags[mine[bound]] = values[low + latest[bound]]
    return tags


def match_pairs(
    pairs: Pairs, launch_start_ns: Times, lost_before: npt.NDArray[np.intp], *, nested: bool = False
) -> npt.NDArray[np.intp]:
    """For each pair of one tag, the launch of that tag that it is the run of; −1 for none.

    A graph's runs follow the order of its launches, and none begins before its launch. So between two losses
    the pairs belong to launches in a row, and only the first launch of such a row is in question: 0 if the
    recording began before the graph was first launched, else the latest that all pairs of the row allow. With
    as many pairs as launches and no loss it is 0 even if the clocks are milliseconds apart.

    Args:
        pairs: pairs of one tag, in order.
        launch_start_ns: launches of that tag, in order, ns.
        lost_before: how many losses of stamps precede each pair.
        nested: the graph also runs inside other graphs, where no launch shows it.
    """
    count, launched = len(pairs), len(launch_start_ns)
    result = np.full(count, -1, dtype=np.intp)
    if not count or not launched:
        return result
    if nested:
        return _unambiguous(_latest_launch(pairs.begin_ns, launch_start_ns, EARLY_NS), result)
    if _is_complete(pairs, launch_start_ns, lost_before):
        return np.arange(count)
    row_ends = np.flatnonzero(np.diff(lost_before)) + 1
    first, *later = np.split(np.arange(count), row_ends)
    early = EARLY_NS
    shift: int | None = None
    if lost_before[0] == 0 and _in_step(pairs.select(first), launch_start_ns):
        shift = 0
        result[first] = first
        both = first[first < launched]
        early += max(0, -int((pairs.begin_ns[both] - launch_start_ns[both]).min()))
    elif not later and count > launched and pairs.begin_ns[0] + EARLY_NS >= launch_start_ns[0]:
        return _unambiguous(_latest_launch(pairs.begin_ns, launch_start_ns, EARLY_NS), result)
    else:
        later = [first, *later]
    latest = _latest_launch(pairs.begin_ns, launch_start_ns, early)
    for row in later:
        possible = row[latest[row] >= 0]  # the others ran before the recorded window
        if not len(possible):
            continue
        # A run after the last launch may be of one that was not recorded: it forbids nothing.
        binding = possible[latest[possible] < launched - 1]
        allowed = int((latest - np.arange(count))[binding if len(binding) else possible].min())
        shift = allowed if shift is None else max(shift, allowed)
        result[possible] = possible + shift
    result[(result >= launched) | (result < 0)] = -1
    return result


def _latest_launch(begin_ns: Times, launch_start_ns: Times, early: int) -> npt.NDArray[np.intp]:
    """The last launch that each run can belong to; −1 if it began before all of them."""
    return np.searchsorted(launch_start_ns, begin_ns + early, side="right") - 1


def _is_complete(pairs: Pairs, launch_start_ns: Times, lost_before: npt.NDArray[np.intp]) -> bool:
    """Whether each launch has its run, and none begins earlier than the clocks may be apart."""
    if len(pairs) != len(launch_start_ns) or lost_before[-1]:
        return False
    return bool((launch_start_ns - pairs.begin_ns).max() <= MOST_WRONG_NS)


def _in_step(pairs: Pairs, launch_start_ns: Times) -> bool:
    """Whether run i can be that of launch i, throughout."""
    count = min(len(pairs), len(launch_start_ns))
    early: int | Times = EARLY_NS if pairs.error_ns is None else EARLY_NS + pairs.error_ns[:count]
    late = pairs.begin_ns[:count] + early < launch_start_ns[:count]
    return bool(np.mean(late) < MAX_LATE_SHARE)


def losses_before(
    ring_indices: npt.NDArray[np.uint64], index: npt.NDArray[np.uint64]
) -> npt.NDArray[np.intp]:
    """How many gaps of its ring's numbering lie before each `index`.

    Args:
        ring_indices: the indices of all stamps. Each ring counts up from 0 in the low 40 bits.
        index: the indices that are asked about.
    """
    result = np.zeros(len(index), dtype=np.intp)
    ordered = np.sort(ring_indices)
    of_ring = ordered >> RING_SHIFT
    begins = np.flatnonzero(np.diff(of_ring, prepend=~of_ring[:1]))
    rings, numbers = index >> RING_SHIFT, index & RING_MASK
    for ring, part in zip(of_ring[begins], np.split(ordered, begins[1:]), strict=True):
        mine = part & RING_MASK
        jumps = np.diff(mine, prepend=np.uint64(0)) > 1
        jumps[:1] = mine[:1] > 0
        here = rings == ring
        result[here] = np.searchsorted(mine[jumps], numbers[here], side="right")
    return result


def _unambiguous(latest: npt.NDArray[np.intp], result: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Only a launch after which exactly one run begins, before the next launch, is joined."""
    launch, first, runs = np.unique(latest, return_index=True, return_counts=True)
    alone = (runs == 1) & (launch >= 0)
    result[first[alone]] = launch[alone]
    return result
