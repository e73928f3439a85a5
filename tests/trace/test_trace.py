import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctrace.errors import OutputExistsError, UnusableInputError
from cctrace.trace import COLUMNS, SCHEMA, Lane, Metadata, TraceWriter, open_trace
from cctrace.trace.schema import COPY_KINDS, KINDS, OPERATIONS, REQUIRED_COLUMNS, ROLES
from cctrace.trace.writer import ROW_GROUP_ROWS

MakeTable = Callable[[list[dict[str, Any]]], pa.Table]
WriteTrace = Callable[..., Path]


def lanes_of_rows(count: int, lanes: int = 4) -> pa.Table:
    """Many rows: lanes in two processes, one row a microsecond, every 10th a wait of 5 µs."""
    each = count // lanes
    index = np.tile(np.arange(each), lanes)
    lane = np.repeat(np.arange(lanes), each)
    words = pa.array(["submit", "wait"])
    names = pa.array([f"call {i}" for i in range(100)])
    columns = {
        "kind": pa.DictionaryArray.from_arrays(pa.array((index % 10 == 9).astype(np.int32)), words),
        "name": pa.DictionaryArray.from_arrays(pa.array((index % 100).astype(np.int32)), names),
        "start_ns": pa.array(index * 1000 + lane),
        "duration_ns": pa.array(np.where(index % 10 == 9, 5000, 300)),
        "pid": pa.array((1 + lane // 2).astype(np.int32)),
        "lane": pa.array(lane.astype(np.int32)),
    }
    arrays = [columns.get(f.name, pa.nulls(len(index), f.type)) for f in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def test_every_column_is_documented() -> None:
    assert SCHEMA.names == [column.name for column in COLUMNS]
    assert all(column.meaning for column in COLUMNS)
    assert set(REQUIRED_COLUMNS) <= set(SCHEMA.names)


def test_rows_come_back_as_they_were(write_trace: WriteTrace, make_table: MakeTable) -> None:
    table = make_table(
        [
            {
                "kind": "submit",
                "name": "cuLaunchKernel",
                "operation": "kernel",
                "kernel": "k<1>",
                "tid": 5,
                "result": 0,
            },
            {"kind": "counter", "name": "power_w", "start_ns": 3, "value": 1.5, "lane": 1, "blocking": None},
            {
                "kind": "wait",
                "start_ns": 4,
                "lane": 1,
                "blocking": True,
                "bytes": 2**40,
                "attributes": '{"a": 1}',
            },
        ]
    )
    trace = open_trace(write_trace(table, metadata=Metadata(label="x", lanes=(Lane(lane=0, pid=1),))))
    assert trace.table().to_pylist() == table.to_pylist()
    assert trace.table().schema == SCHEMA
    assert (trace.num_rows, trace.metadata.label, trace.lanes) == (3, "x", (Lane(lane=0, pid=1),))


_WORD = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_ROW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(sorted(KINDS)),
        "name": _WORD,
        "operation": st.none() | st.sampled_from(sorted(OPERATIONS)),
        "start_ns": st.integers(-(2**63), 2**63 - 1),
        "duration_ns": st.integers(0, 2**62),
        "pid": st.integers(0, 2**31 - 1),
        "tid": st.none() | st.integers(0, 2**31 - 1),
        "lane": st.integers(0, 5),
        "role": st.none() | st.sampled_from(ROLES),
        "device": st.none() | st.integers(0, 2**15 - 1),
        "correlation": st.none() | st.integers(-(2**63), 2**63 - 1),
        "bytes": st.none() | st.integers(0, 2**63 - 1),
        "copy_kind": st.none() | st.sampled_from(COPY_KINDS),
        "blocking": st.none() | st.booleans(),
        "value": st.none() | st.floats(allow_nan=False),
        "attributes": _WORD,
    }
)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(_ROW, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=3))
def test_any_rows_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], cuts: list[int]
) -> None:
    rows = sorted(rows, key=lambda row: (row["pid"], row["lane"], row["start_ns"]))
    path = tmp_path_factory.mktemp("any") / "t.parquet"
    columns = [
        pa.array([row.get(f.name) for row in rows], pa.string() if pa.types.is_dictionary(f.type) else f.type)
        for f in SCHEMA
    ]
    table = pa.table(columns, names=SCHEMA.names)
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    with TraceWriter(path) as writer:
        for begin, end in pairwise(edges):
            writer.write(table.slice(begin, end - begin))
        writer.finish(Metadata())
    assert open_trace(path).table().to_pylist() == table.to_pylist()


