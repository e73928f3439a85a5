import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cctrace.errors import UnusableInputError
from cctrace.trace import SCHEMA, Metadata, open_trace
from cctrace.trace.schema import METADATA_KEY, REQUIRED_COLUMNS

MakeTable = Callable[[list[dict[str, Any]]], pa.Table]
WriteTrace = Callable[..., Path]


def foreign(path: Path, table: pa.Table, document: str | bytes | None = '{"format_version": 1}') -> Path:
    """A Parquet file that our writer did not make."""
    pairs = {} if document is None else {METADATA_KEY: document}
    pq.write_table(table.replace_schema_metadata(pairs), path)
    return path


def refused(path: Path) -> str:
    """The one line that says why a trace cannot be used; reading rows counts too."""
    with pytest.raises(UnusableInputError) as caught:
        open_trace(path).table()
    line = str(caught.value)
    assert line.startswith(str(path))
    assert "\n" not in line
    return line


def test_no_such_file(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "no.parquet")


def test_not_a_file(tmp_path: Path) -> None:
    assert "is a folder" in refused(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    assert "not a regular file" in refused(tmp_path / "fifo")


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"")
    assert "the file is empty" in refused(tmp_path / "t")


@pytest.mark.parametrize(
    "content", [b"x", b"PAR1", b"PAR1PAR1", b"hello world, this is no Parquet file", b"\0" * 4096]
)
def test_other_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    assert "Parquet" in refused(tmp_path / "t")


def test_truncation_anywhere(write_trace: WriteTrace, make_table: MakeTable, tmp_path: Path) -> None:
    whole = write_trace(make_table([{"start_ns": i, "name": f"n{i}"} for i in range(500)])).read_bytes()
    cut = tmp_path / "cut.parquet"
    for size in {
        1,
        3,
        4,
        7,
        8,
        12,
        *range(16, len(whole), 97),
        len(whole) - 8,
        len(whole) - 4,
        len(whole) - 1,
    }:
        cut.write_bytes(whole[:size])
        refused(cut)


def test_damaged_pages(write_trace: WriteTrace, make_table: MakeTable, tmp_path: Path) -> None:
    whole = bytearray(write_trace(make_table([{"start_ns": 37 * i * i} for i in range(3000)])).read_bytes())
    place = (
        pq.ParquetFile(tmp_path / "t.parquet")
        .metadata.row_group(0)
        .column(SCHEMA.get_field_index("start_ns"))
    )
    whole[place.data_page_offset + 30 : place.data_page_offset + 200] = b"\xff" * 170
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(whole)
    assert open_trace(damaged).num_rows == 3000
    assert "damaged" in refused(damaged)


def test_another_programs_parquet(tmp_path: Path) -> None:
    path = foreign(tmp_path / "t", pa.table({"a": [1]}), None)
    assert "not a cctrace trace" in refused(path)


def test_a_newer_version(tmp_path: Path, make_table: MakeTable) -> None:
    path = foreign(tmp_path / "t", make_table([{}]), '{"format_version": 99, "lanes": "in a new shape"}')
    assert "made by a newer cctrace" in refused(path)
    assert "upgrade" in refused(path)


@pytest.mark.parametrize("document", [b"", b"{", b"\xff\xfe", b"[]", b'{"format_version": 1, "lanes": 5}'])
def test_broken_metadata(tmp_path: Path, make_table: MakeTable, document: bytes) -> None:
    assert "the metadata" in refused(foreign(tmp_path / "t", make_table([{}]), document))


