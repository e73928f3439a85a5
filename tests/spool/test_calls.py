from typing import Any

import pandas as pd
import pytest
from converted import Convert
from spool_builder import SpoolBuilder, decode_loop

from cctrace.collectors.spool.layout import Flag, Kind, Operation

T = 10**12
PINNED, DEVICE, PAGEABLE = 2, 3, 1
H2D, D2H = 1, 2


def only(frame: pd.DataFrame) -> dict[str, Any]:
    """The one row of a frame, without its nulls."""
    (row,) = frame.to_dict("records")
    return {name: value for name, value in row.items() if not pd.isna(value)}


def test_one_call_fills_exactly_the_columns_that_mean_something(to_trace: Convert) -> None:
    spool = SpoolBuilder(pid=42)
    spool.call(
        Operation.KERNEL, T + 5, 3450, tid=43, symbol="void k<1>(int)", stream=0x7F00, object=0xABC, device=1
    )
    assert only(to_trace(spool).frame) == {
        "kind": "submit",
        "name": "cuLaunchKernel",
        "operation": "kernel",
        "source": "interposer",
        "start_ns": T + 5,
        "duration_ns": 3450,
        "pid": 42,
        "tid": 43,
        "lane": 0,
        "device": 1,
        "stream": 1,
        "kernel": "void k<1>(int)",
        "result": 0,
    }


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        *((op, "submit") for op in Operation if Operation.KERNEL <= op <= Operation.UNKNOWN),
        *(
            (op, "wait")
            for op in (Operation.STREAM_SYNC, Operation.EVENT_SYNC, Operation.CONTEXT_SYNC, Operation.QUERY)
        ),
        *((op, "alloc") for op in Operation if Operation.HOST_ALLOC <= op <= Operation.DEVICE_FREE),
        *((op, "capture") for op in (Operation.CAPTURE_BEGIN, Operation.CAPTURE_END, Operation.GRAPH_BUILD)),
    ],
)
def test_every_operation_has_its_kind(to_trace: Convert, operation: Operation, kind: str) -> None:
    spool = SpoolBuilder()
    spool.call(operation, T)
    row = only(to_trace(spool).frame)
    assert (row["kind"], row["operation"]) == (kind, operation.name.lower().replace("_", "-"))