def test_an_empty_trace(write_trace: WriteTrace) -> None:
    trace = open_trace(write_trace())
    assert trace.num_rows == 0
    assert trace.table().schema == SCHEMA
    assert trace.table(["name"], kinds="submit").num_rows == 0
    assert list(trace.frame().columns) == SCHEMA.names
    assert list(trace.batches()) == []


def test_selections_equal_a_filter_by_hand(write_trace: WriteTrace) -> None:
    table = lanes_of_rows(40_000)
    trace = open_trace(write_trace(table))
    frame = table.select(["kind", "pid", "lane", "start_ns", "duration_ns"]).to_pandas()
    end = frame.start_ns + frame.duration_ns
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"kinds": "wait"}, frame.kind == "wait"),
        ({"kinds": ["wait", "kernel"]}, frame.kind == "wait"),
        ({"kinds": ["kernel"]}, frame.kind == "kernel"),
        ({"pid": 2}, frame.pid == 2),
        ({"pid": np.int64(2), "lane": np.array([2])}, frame.lane == 2),
        ({"lane": [1, 3]}, frame.lane.isin([1, 3])),
        ({"start_ns": 9_001_000}, (frame.start_ns >= 9_001_000) | (end > 9_001_000)),
        ({"end_ns": 9_001}, frame.start_ns < 9_001),
        (
            {"start_ns": 12_500, "end_ns": 20_000, "lane": 2, "kinds": "wait"},
            (frame.lane == 2) & (frame.kind == "wait") & (end > 12_500) & (frame.start_ns < 20_000),
        ),
    ]
    for selection, wanted in cases:
        got = trace.table(["start_ns", "lane"], **selection).to_pandas()
        pd.testing.assert_frame_equal(got, frame.loc[wanted, ["start_ns", "lane"]].reset_index(drop=True))
        assert sum(batch.num_rows for batch in trace.batches(["name"], **selection)) == int(wanted.sum())


