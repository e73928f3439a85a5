"""Rows for tests of the time line: lanes made of arrays, and what a window must show of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cctrace.analyzers.viewport import Index, TrackAnswer, Window, build_index
from cctrace.trace import SCHEMA, Metadata, open_trace
from cctrace.trace.schema import METADATA_KEY

Array = npt.NDArray[np.int64]
BASE_NS = 5_000_000_000
PID = 42


def kernel_launches(start: Array, duration: Array, *, lane: int = 0, **columns: Any) -> pa.Table:
    """Launches of one thread; `columns` are values of all rows, or of each one."""
    return rows(start, duration, lane=lane, **{"kind": "submit", "operation": "kernel", **columns})


def rows(start: Array, duration: Array, *, lane: int | Array = 0, **columns: Any) -> pa.Table:
    """Rows of one lane, times from BASE_NS on."""
    given: dict[str, Any] = {
        "kind": "submit",
        "name": "call",
        "source": "interposer",
        "pid": PID,
        "lane": lane,
        **columns,
        "start_ns": np.asarray(start) + BASE_NS,
        "duration_ns": duration,
    }
    arrays = []
    for field in SCHEMA:
        value = given.get(field.name)
        plain = pa.string() if pa.types.is_dictionary(field.type) else field.type
        single = value is None or isinstance(value, (str, int, bool))
        array = pa.array([value] * len(start) if single else value, plain)
        arrays.append(array.dictionary_encode().cast(field.type) if plain != field.type else array)
    return pa.table(arrays, schema=SCHEMA)


def write(path: Path, *tables: pa.Table, metadata: Metadata | None = None, group_rows: int = 1 << 18) -> Path:
    """A trace of these tables, in this order, whether it is the right one or not."""
    table = pa.concat_tables(tables).unify_dictionaries()
    document = (metadata or Metadata()).to_json()
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: document}), path, row_group_size=group_rows)
    return path


def index_of(path: Path, *tables: pa.Table, **options: Any) -> Index:
    """The index of a trace of these tables."""
    return build_index(open_trace(write(path, *tables, **options)))


@dataclass(frozen=True)
class Seen:
    """What a window must show of rows, by looking at each of them."""

    start: Array
    duration: Array
    window: Window

    @property
    def touching(self) -> npt.NDArray[np.bool_]:
        """Rows in the window; those without a duration are 1 ns long."""
        end = self.start + np.maximum(self.duration, 1)
        mask: npt.NDArray[np.bool_] = (self.start < self.window.end) & (end > self.window.begin)
        return mask

    def busy(self, chosen: npt.NDArray[np.bool_], until: float) -> float:
        """Time of the chosen rows within the window and before a time, ns."""
        begin = np.maximum(self.start[chosen], self.window.begin)
        end = np.minimum((self.start + self.duration)[chosen], min(until, self.window.end))
        return float(np.maximum(end - begin, 0).sum())


def dust_busy(track: TrackAnswer, window: Window, factor: int) -> npt.NDArray[np.float64]:
    """Busy time of the dust up to the end of each column that was asked for, ns."""
    columns = np.zeros(-(-window.columns // factor))
    width = np.minimum(factor, window.columns - track.pixel) * window.width
    columns[track.pixel // factor] = track.busy * width
    return np.cumsum(columns)
