"""Reading a trace: whole columns, or the rows of some kinds, lanes or times without reading the rest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cctrace.errors import UnusableInputError
from cctrace.trace.columns import cast_column, is_readable_as
from cctrace.trace.metadata import Lane, Metadata
from cctrace.trace.pushdown import Query
from cctrace.trace.schema import METADATA_KEY, REQUIRED_COLUMNS, SCHEMA

if TYPE_CHECKING:
    import pandas as pd

IntArray = npt.NDArray[np.int64]

BATCH_ROWS: Final = 256 << 10
"""Rows of one batch at most: a batch of all columns stays below about 40 MiB."""

_NEVER_NULL: Final = ("kind", "start_ns", "duration_ns", "pid", "lane")


def open_trace(path: str | os.PathLike[str]) -> Trace:
    """Opens a trace and checks it.

    Raises:
        UnusableInputError: no such file, an empty or damaged one, one that is no trace, or one made by a
        newer cctrace.
    """
    return Trace(Path(path))


class Trace:
    """One trace file. Row data are read on demand; the object holds the footer and the metadata only."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._file = _open_parquet(path)
        self.metadata: Final[Metadata] = _read_metadata(path, self._file.metadata.metadata or {})
        self._names: Final = _check_columns(path, self._file.schema_arrow)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Host threads, GPU streams and counters, by number."""
        return self.metadata.lanes

    @property
    def num_rows(self) -> int:
        """Rows in the file."""
        return int(self._file.metadata.num_rows)

    def table(
        self,
        columns: Sequence[str] | None = None,
        *,
        kinds: str | Sequence[str] | None = None,
        pid: int | Sequence[int] | None = None,
        lane: int | Sequence[int] | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> pa.Table:
        """Rows as one Arrow table, in file order: by pid, lane, start.

        Args:
            columns: names in the wanted order; None: all of `SCHEMA`. Those that the file lacks are null.
            kinds: only rows of these kinds.
            pid: only rows of these processes.
            lane: only rows of these lanes.
            start_ns: only rows that begin at or after this time, or are under way then; ns, CLOCK_MONOTONIC.
            end_ns: only rows that begin before this time.

        Raises:
            UnusableInputError: the file is damaged.
        """
        query = _query(kinds, pid, lane, start_ns, end_ns)
        batches = list(self._read(_wanted(columns), query))
        table = pa.Table.from_batches(batches, _schema(_wanted(columns)))
        return table.unify_dictionaries()

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        kinds: str | Sequence[str] | None = None,
        pid: int | Sequence[int] | None = None,
        lane: int | Sequence[int] | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """As `table`, one batch at a time in bounded memory. Each batch has dictionaries of its own."""
        return self._read(_wanted(columns), _query(kinds, pid, lane, start_ns, end_ns))

    def frame(
        self,
        columns: Sequence[str] | None = None,
        *,
        kinds: str | Sequence[str] | None = None,
        pid: int | Sequence[int] | None = None,
        lane: int | Sequence[int] | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> pd.DataFrame:
        """As `table`, as a pandas frame: words are categories, numbers that can be null are nullable."""
        table = self.table(columns, kinds=kinds, pid=pid, lane=lane, start_ns=start_ns, end_ns=end_ns)
        return to_frame(table)

    def rows(self, numbers: Sequence[int] | IntArray, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by their numbers, from 0 in file order; reads their row groups only.

        Args:
            numbers: which rows, and in which order.
            columns: as in `table`.

        Raises:
            UnusableInputError: the file is damaged.
            IndexError: there is no row with one of the numbers.
        """
        wanted = np.asarray(numbers, np.int64).reshape(-1)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < self.num_rows:
            raise IndexError(f"{self.path} has {self.num_rows} rows")
        names = _wanted(columns)
        if (wanted[1:] > wanted[:-1]).all():
            return self._picked(names, wanted)
        in_order, place = np.unique(wanted, return_inverse=True)
        return self._picked(names, in_order).take(pa.array(place.reshape(-1)))

    def _picked(self, columns: tuple[str, ...], numbers: IntArray) -> pa.Table:
        """Rows by their numbers, which grow."""
        batches = list(self._picked_batches(columns, numbers))
        return pa.Table.from_batches(batches, _schema(columns)).unify_dictionaries()

    def _picked_batches(self, columns: tuple[str, ...], numbers: IntArray) -> Iterator[pa.RecordBatch]:
        schema = _schema(columns)
        names = [name for name in columns if name in self._names] or ["pid"]
        file = self._file.metadata
        sizes = [file.row_group(group).num_rows for group in range(file.num_row_groups)]
        bounds = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        at = np.searchsorted(numbers, bounds)
        try:
            for group in np.flatnonzero(at[1:] > at[:-1]).tolist():
                begin, last = int(bounds[group]), int(numbers[at[group + 1] - 1])
                for stored in self._file.iter_batches(BATCH_ROWS, [group], columns=names):
                    end = begin + stored.num_rows
                    own = numbers[np.searchsorted(numbers, begin) : np.searchsorted(numbers, end)]
                    if len(own):
                        yield _arranged(self._typed(stored.take(pa.array(own - begin))), schema)
                    begin = end
                    if begin > last:
                        break
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise UnusableInputError(f"{self.path}: the file is damaged ({_reason(error)})") from None

    def _read(self, columns: tuple[str, ...], query: Query) -> Iterator[pa.RecordBatch]:
        schema = _schema(columns)
        names = [name for name in dict.fromkeys((*columns, *query.columns)) if name in self._names]
        try:
            groups = query.row_groups(self._file.metadata)
            if not groups:
                return
            # Without a column Parquet would give no batch: rows are then counted by a narrow one.
            for stored in self._file.iter_batches(BATCH_ROWS, groups, columns=names or ["pid"]):
                batch = query.filter(self._typed(stored))
                if batch.num_rows:
                    yield _arranged(batch, schema)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise UnusableInputError(f"{self.path}: the file is damaged ({_reason(error)})") from None

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for name in batch.schema.names:
            column = cast_column(batch.column(name), SCHEMA.field(name).type)
            _check_text(column)
            if name in _NEVER_NULL and column.null_count:
                raise UnusableInputError(
                    f"{self.path}: column '{name}' has missing values; this is no valid trace"
                )
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """An Arrow table of trace columns as a pandas frame; see `Trace.frame`."""
    import pandas as pd  # noqa: PLC0415 - slow to import, and not every command needs it

    nullable: dict[pa.DataType, Any] = {
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    plain = table.select([name for name in table.schema.names if name in _NEVER_NULL]).to_pandas()
    rest = table.select([name for name in table.schema.names if name not in _NEVER_NULL])
    frame = pd.concat([plain, rest.to_pandas(types_mapper=nullable.get)], axis=1)
    ordered: pd.DataFrame = frame[table.schema.names]
    return ordered


def _open_parquet(path: Path) -> pq.ParquetFile:
    if not path.exists():
        raise UnusableInputError(f"{path}: no such file")
    if path.is_dir():
        raise UnusableInputError(
            f"{path}: is a folder, not a trace (a spool folder becomes one with `cctrace recover`)"
        )
    if not path.is_file():
        raise UnusableInputError(f"{path}: is not a regular file")
    try:
        if path.stat().st_size == 0:
            raise UnusableInputError(f"{path}: the file is empty")
        with path.open("rb") as file:
            begin = file.read(4)
        if begin != b"PAR1":
            raise UnusableInputError(f"{path}: is not a Parquet file, so not a trace")
        # Buffered beforehand, all that was read of the file would stay in memory as long as the reader does.
        return pq.ParquetFile(path, pre_buffer=False)
    except PermissionError:
        raise UnusableInputError(f"{path}: no permission to read it") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnusableInputError(
            f"{path}: is a truncated or damaged Parquet file ({_reason(error)})"
        ) from None


def _read_metadata(path: Path, pairs: dict[bytes, bytes]) -> Metadata:
    document = pairs.get(METADATA_KEY)
    if document is None:
        raise UnusableInputError(f"{path}: is a Parquet file, but not a cctrace trace")
    try:
        return Metadata.from_json(document)
    except UnusableInputError as error:
        raise UnusableInputError(f"{path}: {error}") from None


def _check_columns(path: Path, schema: pa.Schema) -> frozenset[str]:
    names = schema.names
    missing = [name for name in REQUIRED_COLUMNS if name not in names]
    if missing:
        raise UnusableInputError(f"{path}: columns of a trace are missing: {', '.join(missing)}")
    if len(set(names)) != len(names):
        raise UnusableInputError(f"{path}: a column occurs twice; this is no valid trace")
    for field in SCHEMA:
        if field.name in names and not is_readable_as(schema.field(field.name).type, field.type):
            found = schema.field(field.name).type
            raise UnusableInputError(f"{path}: column '{field.name}' is {found}, expected {field.type}")
    return frozenset(names)


def _wanted(columns: Sequence[str] | None) -> tuple[str, ...]:
    if columns is None:
        return tuple(SCHEMA.names)
    unknown = [name for name in columns if name not in SCHEMA.names]
    if unknown:
        raise ValueError(f"a trace has no column {', '.join(map(repr, unknown))}")
    return tuple(columns)


def _schema(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([SCHEMA.field(name) for name in columns])


def _query(
    kinds: str | Sequence[str] | None,
    pid: int | Sequence[int] | None,
    lane: int | Sequence[int] | None,
    start_ns: int | None,
    end_ns: int | None,
) -> Query:
    return Query(
        kinds=(kinds,) if isinstance(kinds, str) else None if kinds is None else tuple(kinds),
        pids=_numbers(pid),
        lanes=_numbers(lane),
        start_ns=None if start_ns is None else int(start_ns),
        end_ns=None if end_ns is None else int(end_ns),
    )


def _numbers(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    return tuple(int(v) for v in value) if hasattr(value, "__iter__") else (int(value),)


def _arranged(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    present = set(batch.schema.names)
    arrays = [
        batch.column(field.name) if field.name in present else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _check_text(column: pa.Array) -> None:
    """Raises ArrowInvalid if a column of texts holds what is none: Arrow leaves that to whoever reads it."""
    if pa.types.is_dictionary(column.type):
        column.dictionary.validate(full=True)
    elif pa.types.is_string(column.type):
        column.validate(full=True)


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