def test_row_groups_outside_a_selection_are_not_read(
    write_trace: WriteTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_trace(lanes_of_rows(4 * ROW_GROUP_ROWS + 4000))
    trace = open_trace(path)
    read: list[list[int]] = []
    original = pq.ParquetFile.iter_batches

    def spy(self: pq.ParquetFile, rows: int, groups: list[int], **options: Any) -> Any:
        read.append(groups)
        return original(self, rows, groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    assert trace.table(["name"], lane=0, end_ns=1000).num_rows == 1
    assert trace.table(["name"], lane=3).num_rows == ROW_GROUP_ROWS + 1000
    assert trace.table(["name"], kinds="kernel").num_rows == 0
    assert read == [[0, 1], [3, 4]]  # lane 0 ends in group 1, lane 3 begins in group 3


def test_dictionaries_differ_between_row_groups_and_are_joined(
    write_trace: WriteTrace, make_table: MakeTable
) -> None:
    first = make_table([{"name": "a", "start_ns": i} for i in range(3)])
    second = make_table([{"name": n, "start_ns": 10 + i} for i, n in enumerate(["b", "a", None])])
    path = write_trace(first, second)
    with TraceWriter(path.with_name("two.parquet")) as writer:
        for part in (first, second):
            writer.write(part)
            writer._flush(whole_groups_only=False)
        writer.finish(Metadata())
    trace = open_trace(path.with_name("two.parquet"))
    assert pq.ParquetFile(trace.path).num_row_groups == 2
    assert trace.table(["name"]).column("name").to_pylist() == ["a", "a", "a", "b", "a", None]
    assert trace.frame(["name"])["name"].cat.categories.tolist() == ["a", "b"]


def test_a_row_group_holds_only_words_of_its_own(write_trace: WriteTrace) -> None:
    words = pa.array([f"kernel {i}" for i in range(5000)])
    index = np.arange(1000, dtype=np.int32) % 3 + 4000
    base = lanes_of_rows(1000, lanes=1)
    position = SCHEMA.get_field_index("kernel")
    kernels = pa.DictionaryArray.from_arrays(pa.array(index), words)
    path = write_trace(base.set_column(position, SCHEMA.field("kernel"), kernels))
    assert path.stat().st_size < 20_000
    assert set(open_trace(path).table(["kernel"]).column("kernel").to_pylist()) == {
        f"kernel {i}" for i in (4000, 4001, 4002)
    }


def test_a_frame_has_stable_types(write_trace: WriteTrace, make_table: MakeTable) -> None:
    frame = open_trace(
        write_trace(make_table([{"tid": 2**30, "correlation": 2**60 + 1, "name": "a"}]))
    ).frame()
    assert str(frame.dtypes["start_ns"]) == "int64"
    assert str(frame.dtypes["correlation"]) == "Int64"
    assert frame.correlation[0] == 2**60 + 1  # a float would lose the last digit
    assert str(frame.dtypes["blocking"]) == "boolean"
    assert str(frame.dtypes["name"]) == "category"


def test_plain_pandas_and_plain_duckdb_read_a_trace(write_trace: WriteTrace) -> None:
    path = write_trace(lanes_of_rows(8_000), metadata=Metadata(label="plain"))
    frame = pd.read_parquet(path)
    assert frame.groupby("kind", observed=True).size().to_dict() == {"submit": 7200, "wait": 800}
    connection = duckdb.connect()
    counted = connection.execute(
        f"select kind, count(*), max(start_ns) from '{path}' where lane = 3 group by kind order by kind"
    )
    assert counted.fetchall() == [("submit", 1800, 1_998_003), ("wait", 200, 1_999_003)]
    stored = connection.execute(
        f"select value from parquet_kv_metadata('{path}') where key = 'cctrace'"
    ).fetchall()
    assert json.loads(stored[0][0])["label"] == "plain"


def test_rows_must_be_sorted(tmp_path: Path, make_table: MakeTable) -> None:
    with TraceWriter(tmp_path / "t.parquet") as writer:
        with pytest.raises(ValueError, match="sorted"):
            writer.write(make_table([{"start_ns": 2}, {"start_ns": 1}]))
        writer.write(make_table([{"lane": 1, "start_ns": 5}]))
        with pytest.raises(ValueError, match="sorted"):
            writer.write(make_table([{"lane": 0, "start_ns": 9}]))
        writer.write(
            make_table([{"lane": 1, "start_ns": 5}, {"lane": 2, "start_ns": 0}, {"pid": 2, "lane": 0}])
        )


def test_a_column_that_must_not_be_null(tmp_path: Path, make_table: MakeTable) -> None:
    with (
        TraceWriter(tmp_path / "t.parquet") as writer,
        pytest.raises(ValueError, match="'pid' must not be null"),
    ):
        writer.write(make_table([{"pid": None}]))


def test_nothing_is_left_of_an_unfinished_trace(tmp_path: Path, make_table: MakeTable) -> None:
    with pytest.raises(RuntimeError), TraceWriter(tmp_path / "t.parquet") as writer:  # noqa: PT012
        writer.write(make_table([{}]))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_without_force(tmp_path: Path, make_table: MakeTable) -> None:
    path = tmp_path / "t.parquet"
    path.write_text("precious")
    with pytest.raises(OutputExistsError):
        TraceWriter(path)
    assert path.read_text() == "precious"
    with TraceWriter(path, force=True) as writer:
        assert path.read_text() == "precious"
        writer.write(make_table([{}]))
        writer.finish(Metadata())
    assert open_trace(path).num_rows == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_target_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with TraceWriter(path) as writer:
        path.write_text("precious")
        with pytest.raises(OutputExistsError):
            writer.finish(Metadata())
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_targets_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UnusableInputError, match="does not exist"):
        TraceWriter(tmp_path / "no" / "t.parquet")
    with pytest.raises(UnusableInputError, match="is a folder"):
        TraceWriter(tmp_path, force=True)


def test_a_full_disk_is_one_clear_line(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with TraceWriter(tmp_path / "t.parquet") as writer:
        writer.write(make_table([{}]))
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(UnusableInputError, match="the disk is full"):
            writer.finish(Metadata())
    assert list(tmp_path.iterdir()) == []
