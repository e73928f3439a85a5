"""GPU rows out of stamps: replays of graphs joined with their launches, and sampled eager steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.gpu_clock import ClockMap, fit_clock
from cctrace.collectors.spool.index import Index
from cctrace.collectors.spool.layout import FROM_STAMPS, NO_DEVICE, RECORD, Flag, Kind, Operation
from cctrace.collectors.spool.spoolfile import Records
from cctrace.collectors.spool.stamps import (
    Launches,
    Pairs,
    launch_tags,
    losses_before,
    match_pairs,
    pair_stamps,
)
from cctrace.trace.metadata import GpuClock

EAGER_NAME: Final = "gpu step"
"""Name of the row that spans a sampled eager step on the GPU."""


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
    graphs, launches, eager = [], [], []
    for device in np.unique(stamps["device"]).tolist():
        mine = stamps[stamps["device"] == device]
        clock = _clock(readings[readings["device"] == device], pid, device, result)
        if clock is None:
            _count(result, "stamps without a clock reading", len(mine))
            continue
        times = clock.to_monotonic(mine["start_ns"])
        is_eager = (mine["flags"] & Flag.EAGER_STAMP) != 0
        pairs, single = pair_stamps(mine[~is_eager], times[~is_eager])
        _count(result, "single stamps", single)
        found, launch = _of_launches(pairs, mine["bytes"], index, result)
        graphs.append(_rows(Kind.GRAPH, found, device))
        launches.append(launch)
        pairs, single = pair_stamps(mine[is_eager], times[is_eager])
        _count(result, "single stamps", single)
        rows = _rows(Kind.MARK, pairs, device)
        rows["name"] = 1  # the one text of these rows: EAGER_NAME
        eager.append(rows)
    if graphs:
        rows, launch = np.concatenate(graphs), np.concatenate(launches)
        order = np.argsort(rows["start_ns"], kind="stable")
        result.graphs, result.launch = rows[order], launch[order]
        rows = np.concatenate(eager)
        result.eager = rows[np.argsort(rows["start_ns"], kind="stable")]
    return result


def _clock(readings: Records, pid: int, device: int, result: Replays) -> ClockMap | None:
    clock = fit_clock(readings["start_ns"], readings["object"], readings["bytes"])
    if clock is not None:
        result.clocks.append(
            GpuClock(
                pid=pid,
                device=None if device == NO_DEVICE else device,
                readings=clock.readings,
                kept=clock.kept,
                drift_ppm=round(clock.drift_ppm, 4),
                residual_ns=round(clock.residual_ns, 1),
            )
        )
    return clock


def _of_launches(
    pairs: Pairs, ring_indices: npt.NDArray[np.uint64], index: Index, result: Replays
) -> tuple[Pairs, npt.NDArray[np.intp]]:
    """The pairs that have a launch, and its place among the index's graph calls."""
    calls = index.graph_calls
    captured = (calls["flags"] & Flag.CAPTURED) != 0
    is_launch = (calls["operation"] == Operation.GRAPH) & ~captured & (calls["result"] == 0)
    where = np.flatnonzero(is_launch)
    where = where[np.argsort(calls["start_ns"][where], kind="stable")]
    launches = Launches(calls["start_ns"][where], calls["object"][where], where)
    bindings = index.kept[Kind.BINDING]
    tags = launch_tags(launches, bindings)
    inner = np.flatnonzero((calls["operation"] == Operation.GRAPH) & captured)
    nested = set(
        launch_tags(Launches(calls["start_ns"][inner], calls["object"][inner], inner), bindings).tolist()
    )
    lost = losses_before(ring_indices, pairs.index)
    joined = np.full(len(pairs), -1, dtype=np.intp)
    for tag in np.unique(pairs.tag).tolist():
        here, there = np.flatnonzero(pairs.tag == np.uint64(tag)), np.flatnonzero(tags == np.uint64(tag))
        starts = launches.start_ns[there].astype(np.int64)
        matched = match_pairs(pairs.of_tag(tag), starts, lost[here], nested=tag in nested)
        hit = matched >= 0
        joined[here[hit]] = there[matched[hit]]
    hit = joined >= 0
    _count(result, "graph replays without a launch", int(np.count_nonzero(~hit)))
    _count(
        result, "stamped launches without a replay", int(np.count_nonzero(tags)) - int(np.count_nonzero(hit))
    )
    kept = Pairs(pairs.tag[hit], pairs.begin_ns[hit], pairs.end_ns[hit], pairs.index[hit])
    return kept, launches.position[joined[hit]]


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
