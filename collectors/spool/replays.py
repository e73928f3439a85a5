"""GPU rows out of stamps: replays of graphs joined with their launches, and sampled eager steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.clock_correction import corrected
from cctrace.collectors.spool.gpu_clock import ClockMap, fit_clock, rate_from_launches
from cctrace.collectors.spool.index import Index
from cctrace.collectors.spool.layout import FROM_STAMPS, NO_DEVICE, RECORD, Flag, Kind, Operation
from cctrace.collectors.spool.spoolfile import Records, joined, take
from cctrace.collectors.spool.stamps import (
    Launches,
    Pairs,
    launch_tags,
    losses_before,
    match_pairs,
    pair_stamps,
    places_by,
)
from cctrace.trace.metadata import GpuClock

EAGER_NAME: Final = "gpu step"
"""Name of the row that spans a sampled eager step on the GPU."""


IMPOSSIBLE_SHARE: Final = 0.01
"""Share of runs that may stay before their launch when the mapping of the clock is corrected by them."""


@dataclass
class Replays:
    """What the stamps of one process say.

    `graphs`: GRAPH records; `launch` the places of their launches among the index's graph calls. `eager`:
    MARK records on the GPU. Both sorted by start.
    """

    graphs: Records
    launch: npt.NDArray[np.intp]
    eager: Records
    clocks: list[GpuClock] = field(default_factory=list)
    unmatched: dict[str, int] = field(default_factory=dict)


def find_replays(index: Index, pid: int) -> Replays:
    """Maps the stamps to host time and joins them with the launches of the graphs that carry them."""
    stamps, readings = index.kept[Kind.STAMP], index.kept[Kind.GPU_CLOCK]
    result = Replays(stamps[:0], np.zeros(0, dtype=np.intp), stamps[:0])
    launched = _tagged_launches(index)
    replayed = 0
    graphs, launches, eager = [], [], []
    devices = np.ascontiguousarray(stamps["device"])
    waits = take(index.waits, np.argsort(index.waits["start_ns"], kind="stable"))
    for device in np.flatnonzero(np.bincount(devices)).tolist():
        mine = take(stamps, devices == device)
        is_eager = (mine["flags"] & Flag.EAGER_STAMP) != 0
        replays, single = pair_stamps(take(mine, ~is_eager))
        samples, single_samples = pair_stamps(take(mine, is_eager))
        lost = losses_before(mine["bytes"], replays.index)
        read = take(readings, readings["device"] == device)
        found = _with_launches(
            replays,
            lost,
            launched,
            read,
            calls=index.graph_calls,
            waits=waits,
            one_device=_is_alone(device, waits),
        )
        if found is None:
            _count(result, "stamps without a clock reading", len(mine))
            continue
        clock, runs = found.clock, found.runs
        _count(result, "single stamps", single + single_samples)
        result.clocks.append(_described(clock, pid, device))
        _count(result, "graph replays without a launch", len(replays) - len(runs))
        replayed += len(runs)
        graphs.append(_rows(Kind.GRAPH, runs, device))
        launches.append(found.launch)
        rows = _rows(Kind.MARK, _on_host(samples, clock), device)
        rows["name"] = 1  # the one text of these rows: EAGER_NAME
        eager.append(rows)
    if graphs:
        _count(result, "stamped launches without a replay", launched.stamped - replayed)
        rows, launch = joined(graphs), np.concatenate(launches)
        order = np.argsort(rows["start_ns"], kind="stable")
        result.graphs, result.launch = take(rows, order), launch[order]
        rows = joined(eager)
        result.eager = take(rows, np.argsort(rows["start_ns"], kind="stable"))
    return result


@dataclass(frozen=True)
class _TaggedLaunches:
    """Launches in order, the places of each tag (0: none), and the tags of graphs inside others."""

    launches: Launches
    of_tag: dict[int, npt.NDArray[np.intp]]
    nested: frozenset[int]

    @property
    def stamped(self) -> int:
        """Launches whose graph carries stamps."""
        return sum(len(places) for tag, places in self.of_tag.items() if tag)


def _tagged_launches(index: Index) -> _TaggedLaunches:
    calls, bindings = index.graph_calls, index.kept[Kind.BINDING]
    captured = (calls["flags"] & Flag.CAPTURED) != 0
    is_graph = calls["operation"] == Operation.GRAPH

    def select(wanted: npt.NDArray[np.bool_]) -> Launches:
        where = np.flatnonzero(wanted)
        where = where[np.argsort(calls["start_ns"][where], kind="stable")]
        return Launches(calls["start_ns"][where], calls["object"][where], where)

    launches = select(is_graph & ~captured & (calls["result"] == 0))
    inner = launch_tags(select(is_graph & captured), bindings)
    return _TaggedLaunches(launches, places_by(launch_tags(launches, bindings)), frozenset(inner.tolist()))


@dataclass(frozen=True)
class _Joined:
    """The mapping of a device's clock, its runs in CLOCK_MONOTONIC, and the graph call of each."""

    clock: ClockMap
    runs: Pairs
    launch: npt.NDArray[np.intp]