def test_captured_calls_submit_nothing(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    spool.call(Operation.KERNEL, T, flags=Flag.CAPTURED, symbol="k")
    spool.call(Operation.COPY, T + 9000, flags=Flag.CAPTURED)
    frame = to_trace(spool).frame
    assert frame.kind.tolist() == ["capture", "capture"]
    assert frame.operation.tolist() == ["kernel", "copy"]
    assert frame[["bytes", "copy_kind", "src_memory", "blocking"]].isna().all().all()


def test_copies_and_waits(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    spool.call(Operation.COPY, T, bytes=64, copy_kind=H2D, src=PINNED, dst=DEVICE)
    spool.call(
        Operation.COPY, T + 1, bytes=0, copy_kind=D2H, src=DEVICE, dst=PAGEABLE, flags=Flag.SYNCHRONOUS
    )
    spool.call(Operation.MEMSET, T + 2, bytes=4096)
    spool.call(Operation.EVENT_SYNC, T + 3, object=0xE0)
    spool.call(Operation.QUERY, T + 4, object=0xE0, result=600)
    spool.call(Operation.QUERY, T + 5, stream=0x5000, result=0)
    frame = to_trace(spool).frame
    assert frame.bytes.fillna(-1).tolist() == [64, 0, 4096, -1, -1, -1]
    assert frame.copy_kind.astype(object).where(frame.copy_kind.notna(), None).tolist()[:3] == [
        "h2d",
        "d2h",
        None,
    ]
    assert frame.src_memory.tolist()[:2] == ["pinned", "device"]
    assert frame.dst_memory.tolist()[:2] == ["device", "pageable"]
    assert frame.blocking.tolist() == [False, True, False, True, False, False]
    assert frame.result.tolist() == [0, 0, 0, 0, 600, 0]
    assert frame.ref.fillna(-1).tolist() == [-1, -1, -1, 0, 0, -1]
    assert frame.stream.fillna(-1).tolist() == [
        0,
        0,
        0,
        -1,
        -1,
        1,
    ]  # a synchronization with an event is on no stream


def test_streams_get_small_numbers_and_a_reused_handle_another_one(to_trace: Convert) -> None:
    a, b, own = 0x7F10, 0x7F20, 2 | 77 << 32
    spool = SpoolBuilder()
    spool.add(Kind.STREAM, object=a, start_ns=T, tid=1000)
    for i, handle in enumerate([0, 1, a, b, own, a]):
        spool.call(Operation.KERNEL, T + 10 + i, 1, stream=handle)
    spool.add(Kind.STREAM, object=a, start_ns=T + 50, tid=1000)
    for i, handle in enumerate([a, b, 0]):
        spool.call(Operation.KERNEL, T + 60 + i, 1, stream=handle)
    assert to_trace(spool).frame.stream.tolist() == [0, 0, 1, 2, 3, 1, 4, 2, 0]


def test_graphs_are_numbered_and_a_reused_address_is_another_graph(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    spool.call(Operation.GRAPH_BUILD, T, object=0x90)
    spool.call(Operation.GRAPH, T + 5000, object=0x90)
    spool.call(Operation.GRAPH, T + 9000, object=0xA0)
    spool.call(Operation.GRAPH_BUILD, T + 13000, object=0x90, name="cuGraphExecDestroy")
    spool.call(Operation.GRAPH_BUILD, T + 17000, object=0x90)
    spool.call(Operation.GRAPH, T + 21000, object=0x90)
    spool.call(Operation.GRAPH_BUILD, T + 25000, object=0x90, name="cuGraphDestroy")  # no executable graph
    assert to_trace(spool).frame.graph_id.fillna(-1).tolist() == [0, 0, 1, 0, 2, 2, -1]


def test_threads_become_lanes_with_their_rows_sorted(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    rows = decode_loop(spool, steps=300, threads=3)
    converted = to_trace(spool)
    frame = converted.frame
    assert len(frame) == rows
    assert [lane.tid for lane in converted.trace.lanes] == [1000, 1001, 1002]
    assert [lane.rows for lane in converted.trace.lanes] == frame.groupby("lane").size().tolist()
    for _, lane in frame.groupby("lane"):
        assert lane.start_ns.is_monotonic_increasing
        assert lane.tid.nunique() == 1
        assert lane[lane.kind == "step"].step.tolist() == list(range(300))


def test_processes_are_sorted_by_pid_and_numbered_apart(to_trace: Convert) -> None:
    spools = [SpoolBuilder(pid=pid, start_ns=T + pid) for pid in (300, 20, 1000)]
    for spool in spools:
        spool.call(Operation.KERNEL, T + 10**6, stream=0x7000 + spool.pid)
    converted = to_trace(*spools)
    assert converted.frame.pid.tolist() == [20, 300, 1000]
    assert converted.frame.lane.tolist() == [0, 1, 2]
    assert converted.frame.stream.tolist() == [1, 1, 1]


def test_a_process_that_execs_keeps_its_images_apart(to_trace: Convert) -> None:
    first, second = SpoolBuilder(start_ns=T), SpoolBuilder(start_ns=T + 10**9)
    for spool in (first, second):
        spool.call(Operation.EVENT_RECORD, spool.start_ns + 10, object=0xE0, stream=0x7000)
        spool.mark("s", spool.start_ns, spool.start_ns + 50, step=True)
    converted = to_trace(first, second)
    events = converted.kind("submit")
    assert events.lane.tolist() == [0, 1]
    assert [p.image_start_ns for p in converted.metadata.collector.processes] == [
        T - 10**6,
        T + 10**9 - 10**6,
    ]
    assert converted.kind("step").step.tolist() == [0, 1]


def test_calls_that_nest_are_still_sorted_by_start(to_trace: Convert) -> None:
    """The collector writes a call when it returns: an outer call comes after the ones inside it."""
    spool = SpoolBuilder()
    for i in range(100):
        spool.call(Operation.STREAM_SYNC, T + i * 1000 + 10, 100)
        spool.call(Operation.COPY, T + i * 1000, 500, copy_kind=H2D)
    frame = to_trace(spool).frame
    assert frame.start_ns.is_monotonic_increasing
    assert frame.operation.tolist() == ["copy", "stream-sync"] * 100


def test_a_long_range_does_not_hold_up_the_sorting(
    to_trace: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cctrace.collectors.spool.spoolfile.CHUNK_RECORDS", 64)
    spool = SpoolBuilder()
    rows = decode_loop(spool, steps=40)
    spool.mark("whole run", T, T + 10**12, tid=1000)
    frame = to_trace(spool).frame
    assert len(frame) == rows + 1
    assert frame.name[0] == "whole run"
    assert frame.start_ns.is_monotonic_increasing


def test_chunks_make_no_difference(to_trace: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = SpoolBuilder()
    decode_loop(spool, steps=50, threads=2)
    for i in range(200):
        spool.mark(f"label {i} " + "x" * (i % 150), T + i * 10**5, T + i * 10**5 + 10**4)
    whole = to_trace(spool).trace.table().to_pylist()
    for size in (7, 64, 1000):
        monkeypatch.setattr("cctrace.collectors.spool.spoolfile.CHUNK_RECORDS", size)
        assert to_trace(spool).trace.table().to_pylist() == whole


def test_negative_durations_and_impossible_times_are_bounded(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    spool.add(Kind.CALL, operation=Operation.KERNEL, start_ns=500, end_ns=400, tid=7, device=0)
    spool.add(
        Kind.CALL, operation=Operation.KERNEL, start_ns=2**64 - 1, end_ns=2**64 - 1, tid=7, device=40000
    )
    frame = to_trace(spool).frame
    assert frame.start_ns.tolist() == [500, 2**63 - 1]
    assert frame.duration_ns.tolist() == [0, 0]
    assert frame.device.fillna(-1).tolist() == [0, -1]
    assert frame.name.isna().all()
