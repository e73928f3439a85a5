"""Rows of one lane by their start, from records that lie nearly in that order, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.index import Run
from cctrace.collectors.spool.layout import Kind
from cctrace.collectors.spool.spoolfile import CHUNK_RECORDS, Records, take


@dataclass(frozen=True)
class Batch:
    """Records sorted by start; `positions` are their places in the spool, −1 for made ones."""

    records: Records
    positions: npt.NDArray[np.intp]
    _fields: dict[str, npt.NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """One field of all records, side by side in memory."""
        if name not in self._fields:
            self._fields[name] = np.ascontiguousarray(self.records[name])
        return self._fields[name]

    @property
    def is_call(self) -> npt.NDArray[np.bool_]:
        """Which records are host calls."""
        if "is_call" not in self._fields:
            self._fields["is_call"] = self["kind"] == Kind.CALL
        return self._fields["is_call"]

    @property
    def is_collective(self) -> npt.NDArray[np.bool_]:
        """Which records are host calls of NCCL."""
        if "is_collective" not in self._fields:
            self._fields["is_collective"] = self["kind"] == Kind.COLLECTIVE
        return self._fields["is_collective"]

    @property
    def operations(self) -> npt.NDArray[np.uint8]:
        """Operation of each host call; 0 for other records."""
        if "calls" not in self._fields:
            self._fields["calls"] = np.where(self.is_call, self["operation"], np.uint8(0))
        return self._fields["calls"]


@dataclass(frozen=True)
class _Places:
    """Rows to come: where they lie in the spool (−1 − i: the made row i), and when they start."""

    positions: npt.NDArray[np.intp]
    starts: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.positions)

    def part(self, begin: int, end: int | None) -> _Places:
        return _Places(self.positions[begin:end], self.starts[begin:end])

    def before(self, limit: int | None) -> int:
        """How many of the rows, which are sorted, start before `limit` (None: all)."""
        return (
            len(self) if limit is None else int(np.searchsorted(self.starts, np.uint64(limit), side="left"))
        )


def merged(
    records: Records, runs: Sequence[Run], ranges: Sequence[Run] = (), made: Records | None = None
) -> Iterator[Batch]:
    """All rows of a lane by start, in batches of about one chunk.

    Args:
        records: the spool.
        runs: records written about when they end; sorted while they stream by.
        ranges: records whose start lies far from their place in the file; their places and starts are held.
        made: further rows, not of the spool, sorted by start.
    """
    made = records[:0] if made is None else made
    others = [
        _in_order([_places(records, run) for run in ranges]),
        _Places(-1 - np.arange(len(made)), np.ascontiguousarray(made["start_ns"])),
    ]
    held = _in_order([])
    # No later run holds a row that starts before this.
    limits = np.minimum.accumulate([run.first_start for run in reversed(runs)])[::-1].tolist() if runs else []
    added: list[_Places] = []
    for number, run in enumerate(runs):
        added.append(_places(records, run))
        if number + 1 == len(runs):
            break
        # A thread that shares chunks with others has few records in each: they are put together.
        if sum(map(len, added)) < CHUNK_RECORDS:
            continue
        limit = limits[number + 1]
        held, added = _in_order([held, *added]), []
        ready = held.before(limit)
        due = [other.part(0, other.before(limit)) for other in others]
        yield from _batches(records, made, _in_order([held.part(0, ready), *due]))
        held = held.part(ready, None)
        others = [other.part(len(taken), None) for other, taken in zip(others, due, strict=True)]
    yield from _batches(records, made, _in_order([held, *added, *others]))


def _places(records: Records, run: Run) -> _Places:
    positions = run.positions()
    if run.local is None:
        return _Places(positions, np.array(records["start_ns"][run.base : run.base + run.count]))
    starts = np.ascontiguousarray(records["start_ns"][run.base : run.base + int(run.local[-1]) + 1])
    return _Places(positions, np.take(starts, run.local))


def _in_order(parts: Sequence[_Places]) -> _Places:
    filled = [part for part in parts if len(part)]
    if not filled:
        return _Places(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.uint64))
    if len(filled) == 1:
        positions, starts = filled[0].positions, filled[0].starts
    else:
        positions = np.concatenate([part.positions for part in filled])
        starts = np.concatenate([part.starts for part in filled])
    if bool(np.all(starts[1:] >= starts[:-1])):
        return _Places(positions, starts)
    order = np.argsort(starts, kind="stable")
    return _Places(np.take(positions, order), np.take(starts, order))


def _batches(records: Records, made: Records, places: _Places) -> Iterator[Batch]:
    """The records themselves, copied once."""
    for begin in range(0, len(places), CHUNK_RECORDS):
        positions = places.positions[begin : begin + CHUNK_RECORDS]
        of_made = np.flatnonzero(positions < 0)
        if not len(of_made):
            yield Batch(take(records, positions), positions)
            continue
        batch = take(records, np.maximum(positions, 0))
        batch[of_made] = take(made, -1 - positions[of_made])
        yield Batch(batch, np.maximum(positions, -1))
