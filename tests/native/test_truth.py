"""What the emulator says it injected is what it did: counts equal rows, and times lie within the rows."""

from __future__ import annotations

import signal
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cctrace.collectors.spool import convert
from cctrace.collectors.spool.layout import COPY_CODES, MEMORY_CODES, Flag, Kind, Operation
from cctrace.trace import open_trace

Rows = npt.NDArray[np.void]

CALLS = """
start(); s = stream(); d = device(4096); h = pinned(4096); n = c_size_t(64); event = c_void_p(0x10)
check(cuda.cuStreamBeginCapture_v2(s, 0))
for _ in range(7): launch(s)
check(cuda.cuMemcpyHtoDAsync_v2(d, h, n, s))
check(cuda.cuMemsetD8Async(d, 0, n, s))
e = instantiate(end_capture(s))
block = ctypes.create_string_buffer(4096); p = c_void_p(ctypes.addressof(block))
def work(s, rounds):
    for _ in range(rounds):
        for _ in range(3): launch(s)
        check(cuda.cuGraphLaunch(e, s))
        check(cuda.cuMemcpyHtoDAsync_v2(d, h, n, s))
        check(cuda.cuMemcpyDtoHAsync_v2(h, d, n, s))
        check(cuda.cuMemcpyDtoDAsync_v2(d, d, n, s))
        check(cuda.cuMemcpyHtoD_v2(d, p, n))
        check(cuda.cuMemsetD8Async(d, 0, n, s))
        check(cuda.cuEventRecord(event, s))
        check(cuda.cuStreamWaitEvent(s, event, 0))
        check(cuda.cuStreamSynchronize(s))
        assert cuda.cuGraphLaunch(None, s) == 1
"""
LAUNCH = {
    "kernel_us": (Operation.KERNEL,),
    "graph_us": (Operation.GRAPH,),
    "copy_us": (Operation.COPY,),
    "memset_us": (Operation.MEMSET,),
    "event_us": (Operation.EVENT_RECORD, Operation.STREAM_WAIT),
}
ALL_LAUNCH = "kernel_us=4,graph_us=5,copy_us=6,memset_us=7,event_us=8"
PCIE = "h2d_us=64:9/4096:20,d2h_us=64:10,h2d_pageable_us=64:11,host_alloc_us=64:3"
CAUSES = [*(f"{key}=4" for key in LAUNCH), "h2d_us=64:9", "d2h_us=64:9", "host_alloc_us=64:3", "overlap=1"]


def charged(rows: Rows, emulate: str) -> dict[str, Rows]:
    """Cause -> the rows that must have been charged, by the rules of docs/trace-format.md."""
    keys = dict(entry.split("=") for entry in emulate.split(","))
    rows = rows[((rows["flags"] & Flag.CAPTURED) == 0) & (rows["result"] == 0)]
    tolls = [o for key, operations in LAUNCH.items() if key in keys for o in operations]
    copies = np.array([COPY_CODES[k] or "" for k in rows["copy_kind"]])
    memory = np.array([(MEMORY_CODES[m & 15], MEMORY_CODES[m >> 4]) for m in rows["memory"]]).reshape(-1, 2)
    pcie = np.zeros(len(rows), dtype=bool)
    for direction in ("h2d", "d2h"):
        if f"{direction}_us" in keys:
            pcie |= copies == direction
    if "host_alloc_us" in keys:
        pcie |= rows["operation"] == Operation.HOST_ALLOC
    blocks = np.isin(copies, ["h2d", "d2h"]) & (memory == "pinned").any(axis=1)
    blocks &= ((rows["flags"] & Flag.SYNCHRONOUS) == 0) & ("overlap" in keys)
    found = {"launch": np.isin(rows["operation"], tolls), "pcie": pcie, "overlap": blocks}
    return {cause: rows[mask] for cause, mask in found.items() if mask.any()}


