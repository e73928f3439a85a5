"""The emulator charges what it was told, to the calls it was told, and to nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cctrace.collectors.spool.layout import Operation

CALLS = """
start(); s = stream(); d = device(64); h = pinned(64); event = c_void_p(0x10)
check(cuda.cuStreamBeginCapture_v2(s, 0)); launch(s); e = instantiate(end_capture(s))
block = ctypes.create_string_buffer(64); pageable = c_void_p(ctypes.addressof(block))
for _ in range(30):
    launch(s)
    check(cuda.cuGraphLaunch(e, s))
    check(cuda.cuMemcpyHtoDAsync_v2(d, h, c_size_t(64), s))
    check(cuda.cuMemcpyHtoD_v2(d, pageable, c_size_t(64)))
    check(cuda.cuMemsetD8Async(d, 0, c_size_t(64), s))
    check(cuda.cuEventRecord(event, s))
    check(cuda.cuStreamWaitEvent(s, event, 0))
    check(cuda.cuStreamSynchronize(s))
    check(cuda.cuMemFreeHost(pinned(64)))
print(cuda.mock_calls(b"cuStreamSynchronize"))
"""
TOLLS = {
    Operation.KERNEL: ("kernel_us", 300),
    Operation.GRAPH: ("graph_us", 400),
    Operation.COPY: ("copy_us", 500),
    Operation.MEMSET: ("memset_us", 600),
    Operation.EVENT_RECORD: ("event_us", 200),
    Operation.STREAM_WAIT: ("event_us", 200),
}


def typical(spool: Any) -> dict[int, float]:
    """Duration in µs of the submitted calls of each operation: the tenth percentile, as machines are busy."""
    calls = spool.of(1)
    calls = calls[(calls["flags"] & 1) == 0]
    durations = (calls["end_ns"] - calls["start_ns"]) / 1e3
    return {
        int(o): float(np.percentile(durations[calls["operation"] == o], 10))
        for o in np.unique(calls["operation"])
    }


@pytest.mark.parametrize("charged", ["kernel_us", "graph_us", "copy_us", "memset_us", "event_us"])
def test_one_cause_charges_only_its_own_calls(recorder: Any, charged: str) -> None:
    amount = next(us for name, us in TOLLS.values() if name == charged)
    found = typical(recorder.python(CALLS, CCTRACE_EMULATE=f"{charged}={amount}").spool)
    for operation, (name, _) in TOLLS.items():
        expected = amount if name == charged else 0
        assert expected <= found[operation] < expected + 100, operation
    assert found[Operation.STREAM_SYNC] < 100
    assert found[Operation.HOST_ALLOC] < 100


def test_all_together(recorder: Any) -> None:
    text = ",".join(f"{name}={us}" for name, us in dict(TOLLS.values()).items())
    found = typical(recorder.python(CALLS, CCTRACE_EMULATE=text).spool)
    for operation, (_, us) in TOLLS.items():
        assert us <= found[operation] < us + 100


def test_captured_calls_are_free(recorder: Any) -> None:
    code = """
start(); s = stream()
check(cuda.cuStreamBeginCapture_v2(s, 0))
for _ in range(50): launch(s)
end_capture(s)
"""
    spool = recorder.python(code, CCTRACE_EMULATE="kernel_us=5000").spool
    launches = spool.named("cuLaunchKernel")
    assert len(launches) == 50
    assert np.median(launches["end_ns"] - launches["start_ns"]) < 5_000_000
    assert spool.states().get("emulated.launch.count", ("", 0))[1] == 0


@pytest.mark.parametrize(("emulate", "drains"), [("", 0), ("kernel_us=0", 0), ("overlap=1", 1)])
def test_overlap_drains_the_stream_of_pinned_copies_only(recorder: Any, emulate: str, drains: int) -> None:
    env = {"CCTRACE_EMULATE": emulate} if emulate else {}
    recording = recorder.python(CALLS, **env)
    # The program's own 30, and one for each asynchronous copy of pinned memory.
    assert int(recording.out) == 30 + 30 * drains
    # Ours are no calls of the program.
    assert len(recording.spool.named("cuStreamSynchronize")) == 30


def test_a_drained_copy_lasts_as_long_as_the_wait(recorder: Any) -> None:
    delays = "cuStreamSynchronize=2000"
    found = typical(recorder.python(CALLS, CCTRACE_EMULATE="overlap=1", MOCK_CUDA_DELAYS=delays).spool)
    spool = recorder.read()[0]
    copies = spool.named("cuMemcpyHtoDAsync_v2")
    assert ((copies["end_ns"] - copies["start_ns"]) >= 2_000_000).all()
    blocking = spool.named("cuMemcpyHtoD_v2")
    assert np.median(blocking["end_ns"] - blocking["start_ns"]) < 500_000
    assert found[Operation.KERNEL] < 100


@pytest.mark.parametrize(
    "text", ["kernel_us=", "kernel_us=-5", "kernel_us=nan", "kernel_us=1e99", "nonsense", ",,,", "overlap=2"]
)
def test_nonsense_charges_nothing(recorder: Any, text: str) -> None:
    recording = recorder.python(CALLS, CCTRACE_EMULATE=text)
    assert recording.code == 0
    assert int(recording.out) == 30
    assert typical(recording.spool)[Operation.KERNEL] < 100
