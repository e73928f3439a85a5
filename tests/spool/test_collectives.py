"""NCCL's host calls as rows of the trace."""

import json
from typing import Any

import pytest
from converted import Convert
from spool_builder import SpoolBuilder

from cctrace.collectors.spool.layout import DATA_TYPES, Flag, Kind, Operation

T = 10**12
FLOAT32, BFLOAT16 = DATA_TYPES.index("float32"), DATA_TYPES.index("bfloat16")


def collective(spool: SpoolBuilder, start_ns: int, *, ranks: int = 4, tid: int = 1000, **fields: Any) -> None:
    """An all-reduce of a communicator 0xC0."""
    values = {"operation": BFLOAT16, "object": 0xC0, "bytes": 8192, "stream": 0x7000, "device": 1, **fields}
    spool.add(
        Kind.COLLECTIVE,
        start_ns=start_ns,
        end_ns=start_ns + 9000,
        tid=tid,
        name=spool.text("ncclAllReduce"),
        memory=ranks & 255,
        copy_kind=ranks >> 8,
        **values,
    )


def test_one_collective_fills_exactly_the_columns_that_mean_something(to_trace: Convert) -> None:
    spool = SpoolBuilder(pid=42)
    collective(spool, T, tid=43, link=7)
    (row,) = to_trace(spool).trace.table().to_pylist()
    assert {name: value for name, value in row.items() if value is not None} == {
        "kind": "collective",
        "name": "ncclAllReduce",
        "source": "interposer",
        "start_ns": T,
        "duration_ns": 9000,
        "pid": 42,
        "tid": 43,
        "lane": 0,
        "device": 1,
        "stream": 1,
        "bytes": 8192,
        "ref": 0,
        "result": 0,
        "attributes": '{"ranks": 4, "sequence": 7, "datatype": "bfloat16"}',
    }


def test_collectives_stand_before_the_launches_inside_them(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    for i in range(3):
        # As the collector writes them: the launch has returned first.
        spool.call(Operation.KERNEL, T + i * 10**5 + 1000, symbol="ncclDevKernel_AllReduce", stream=0x7000)
        collective(spool, T + i * 10**5, link=i, result=i)
        spool.mark("label", T + i * 10**5 + 20_000, T + i * 10**5 + 30_000)
    frame = to_trace(spool).frame
    assert frame.kind.tolist() == ["collective", "submit", "range"] * 3
    assert frame[frame.kind == "submit"].bytes.isna().all()
    assert frame[frame.kind == "submit"].attributes.isna().all()
    assert frame[frame.kind == "collective"].result.tolist() == [0, 1, 2]
    assert set(frame[frame.kind != "range"].stream) == {1}


@pytest.mark.parametrize(
    ("fields", "attributes"),
    [
        ({"ranks": 300, "operation": FLOAT32}, {"ranks": 300, "sequence": 0, "datatype": "float32"}),
        ({"ranks": 0, "operation": 200}, {"ranks": 0, "sequence": 0, "datatype": "unknown"}),
        (
            {"flags": Flag.CAPTURED},
            {"ranks": 4, "sequence": 0, "datatype": "bfloat16", "captured": True},
        ),
    ],
)
def test_attributes(to_trace: Convert, fields: dict[str, int], attributes: dict[str, Any]) -> None:
    spool = SpoolBuilder()
    collective(spool, T, **fields)
    (row,) = to_trace(spool).trace.table().to_pylist()
    assert row["kind"] == "collective"
    assert json.loads(row["attributes"]) == attributes


def test_communicators_have_numbers_that_no_event_has(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    spool.call(Operation.EVENT_RECORD, T, object=0xC0, stream=0x7000)
    collective(spool, T + 10_000, link=0)
    collective(spool, T + 20_000, link=1)
    collective(spool, T + 30_000, object=0xD0)
    collective(spool, T + 40_000, link=0)  # the handle is another communicator's now
    refs = to_trace(spool).frame.ref.tolist()
    assert refs[1] == refs[2]
    assert len(set(refs)) == 4


def test_threads_with_nothing_else_have_a_lane(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    spool.call(Operation.KERNEL, T)
    collective(spool, T + 100, tid=2000)
    converted = to_trace(spool)
    assert converted.frame.tid.tolist() == [1000, 2000]
    assert [lane.rows for lane in converted.metadata.lanes] == [1, 1]