def check(spool: Any, emulate: str) -> dict[str, int]:
    """Holds the totals against the rows; returns the counts."""
    states = {key: number for key, (_, number) in spool.states().items() if key.startswith("emulated.")}
    expected = charged(spool.of(Kind.CALL), emulate)
    counts = {key.split(".")[1]: number for key, number in states.items() if key.endswith(".count")}
    assert counts == {cause: len(rows) for cause, rows in expected.items()}
    rows = np.unique(np.concatenate([*expected.values(), spool.of(Kind.CALL)[:0]]))
    injected = sum(number for key, number in states.items() if not key.endswith(".count"))
    assert injected <= int((rows["end_ns"] - rows["start_ns"]).sum())
    return counts


@pytest.mark.parametrize(
    "emulate", [*CAUSES, ALL_LAUNCH, PCIE, f"{PCIE},overlap=1", f"{ALL_LAUNCH},{PCIE},overlap=1"]
)
def test_counts_equal_rows(recorder: Any, emulate: str) -> None:
    recording = recorder.python(CALLS + "work(s, 20)", CCTRACE_EMULATE=emulate)
    assert recording.code == 0, recording.err
    assert check(recording.spool, emulate)


SUBMITTED = ("kernel", "graph", "copy", "memset", "event-record", "stream-wait")
MADE = 25


def test_counts_equal_rows_of_the_trace(recorder: Any) -> None:
    code = CALLS + f"work(s, {MADE})\ncheck(cuda.cuMemHostRegister_v2(p, n, 0))"
    recorder.python(code, CCTRACE_EMULATE=f"{ALL_LAUNCH},{PCIE},overlap=1")
    trace = open_trace(convert(recorder.folder, recorder.folder / "t.parquet").path)
    rows = trace.frame(["kind", "operation", "copy_kind", "src_memory", "dst_memory", "blocking", "result"])
    rows = rows[rows.result == 0].astype(object)
    submitted = rows[rows.kind == "submit"]
    copies = submitted[submitted.copy_kind.isin(["h2d", "d2h"])]
    pinned = copies[(copies.src_memory == "pinned") | (copies.dst_memory == "pinned")]
    allocated = rows[rows.operation.isin(["host-alloc", "host-register"])]
    counts = {cause: total["count"] for cause, total in trace.metadata.emulation.injected.items()}
    assert counts == {
        "launch": len(submitted[submitted.operation.isin(SUBMITTED)]),
        "pcie": len(copies) + len(allocated),
        "overlap": len(pinned[pinned.blocking == False]),  # noqa: E712 - a column
    }
    assert counts == {"launch": 11 * MADE, "pcie": 3 * MADE + 2, "overlap": 2 * MADE}
    assert trace.metadata.labels == ("emulated",)


def test_nothing_is_counted_where_nothing_is_charged(recorder: Any) -> None:
    zero = "kernel_us=0,graph_us=0,copy_us=0,memset_us=0,event_us=0,h2d_us=64:0,overlap=0,collective_factor=1"
    for env in ({}, {"CCTRACE_EMULATE": zero}):
        recorder.python(CALLS + "work(s, 20)", **env)
    for spool in recorder.read():
        assert not [key for key in spool.states() if key.startswith("emulated.")]


def test_the_sum_is_what_went_by(recorder: Any) -> None:
    spool = recorder.python(CALLS + "work(s, 50)", CCTRACE_EMULATE="kernel_us=50").spool
    check(spool, "kernel_us=50")
    launches = spool.named("cuLaunchKernel")
    launches = launches[(launches["flags"] & Flag.CAPTURED) == 0]
    injected = spool.states()["emulated.launch.ns"][1]
    # Not less than asked for but for the half of a reading of the clock, and all of it within the rows.
    assert 150 * 49_800 <= injected <= int((launches["end_ns"] - launches["start_ns"]).sum())


def test_several_threads(recorder: Any) -> None:
    emulate = f"{ALL_LAUNCH},{PCIE},overlap=1"
    code = (
        CALLS
        + """
threads = [threading.Thread(target=lambda: (start(), work(stream(), 40))) for _ in range(6)]
for t in threads: t.start()
for t in threads: t.join()
"""
    )
    spool = recorder.python(code, CCTRACE_EMULATE=emulate).spool
    assert check(spool, emulate)["launch"] == 6 * 40 * 11


