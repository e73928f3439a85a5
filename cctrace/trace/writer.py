"""Writing a trace: streamed, and complete or not there at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cctrace.errors import CctraceError, OutputExistsError, UnusableInputError
from cctrace.trace.columns import SMALL_DICTIONARY, cast_column, compact_dictionary
from cctrace.trace.metadata import Metadata
from cctrace.trace.schema import METADATA_KEY, SCHEMA

ROW_GROUP_ROWS: Final = 256 << 10
"""Rows of a row group: a viewport or a thread reads whole groups, about 1.5 MB and 10 ms each at this size,
while the words that every group repeats stay below 1 % of it."""

COMPRESSION_LEVEL: Final = 1
"""zstd's: higher levels save less than 1 % on delta-encoded times."""

_DELTA: Final = tuple(field.name for field in SCHEMA if pa.types.is_integer(field.type))
"""Columns stored as differences: half the size of a dictionary for times that grow, and cheaper to write
than one for numbers that hardly change."""

_STATISTICS: Final = ("kind", "start_ns", "duration_ns", "pid", "tid", "lane", "device", "stream")
"""Columns with their least and greatest value in each row group, by which readers skip groups. More would
cost a fifth of the writing time and select nothing."""

_WRITE_BATCH_ROWS: Final = 64 << 10
"""Rows that the encoder looks at together; Arrow's 1024 costs a tenth more time."""

_SORTED_BY: Final = ("pid", "lane", "start_ns")


class TraceWriter:
    """Writes one trace: `write` any number of tables, sorted by (pid, lane, start_ns), then `finish`.

    Rows go to a temporary file beside the target, which becomes the target in `finish`. Leaving the context
    without `finish` leaves nothing behind.

    Raises:
        OutputExistsError: the target is there and `force` is not set.
        UnusableInputError: the target cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        self.path: Final = Path(path)
        self._force = force
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._last: tuple[int, int, int] | None = None
        self.rows_written = 0
        self._check_target()
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        with _disk_errors(self.path):
            self._sink = self._temporary.open("wb")
            self._parquet = pq.ParquetWriter(
                self._sink,
                SCHEMA,
                compression="zstd",
                compression_level=COMPRESSION_LEVEL,
                use_dictionary=[name for name in SCHEMA.names if name not in _DELTA],
                column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
                write_statistics=list(_STATISTICS),
                write_batch_size=_WRITE_BATCH_ROWS,
                sorting_columns=[pq.SortingColumn(SCHEMA.get_field_index(name)) for name in _SORTED_BY],
            )

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._discard()

    def write(self, table: pa.Table | pa.RecordBatch) -> None:
        """Appends rows. Missing optional columns become null; the order is the caller's duty and is checked.

        Raises:
            ValueError: the rows are not sorted, or lack a column that is never null.
        """
        if not table.num_rows:
            return
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        table = _conform(table)
        self._check_order(table)
        self._pending.append(table)
        self._pending_rows += table.num_rows
        if self._pending_rows >= ROW_GROUP_ROWS:
            self._flush(whole_groups_only=True)

    def finish(self, metadata: Metadata) -> None:
        """Writes what is left and the metadata, and gives the file its name."""
        with _disk_errors(self.path):
            self._flush(whole_groups_only=False)
            self._parquet.add_key_value_metadata({METADATA_KEY.decode(): metadata.to_json()})
            self._parquet.close()
            self._sink.flush()
            os.fsync(self._sink.fileno())
            self._sink.close()
            self._publish()

    def _flush(self, *, whole_groups_only: bool) -> None:
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        end = rows.num_rows - rows.num_rows % ROW_GROUP_ROWS if whole_groups_only else rows.num_rows
        with _disk_errors(self.path):
            for start in range(0, end, ROW_GROUP_ROWS):
                group = rows.slice(start, min(ROW_GROUP_ROWS, end - start))
                self._parquet.write_table(_compact(group), row_group_size=ROW_GROUP_ROWS)
        self.rows_written += end
        rest = rows.slice(end)
        self._pending, self._pending_rows = ([rest] if rest.num_rows else []), rest.num_rows

    def _check_order(self, table: pa.Table) -> None:
        keys = [table.column(name).to_numpy() for name in _SORTED_BY]
        if self._last is not None and self._last > tuple(int(key[0]) for key in keys):
            raise ValueError("rows of a trace must be sorted by pid, lane and start")
        unsorted = np.zeros(table.num_rows - 1, dtype=bool)
        tied = np.ones(table.num_rows - 1, dtype=bool)
        for key in keys:
            unsorted |= tied & (key[1:] < key[:-1])
            tied &= key[1:] == key[:-1]
        if unsorted.any():
            raise ValueError("rows of a trace must be sorted by pid, lane and start")
        self._last = tuple(int(key[-1]) for key in keys)  # type: ignore[assignment]

    def _check_target(self) -> None:
        if self.path.is_dir():
            raise UnusableInputError(f"{self.path}: is a folder; name a file")
        if not self._force and self.path.exists():
            raise OutputExistsError(f"{self.path} exists; --force overwrites it")
        if not self.path.parent.is_dir():
            raise UnusableInputError(f"{self.path}: the folder {self.path.parent} does not exist")

    def _publish(self) -> None:
        if self._force:
            self._temporary.replace(self.path)
        else:
            try:
                os.link(self._temporary, self.path)  # fails if the target has appeared meanwhile
            except FileExistsError:
                raise OutputExistsError(f"{self.path} exists; --force overwrites it") from None
            except OSError:  # a file system without hard links
                self._check_target()
                self._temporary.rename(self.path)
            self._temporary.unlink(missing_ok=True)
        _sync_folder(self.path.parent)

    def _discard(self) -> None:
        if not self._sink.closed:
            with contextlib.suppress(Exception):
                self._parquet.close()
            with contextlib.suppress(OSError):
                self._sink.close()
        with contextlib.suppress(OSError):
            self._temporary.unlink(missing_ok=True)


def _conform(table: pa.Table) -> pa.Table:
    for field in SCHEMA:
        if field.name not in table.schema.names:
            nulls = pa.nulls(table.num_rows, field.type)
            table = table.append_column(field.name, nulls)
    unknown = [name for name in table.schema.names if name not in SCHEMA.names]
    if unknown:
        raise ValueError(f"a trace has no column {', '.join(map(repr, unknown))}")
    table = table.select(SCHEMA.names)
    if table.schema.equals(SCHEMA):
        conformed = table
    else:
        columns = [
            pa.chunked_array(
                [cast_column(chunk, field.type) for chunk in table.column(field.name).chunks], field.type
            )
            for field in SCHEMA
        ]
        conformed = pa.Table.from_arrays(columns, schema=SCHEMA)
    for name in ("kind", "start_ns", "duration_ns", "pid", "lane"):
        if conformed.column(name).null_count:
            raise ValueError(f"column '{name}' must not be null")
    return conformed


def _compact(table: pa.Table) -> pa.Table:
    """The same rows, each column of words with one dictionary, of hardly more words than occur."""
    table = table.unify_dictionaries()
    columns = []
    for field in SCHEMA:
        column = table.column(field.name)
        if pa.types.is_dictionary(field.type) and len(column.chunk(0).dictionary) > SMALL_DICTIONARY:
            column = pa.chunked_array([compact_dictionary(column.combine_chunks())], field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every file system can
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Turns an error of the operating system into one line that names the target."""
    try:
        yield
    except CctraceError:
        raise
    except OSError as error:
        why = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        raise UnusableInputError(f"{path}: cannot be written: {why}") from None