def _with_launches(
    replays: Pairs,
    lost: npt.NDArray[np.intp],
    launched: _TaggedLaunches,
    readings: Records,
    *,
    calls: Records,
    waits: Records,
    one_device: bool,
) -> _Joined | None:
    """Runs of one device with their launches; None without a reading of its clock."""
    clock = _clock(readings, replays, launched, lost)
    if clock is None:
        return None
    of, launch = _of_launches(_on_host(replays, clock), lost, launched)
    better = corrected(clock, replays.select(of), take(calls, launch), readings, waits, one_device=one_device)
    if better is not None:
        clock = better
        of, launch = _of_launches(_on_host(replays, clock), lost, launched)
    runs = _on_host(replays.select(of), clock)
    late = _before_launch(runs, calls["start_ns"][launch])
    return _Joined(clock.moved(late), runs.moved(late), launch)


def _clock(
    readings: Records, replays: Pairs, launched: _TaggedLaunches, lost: npt.NDArray[np.intp]
) -> ClockMap | None:
    clock = fit_clock(readings["start_ns"], readings["object"], readings["bytes"])
    if clock is None or clock.rate is not None:
        return clock
    begins, starts = [], []
    for tag, runs in places_by(replays.tag).items():
        if tag in launched.nested or tag not in launched.of_tag:
            continue
        # Before the first loss, run i is that of launch i.
        complete = runs[lost[runs] == 0]
        places = launched.of_tag[tag]
        count = min(len(complete), len(places))
        begins.append(replays.begin_ns[complete[:count]].astype(np.uint64))
        starts.append(launched.launches.start_ns[places[:count]])
    rate = rate_from_launches(np.concatenate(begins), np.concatenate(starts)) if begins else None
    return replace(clock, rate=rate, rate_source="launches" if rate is not None else None)


def _is_alone(device: int, waits: Records) -> bool:
    """Whether no other device was current at any wait: a wait for a context is one for its device."""
    return not bool(np.any((waits["device"] != device) & (waits["device"] != NO_DEVICE)))


def _described(clock: ClockMap, pid: int, device: int) -> GpuClock:
    return GpuClock(
        pid=pid,
        device=None if device == NO_DEVICE else device,
        readings=clock.readings,
        kept=clock.kept,
        drift_ppm=None if clock.drift_ppm is None else round(clock.drift_ppm, 4),
        drift_source=clock.rate_source,
        residual_ns=None if clock.residual_ns is None else round(clock.residual_ns, 1),
        moved_ns=clock.moved_ns,
    )


def _on_host(pairs: Pairs, clock: ClockMap) -> Pairs:
    """Pairs in GPU time as pairs in CLOCK_MONOTONIC."""
    begin, end = pairs.begin_ns.astype(np.uint64), pairs.end_ns.astype(np.uint64)
    error = clock.error_ns(begin)
    return Pairs(pairs.tag, clock.to_monotonic(begin), clock.to_monotonic(end), pairs.index, error)


def _of_launches(
    pairs: Pairs, lost: npt.NDArray[np.intp], launched: _TaggedLaunches
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Places of the pairs that have a launch, and its place among the index's graph calls."""
    launches = launched.launches
    found = np.full(len(pairs), -1, dtype=np.intp)
    for tag, here in places_by(pairs.tag).items():
        there = launched.of_tag.get(tag, np.zeros(0, dtype=np.intp))
        starts = launches.start_ns[there].astype(np.int64)
        matched = match_pairs(pairs.select(here), starts, lost[here], nested=tag in launched.nested)
        hit = matched >= 0
        found[here[hit]] = there[matched[hit]]
    joined_ones = np.flatnonzero(found >= 0)
    return joined_ones, launches.position[found[joined_ones]]


def _before_launch(pairs: Pairs, launch_ns: npt.NDArray[np.uint64]) -> int:
    """By how much runs seem to begin before their launches, ns: the error of the clock readings.

    A few of them may belong to a stretch where the clocks drifted apart and back; they do not count.
    """
    if not len(pairs):
        return 0
    return max(0, -int(np.quantile(pairs.begin_ns - launch_ns.astype(np.int64), IMPOSSIBLE_SHARE)))


def _rows(kind: Kind, pairs: Pairs, device: int) -> Records:
    rows: Records = np.zeros(len(pairs), dtype=RECORD)
    rows["kind"] = kind
    rows["reserved"] = FROM_STAMPS
    rows["start_ns"] = np.maximum(pairs.begin_ns, 0)
    rows["end_ns"] = np.maximum(pairs.end_ns, 0)
    rows["device"] = device
    return rows


def _count(result: Replays, what: str, number: int) -> None:
    if number > 0:
        result.unmatched[what] = result.unmatched.get(what, 0) + number
