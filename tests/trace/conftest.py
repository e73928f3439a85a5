import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from cctrace.trace import SCHEMA, Metadata, TraceWriter
from cctrace.trace.columns import cast_column


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table of the trace's schema; what a row leaves out is null, or 0 where it must not be."""
    filled = [{"kind": "submit", "start_ns": 0, "duration_ns": 0, "pid": 1, "lane": 0, **row} for row in rows]
    columns = []
    for field in SCHEMA:
        values = [row.get(field.name) for row in filled]
        plain = pa.string() if pa.types.is_dictionary(field.type) else field.type
        columns.append(cast_column(pa.array(values, plain), field.type))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


WriteTrace = Callable[..., Path]


@pytest.fixture
def write_trace(tmp_path: Path) -> WriteTrace:
    """Writes tables as one trace and returns its path."""

    def write(*tables: pa.Table, name: str = "t.parquet", metadata: Metadata | None = None) -> Path:
        path = tmp_path / name
        with TraceWriter(path) as writer:
            for table in tables:
                writer.write(table)
            writer.finish(metadata or Metadata())
        return path

    return write


@pytest.fixture
def make_table() -> Callable[[list[dict[str, Any]]], pa.Table]:
    return table_of