def test_only_calls_inside_the_window_count(recorder: Any) -> None:
    an_hour_ns = 3_600_000_000_000
    recorder.write_control(start_at_ns=time.monotonic_ns() + an_hour_ns)
    code = (
        CALLS
        + """
print("ready", flush=True)
end = time.monotonic() + 2.0
while time.monotonic() < end: work(s, 1)
print(cuda.mock_calls(b"cuGraphLaunch"))
"""
    )
    process = recorder.start_python(code, CCTRACE_EMULATE=ALL_LAUNCH)
    assert process.stdout.readline() == "ready\n"
    begin = time.monotonic_ns() + 300_000_000
    recorder.change_control(stop_at_ns=begin + 300_000_000, start_at_ns=begin)
    recording = recorder.finish(process)
    count = check(recording.spool, ALL_LAUNCH)["launch"]
    assert 0 < count // 11 < int(recording.out) // 2


def test_lost_rows_do_not_count(recorder: Any) -> None:
    # The writer gets what is left of a CPU on which the program never pauses.
    starve = """
start(); launch()
name = lambda thread: open(f"/proc/self/task/{thread}/comm").read().strip()
writers = []
while not writers: writers = [int(t) for t in os.listdir("/proc/self/task") if name(t) == "cctrace"]
cpu = {min(os.sched_getaffinity(0))}
for thread in (0, *writers): os.sched_setaffinity(thread, cpu)
os.sched_setscheduler(*writers, os.SCHED_IDLE, os.sched_param(0))
f = cuda.cuLaunchKernel
for _ in range(120000): f(None, 1, 1, 1, 1, 1, 1, 0, None, None, None)
"""
    recording = recorder.python(starve, CCTRACE_EMULATE="kernel_us=0.1")
    assert recording.code == 0, recording.err
    spool = recording.spool
    rows = len(spool.named("cuLaunchKernel"))
    lost = spool.losses().get("ring full", 0)
    assert rows + lost == 120001
    assert spool.states()["emulated.launch.count"][1] == rows
    if not lost:
        pytest.skip("the writer found time enough on this machine: nothing was lost")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_keeps_its_totals(recorder: Any, number: signal.Signals) -> None:
    code = """
start()
for i in range(10**9):
    launch(); time.sleep(0.001)
    if i == 300: print("ready", flush=True)
"""
    process = recorder.start_python(code, CCTRACE_EMULATE="kernel_us=5")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    spool = recorder.finish(process).spool
    rows, count = len(spool.named("cuLaunchKernel")), spool.states()["emulated.launch.count"][1]
    # Rows and totals are written by one thread, one right after the other: at most what one emptying of the
    # rings brought lies between them.
    last_total = max(
        int(r["start_ns"]) for r in spool.of(Kind.STATE) if spool.name(r) == "emulated.launch.ns"
    )
    launches = spool.named("cuLaunchKernel")
    assert rows - int((launches["end_ns"] > last_total).sum()) <= count <= rows
    assert count >= 200


def test_a_stream_that_joins_a_capture_is_not_charged(recorder: Any) -> None:
    code = """
start(); s = stream(); other = stream(); event, back = c_void_p(0x10), c_void_p(0x20)
check(cuda.cuStreamBeginCapture_v2(s, 0)); launch(s)
check(cuda.cuEventRecord(event, s)); check(cuda.cuStreamWaitEvent(other, event, 0)); launch(other)
check(cuda.cuEventRecord(back, other)); check(cuda.cuStreamWaitEvent(s, back, 0))
e = instantiate(end_capture(s))
"""
    spool = recorder.python(code, CCTRACE_EMULATE="kernel_us=5,event_us=5").spool
    calls = spool.of(Kind.CALL)
    waits = calls[calls["operation"] == Operation.STREAM_WAIT]
    assert len(waits) == 2
    assert (waits["flags"] & Flag.CAPTURED).all()
    assert not [key for key in spool.states() if key.startswith("emulated.")]
