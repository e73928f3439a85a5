"""Places in the step, and what each of them costs: the n-th call of its thread, the same in every step.

What a place would save is replayed as well: its calls get a column of costs of their own, which a mix can
leave in the off arm's state while everything else is as in the on arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.costs import LAUNCH, OVERLAP, PCIE, Costs
from cctrace.analyzers.attribution.gpu_program import DeviceProgram
from cctrace.analyzers.attribution.pairing import first_of_group, group_numbers, opens
from cctrace.analyzers.attribution.program import HostProgram, Program
from cctrace.analyzers.attribution.replay import replay
from cctrace.analyzers.attribution.result import PLAYERS, Site
from cctrace.analyzers.attribution.timeline import COPY_NUMBERS, SUBMITTING, Timeline
from cctrace.analyzers.categories import CATEGORIES
from cctrace.analyzers.columns import FloatArray, IntArray

MAX_SITES: Final = 12
"""Places whose saving is replayed, dearest first: what a report shows, and a tenth of a full replay."""
MIN_SITE_US: Final = 0.5
"""A place that costs less than this per step is not worth a line."""
_SITE_CAUSES: Final = ((LAUNCH, "launch"), (PCIE, "pcie"), (OVERLAP, "overlap"))


@dataclass(frozen=True, eq=False)
class _Place:
    """One place with one cause: the operations of the program that lie there."""

    cause: int
    rows: IntArray
    position: int
    cost_us: float


def sites_of(program: Program, off: Timeline, on: Timeline, threads: Mapping[int, str]) -> tuple[Site, ...]:
    """The places of a class that cost most, with what each would save.

    Args:
        program: the merged program.
        off: operations of the off arm.
        on: operations of the on arm.
        threads: name of each thread of the on arm, by number in the program.
    """
    places = _places(program, on)
    if not places:
        return ()
    saved = _savings(program, places)
    begins = _step_begins(on)
    found = [
        _site(program, place, float(one), (off, on), begins=begins, threads=threads)
        for place, one in zip(places, saved, strict=True)
    ]
    return tuple(sorted(found, key=lambda site: -site.saved_if_removed_us))


def _places(program: Program, on: Timeline) -> list[_Place]:
    host = program.host
    counted = int(program.counts.sum())
    rows = np.flatnonzero(program.counts[host.step] & (host.off >= 0) & (host.on >= 0))
    rows = rows[host.category[rows] < len(CATEGORIES)]
    position = _position(host)
    place = group_numbers(host.thread[rows], host.category[rows], position[rows])
    found: list[_Place] = []
    for column, _ in _SITE_CAUSES:
        cost = visible_cost(host, rows, column, on)
        total = np.bincount(place, weights=cost) / max(counted, 1)
        dearest = [one for one in np.argsort(-total)[:MAX_SITES].tolist() if total[one] >= MIN_SITE_US]
        for one in dearest:
            there = rows[place == one]
            found.append(_Place(column, there, int(position[there[0]]), float(total[one])))
    found.sort(key=lambda one: -one.cost_us)
    return found[:MAX_SITES]


def visible_cost(host: HostProgram, rows: IntArray, column: int, on: Timeline) -> FloatArray:
    """What a cause (a column) costs at operations that both arms have, waiting included; µs."""
    if column != OVERLAP:
        return np.asarray(host.own[rows, column], np.float64)
    waits = np.isin(host.category[rows], COPY_NUMBERS) & (host.post[rows, OVERLAP] > 0)
    length = (on.end - on.start)[host.on[rows]]
    return np.where(waits, length - host.own[rows].sum(axis=1), 0.0)


def _position(host: HostProgram) -> IntArray:
    """Number of each operation within its step and thread."""
    order = np.lexsort((np.arange(len(host)), host.thread, host.step))
    first = first_of_group(opens(host.thread[order], host.step[order]))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order)) - first
    return position


def _savings(program: Program, places: list[_Place]) -> FloatArray:
    """What the on arm's step gets shorter by if each place alone behaves as in the off arm."""
    own = _widened(program.host.own, len(places))
    post = _widened(program.host.post, len(places))
    for number, place in enumerate(places):
        column = len(PLAYERS) + 1 + number
        moved = post if place.cause == OVERLAP else own
        moved[place.rows, column] = moved[place.rows, place.cause]
        moved[place.rows, place.cause] = 0.0
    host = replace(program.host, gap=_widened(program.host.gap, len(places)), own=own, post=post)
    device = program.device
    wide = {name: _widened(getattr(device, name), len(places)) for name in ("delay", "duration", "pause")}
    widened = replace(program, host=host, device=_replaced(device, wide))
    players = np.ones((len(places) + 1, len(PLAYERS)))
    switched = np.ones((len(places) + 1, len(PLAYERS) + len(places)))
    switched[1 + np.arange(len(places)), len(PLAYERS) + np.arange(len(places))] = 0.0
    periods = replay(widened, players, switched)[:, program.counts].mean(axis=1)
    return np.asarray(periods[0] - periods[1:], np.float64)


def _replaced(device: DeviceProgram, costs: dict[str, Costs]) -> DeviceProgram:
    return replace(device, delay=costs["delay"], duration=costs["duration"], pause=costs["pause"])


def _widened(costs: Costs, more: int) -> Costs:
    return np.concatenate((costs, np.zeros((len(costs), more))), axis=1)


def _site(
    program: Program,
    place: _Place,
    saved: float,
    arms: tuple[Timeline, Timeline],
    *,
    begins: FloatArray,
    threads: Mapping[int, str],
) -> Site:
    host, (off, on) = program.host, arms
    first, second = host.off[place.rows], host.on[place.rows]
    size = int(np.median(on.bytes[second]))
    category = int(host.category[place.rows[0]])
    return Site(
        cause=dict(_SITE_CAUSES)[place.cause],
        thread=threads[int(host.thread[place.rows[0]])],
        category=CATEGORIES[category],
        position=place.position,
        offset_us=float(np.median(on.start[second] - begins[np.maximum(on.step[second], 0)])),
        calls_per_step=len(place.rows) / max(int(program.counts.sum()), 1),
        bytes=size if category in COPY_NUMBERS and size >= 0 else None,
        off_us=float((off.end - off.start)[first].mean()),
        on_us=float((on.end - on.start)[second].mean()),
        saved_if_removed_us=saved,
    )


def _step_begins(on: Timeline) -> FloatArray:
    """Begin of each step of the on arm: the end of the step before it, or its first call."""
    main = on.thread == SUBMITTING
    steps = np.unique(on.step[main])
    begin = np.full(int(steps.max(initial=0)) + 2, np.inf)
    np.minimum.at(begin, on.step[main], (on.start - on.gap)[main])
    return begin
