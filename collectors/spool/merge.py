"""Rows of one lane by their start, from records that lie nearly in that order, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.index import Run
from cctrace.collectors.spool.layout import Kind
from cctrace.collectors.spool.spoolfile import CHUNK_RECORDS, Records, joined, take


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
    def operations(self) -> npt.NDArray[np.uint8]:
        """Operation of each host call; 0 for other records."""
        if "calls" not in self._fields:
            self._fields["calls"] = np.where(self.is_call, self["operation"], np.uint8(0))
        return self._fields["calls"]

    def part(self, begin: int, end: int | None) -> Batch:
        """Rows begin, …, end − 1."""
        return Batch(self.records[begin:end], self.positions[begin:end])


class Sorted:
    """Records whose order in the file says little (ranges are written when they end), by start."""

    def __init__(self, records: Records, runs: Sequence[Run]) -> None:
        self._records = records
        empty = np.zeros(0, dtype=np.intp)
        positions = np.concatenate([empty, *(run.positions() for run in runs)])
        starts = np.concatenate([records["start_ns"][:0], *(run.gather(records)["start_ns"] for run in runs)])
        order = np.argsort(starts, kind="stable")
        self.positions, self.starts = positions[order], starts[order]
        self._taken = 0

    def take_before(self, limit: int | None) -> Batch:
        """The rows not yet taken that start before `limit` (None: all)."""
        end = len(self.starts)
        if limit is not None:
            end = int(np.searchsorted(self.starts, np.uint64(limit), side="left"))
        where = self.positions[self._taken : end]
        self._taken = max(self._taken, end)
        return Batch(take(self._records, where), where)


def merged(
    records: Records, runs: Sequence[Run], ranges: Sequence[Run] = (), made: Records | None = None
) -> Iterator[Batch]:
    """All rows of a lane by start, in batches of about one chunk.

    Args:
        records: the spool.
        runs: records written about when they end; sorted while they stream by.
        ranges: records whose start lies far from their place in the file; only their starts are held.
        made: further rows, not of the spool, sorted by start.
    """
    in_order = Sorted(records, ranges)
    made = records[:0] if made is None else made
    made_taken = 0
    held = Batch(records[:0], np.zeros(0, dtype=np.intp))
    # No later run holds a row that starts before this.
    limits = np.minimum.accumulate([run.first_start for run in reversed(runs)])[::-1].tolist() if runs else []
    added: list[Batch] = []
    for number, run in enumerate(runs):
        added.append(Batch(run.gather(records), run.positions()))
        if number + 1 == len(runs):
            break
        # A thread that shares chunks with others has few records in each: they are put together.
        if sum(map(len, added)) < CHUNK_RECORDS:
            continue
        held, added = _in_order([held, *added]), []
        limit = limits[number + 1]
        ready = int(np.searchsorted(held.records["start_ns"], np.uint64(limit), side="left"))
        made_end = int(np.searchsorted(made["start_ns"], np.uint64(limit), side="left"))
        yield from _pieces(
            _in_order(
                [
                    held.part(0, ready),
                    in_order.take_before(limit),
                    _made(made[made_taken:made_end]),
                ]
            )
        )
        held, made_taken = held.part(ready, None), made_end
    yield from _pieces(_in_order([held, *added, in_order.take_before(None), _made(made[made_taken:])]))


def _made(records: Records) -> Batch:
    return Batch(records, np.full(len(records), -1, dtype=np.intp))


def _in_order(parts: Sequence[Batch]) -> Batch:
    filled = [part for part in parts if len(part)]
    if not filled:
        return parts[0]
    if len(filled) == 1:
        records, positions = filled[0].records, filled[0].positions
    else:
        records = joined([part.records for part in filled])
        positions = np.concatenate([part.positions for part in filled])
    starts = records["start_ns"]
    if bool(np.all(starts[1:] >= starts[:-1])):
        return Batch(records, positions)
    order = np.argsort(starts, kind="stable")
    return Batch(take(records, order), positions[order])


def _pieces(batch: Batch) -> Iterator[Batch]:
    size = CHUNK_RECORDS
    for begin in range(0, len(batch), size):
        yield batch.part(begin, begin + size)
