"""The lanes of a trace as people know them: titles, and the order from top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from cctrace.analyzers.viewport.tones import GPU
from cctrace.analyzers.viewport.tracks import Track
from cctrace.trace import Lane as KnownLane
from cctrace.trace import Metadata

THREAD, STREAM, COUNTER = "thread", "stream", "counter"
_ORDER: Final = (THREAD, STREAM, COUNTER)


@dataclass(frozen=True, eq=False)
class Lane:
    """One host thread, GPU stream, or set of counters.

    Attributes:
        number: as in the column `lane`.
        kind: thread, stream or counter.
        pid: process.
        title: what people call it.
        role: role of the thread, if it is known.
        rows: its rows in the file.
        submissions: how many of them hand anything to the GPU.
        tracks: its tracks; a lane of counters has none.
    """

    number: int
    kind: str
    pid: int
    title: str
    role: str | None
    rows: int
    submissions: int
    tracks: tuple[Track, ...]

    @property
    def busy_ns(self) -> float:
        """Sum of the durations of its rows."""
        return sum(track.busy_ns for track in self.tracks)


def described(
    number: int, metadata: Metadata, tracks: tuple[Track, ...], *, pid: int, rows: int, submissions: int
) -> Lane:
    """A lane with what the metadata tell of it."""
    known = next((lane for lane in metadata.lanes if lane.lane == number), None)
    kind = _kind(known, tracks)
    return Lane(
        number=number,
        kind=kind,
        pid=pid,
        title=_title(known, kind, number),
        role=known.role if known else None,
        rows=rows,
        submissions=submissions,
        tracks=tracks,
    )


def ordered(lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """Threads, most submissions first; streams, busiest first; counters. Titles tell processes apart."""
    several = len({lane.pid for lane in lanes if lane.tracks}) > 1
    if several:
        lanes = [replace(lane, title=f"{lane.title}, process {lane.pid}") for lane in lanes]

    def key(lane: Lane) -> tuple[int, int, float, int]:
        return (_ORDER.index(lane.kind), -lane.submissions, -lane.busy_ns, lane.number)

    return tuple(sorted(lanes, key=key))


def _kind(known: KnownLane | None, tracks: tuple[Track, ...]) -> str:
    """What its rows make it: the metadata of another maker may say something else."""
    if not tracks:
        return COUNTER
    if known is not None and known.kind in (THREAD, STREAM):
        return known.kind
    return STREAM if all(track.name == GPU for track in tracks) else THREAD


def _title(known: KnownLane | None, kind: str, number: int) -> str:
    if known is None:
        return f"lane {number}"
    if kind == THREAD:
        role = known.role if known.role not in (None, "other") else "thread"
        return f"{role} {known.tid}" if known.tid is not None else known.name or f"{role}, lane {number}"
    name = known.name or (f"stream {known.stream}" if known.stream is not None else f"lane {number}")
    return f"GPU {known.device}, {name}" if kind == STREAM and known.device is not None else name