@pytest.mark.parametrize("name", REQUIRED_COLUMNS)
def test_a_missing_required_column(tmp_path: Path, make_table: MakeTable, name: str) -> None:
    path = foreign(tmp_path / "t", make_table([{}]).drop_columns([name]))
    assert f"columns of a trace are missing: {name}" in refused(path)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("start_ns", pa.array(["soon"])),
        ("start_ns", pa.array([1.5])),
        ("kind", pa.array([3])),
        ("value", pa.array(["x"])),
        ("blocking", pa.array([1])),
        ("pid", pa.array([[1]])),
    ],
)
def test_a_column_of_the_wrong_type(
    tmp_path: Path, make_table: MakeTable, name: str, values: pa.Array
) -> None:
    table = make_table([{}])
    path = foreign(tmp_path / "t", table.set_column(table.schema.get_field_index(name), name, values))
    assert f"column '{name}' is" in refused(path)


def test_a_number_that_does_not_fit(tmp_path: Path, make_table: MakeTable) -> None:
    table = make_table([{}])
    path = foreign(
        tmp_path / "t", table.set_column(table.schema.get_field_index("pid"), "pid", pa.array([2**40]))
    )
    assert "damaged" in refused(path)


@pytest.mark.parametrize("name", ["kind", "start_ns", "duration_ns", "pid", "lane"])
def test_missing_values_where_none_may_be(tmp_path: Path, make_table: MakeTable, name: str) -> None:
    table = make_table([{}])
    nulls = pa.nulls(1, table.schema.field(name).type)
    path = foreign(tmp_path / "t", table.set_column(table.schema.get_field_index(name), name, nulls))
    assert f"column '{name}' has missing values" in refused(path)


def test_a_column_that_occurs_twice(tmp_path: Path, make_table: MakeTable) -> None:
    path = foreign(tmp_path / "t", make_table([{}]).append_column("pid", pa.array([1], pa.int32())))
    assert "occurs twice" in refused(path)


def test_files_of_other_writers_are_read(tmp_path: Path) -> None:
    table = pa.table(
        {
            "kind": pa.array(["submit", "wait"]),
            "name": pa.array(["a", None], pa.large_string()),
            "operation": pa.array(["kernel", "query"]).dictionary_encode(),
            "start_ns": pa.array([5, 6], pa.uint64()),
            "duration_ns": pa.array([1, 1], pa.int32()),
            "pid": pa.array([1, 1]),
            "tid": pa.nulls(2),
            "lane": pa.array([0, 0], pa.int8()),
            "value": pa.array([1, None]),
            "a new column": pa.array([1, 2]),
        }
    )
    trace = open_trace(foreign(tmp_path / "t", table))
    read = trace.table()
    assert read.schema == SCHEMA
    assert read.column("operation").to_pylist() == ["kernel", "query"]
    assert read.column("value").to_pylist() == [1.0, None]
    assert read.column("stream").null_count == 2
    assert trace.table(["stream", "kind"], kinds="wait").to_pylist() == [{"stream": None, "kind": "wait"}]
    assert trace.table(["stream"]).num_rows == 2


def test_metadata_of_a_file_without_rows(tmp_path: Path) -> None:
    document = json.dumps(Metadata(label="only metadata").to_document())
    empty = pa.Table.from_arrays([pa.nulls(0, f.type) for f in SCHEMA], schema=SCHEMA)
    assert open_trace(foreign(tmp_path / "t", empty, document)).metadata.label == "only metadata"


def test_asking_for_a_column_that_no_trace_has(write_trace: WriteTrace) -> None:
    with pytest.raises(ValueError, match="'nmae'"):
        open_trace(write_trace()).table(["nmae"])


def test_random_damage_never_ends_in_another_error(
    write_trace: WriteTrace, make_table: MakeTable, tmp_path: Path
) -> None:
    whole = write_trace(
        make_table([{"start_ns": 1000 * i, "name": f"n{i % 7}"} for i in range(2000)])
    ).read_bytes()
    rng = np.random.default_rng(1)
    damaged = tmp_path / "damaged.parquet"
    ends = 0
    for _ in range(60):
        data = bytearray(whole)
        for place in rng.integers(4, len(whole) - 8, 20):
            data[place] = rng.integers(256)
        damaged.write_bytes(data)
        try:
            open_trace(damaged).table()
        except UnusableInputError:
            ends += 1
    assert ends > 30
