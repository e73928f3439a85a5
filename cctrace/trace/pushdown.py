"""Which row groups and rows a query needs: from the statistics in the file, then exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Query:
    """Rows that are wanted: of these kinds, processes and lanes, touching [start_ns, end_ns). None: all.

    A row touches the interval if it begins in it, or begins before and ends after `start_ns`.
    """

    kinds: tuple[str, ...] | None = None
    pids: tuple[int, ...] | None = None
    lanes: tuple[int, ...] | None = None
    start_ns: int | None = None
    end_ns: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the query looks at."""
        wanted = [("kind", self.kinds), ("pid", self.pids), ("lane", self.lanes)]
        names = [name for name, values in wanted if values is not None]
        if self.start_ns is not None or self.end_ns is not None:
            names += ["start_ns", "duration_ns"]
        return tuple(names)

    def row_groups(self, file: pq.FileMetaData) -> list[int]:
        """Row groups that may hold a wanted row."""
        places = {file.schema.column(i).path: i for i in range(file.num_columns)}
        return [g for g in range(file.num_row_groups) if self._may_match(file.row_group(g), places)]

    def _may_match(self, group: pq.RowGroupMetaData, places: dict[str, int]) -> bool:
        def bounds(name: str) -> tuple[Any, Any] | None:
            if name not in places:
                return None
            statistics = group.column(places[name]).statistics
            return (
                (statistics.min, statistics.max)
                if statistics is not None and statistics.has_min_max
                else None
            )

        for name, values in (("kind", self.kinds), ("pid", self.pids), ("lane", self.lanes)):
            found = bounds(name) if values is not None else None
            if (
                values is not None
                and found is not None
                and not any(found[0] <= v <= found[1] for v in values)
            ):
                return False
        begins = bounds("start_ns")
        longest = bounds("duration_ns")
        if begins is not None and self.end_ns is not None and begins[0] >= self.end_ns:
            return False
        if begins is None or self.start_ns is None or longest is None:
            return True
        return bool(begins[1] >= self.start_ns or begins[1] + longest[1] > self.start_ns)

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted rows of a batch that holds the query's columns."""
        mask = None
        for condition in self._conditions(batch):
            mask = condition if mask is None else pc.and_(mask, condition)
        return batch if mask is None or pc.all(mask).as_py() else batch.filter(mask)

    def _conditions(self, batch: pa.RecordBatch) -> Iterable[pa.Array]:
        if self.kinds is not None:
            yield _is_in_words(batch.column("kind"), self.kinds)
        if self.pids is not None:
            yield _is_in(batch.column("pid"), self.pids)
        if self.lanes is not None:
            yield _is_in(batch.column("lane"), self.lanes)
        if self.end_ns is not None:
            yield pc.less(batch.column("start_ns"), self.end_ns)
        if self.start_ns is not None:
            begin = batch.column("start_ns")
            end = pc.add(begin, batch.column("duration_ns"))
            yield pc.or_(pc.greater_equal(begin, self.start_ns), pc.greater(end, self.start_ns))


def _is_in(column: pa.Array, values: tuple[int, ...]) -> pa.Array:
    return pc.is_in(column, value_set=pa.array(values, column.type))


def _is_in_words(column: pa.DictionaryArray, values: tuple[str, ...]) -> pa.Array:
    hits = pc.is_in(column.dictionary, value_set=pa.array(values, pa.string()))
    # numpy looks up several times as fast as Arrow, which packs truth values in bits.
    wanted = hits.to_numpy(zero_copy_only=False)
    return pa.array(wanted[column.indices.to_numpy()])
