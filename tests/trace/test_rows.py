"""Rows by their numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cctrace.errors import UnusableInputError
from cctrace.trace import open_trace
from cctrace.trace.schema import METADATA_KEY

MakeTable = Callable[[list[dict[str, Any]]], pa.Table]
COUNT = 1000


@pytest.fixture
def path(tmp_path: Path, make_table: MakeTable) -> Path:
    """A trace of several row groups whose rows know their numbers."""
    table = make_table([{"bytes": row, "name": f"name {row % 7}", "start_ns": row} for row in range(COUNT)])
    table = table.replace_schema_metadata({METADATA_KEY: '{"format_version": 1}'})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=90)
    return tmp_path / "t.parquet"


@pytest.mark.parametrize("numbers", [[], [0], [999], [89, 90], [7, 3, 3, 999, 500, 7], [*range(COUNT)]])
def test_rows_come_in_the_order_of_their_numbers(path: Path, numbers: list[int]) -> None:
    table = open_trace(path).rows(numbers, ["bytes", "name"])

    assert table.column_names == ["bytes", "name"]
    assert table["bytes"].to_pylist() == numbers
    assert table["name"].to_pylist() == [f"name {number % 7}" for number in numbers]


def test_all_columns_are_those_of_the_table(path: Path) -> None:
    trace = open_trace(path)

    assert trace.rows(np.array([500, 501])).to_pylist() == trace.table(start_ns=500, end_ns=502).to_pylist()


def test_columns_that_the_file_lacks_are_null(path: Path) -> None:
    stored = pq.read_table(path)
    pq.write_table(stored.drop_columns(["bytes"]), path)

    assert open_trace(path).rows([5], ["bytes"]).to_pylist() == [{"bytes": None}]


@pytest.mark.parametrize("number", [-1, COUNT, 2**40])
def test_there_is_no_such_row(path: Path, number: int) -> None:
    with pytest.raises(IndexError, match="has 1000 rows"):
        open_trace(path).rows([3, number])


def test_only_damage_in_their_own_row_group_matters(path: Path) -> None:
    group = pq.read_metadata(path).row_group(4)
    begin = min(group.column(column).data_page_offset for column in range(group.num_columns))
    content = bytearray(path.read_bytes())
    content[begin : begin + group.total_byte_size] = b"\xff" * group.total_byte_size
    path.write_bytes(content)
    trace = open_trace(path)

    assert trace.rows([3], ["bytes"]).to_pylist() == [{"bytes": 3}]
    with pytest.raises(UnusableInputError, match="damaged"):
        trace.rows([4 * 90 + 3], ["bytes"])


def test_texts_that_are_none_are_damage(path: Path) -> None:
    stored = pq.read_table(path)
    broken = pa.array([b"\xff"] * COUNT, pa.binary()).view(pa.string())
    for name in ("name", "attributes"):
        column = broken.dictionary_encode() if name == "name" else broken
        table = stored.set_column(stored.schema.get_field_index(name), name, column)
        pq.write_table(table, path)
        with pytest.raises(UnusableInputError, match="damaged"):
            open_trace(path).rows([1])
        with pytest.raises(UnusableInputError, match="damaged"):
            open_trace(path).table([name])
