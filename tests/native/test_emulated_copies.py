"""What copies and allocations are charged: by size, direction, memory and context; which of them block."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

PREPARE = """
start(); s = stream(); d = device(4096); h = pinned(4096); n = c_size_t(64)
block = ctypes.create_string_buffer(4096); p = c_void_p(ctypes.addressof(block))
m = c_uint64(); check(cuda.cuMemAllocManaged(byref(m), c_size_t(4096), 1))
as_int = lambda q: c_uint64(q.value)
def batch(*copies):
    to, source, sizes = zip(*copies)
    k = len(copies)
    lists = [(c_uint64 * k)(*(x.value for x in to)), (c_uint64 * k)(*(x.value for x in source))]
    sizes = (c_size_t * k)(*sizes)
    return cuda.cuMemcpyBatchAsync(*lists, sizes, c_size_t(k), None, None, c_size_t(0), None, s)
class Copy2D(ctypes.Structure):
    half = lambda prefix: [(prefix + name, kind) for name, kind in [
        ("XInBytes", c_size_t), ("Y", c_size_t), ("MemoryType", c_int), ("Host", c_void_p),
        ("Device", c_uint64), ("Array", c_void_p), ("Pitch", c_size_t)]]
    _fields_ = half("src") + half("dst") + [("WidthInBytes", c_size_t), ("Height", c_size_t)]
def to_device_2d(host):
    return byref(Copy2D(srcMemoryType=1, srcHost=host.value, dstMemoryType=2, dstDevice=d.value,
                        WidthInBytes=64, Height=32))
"""
TABLES = (
    "h2d_us=64:1000/1024:1000,d2h_us=64:2000,h2d_pageable_us=64:3000,d2h_pageable_us=64:4000,"
    "host_alloc_us=4096:5000"
)
SLACK_US = 900
"""Of the shortest of some calls on a busy machine; charges differ by 1000 and more."""
CALLS = 20


def shortest_us(recorder: Any, call: str, symbol: str, emulate: str, prepare: str = PREPARE) -> float:
    """The shortest of equal calls: the machine is busy, and a charge is never too short."""
    code = f"{prepare}\nfor _ in range({CALLS}): check({call})"
    spool = recorder.python(code, CCTRACE_EMULATE=emulate).spool
    rows = spool.named(symbol)[-CALLS:]
    return float((rows["end_ns"] - rows["start_ns"]).min()) / 1e3


@pytest.mark.parametrize(
    ("call", "symbol", "us"),
    [
        ("cuda.cuMemcpyHtoDAsync_v2(d, h, n, s)", "cuMemcpyHtoDAsync_v2", 1000),
        ("cuda.cuMemcpyHtoDAsync_v2(d, h, c_size_t(2048), s)", "cuMemcpyHtoDAsync_v2", 2000),
        ("cuda.cuMemcpyHtoD_v2(d, h, n)", "cuMemcpyHtoD_v2", 1000),
        ("cuda.cuMemcpyDtoHAsync_v2(h, d, n, s)", "cuMemcpyDtoHAsync_v2", 2000),
        ("cuda.cuMemcpyHtoDAsync_v2(d, p, n, s)", "cuMemcpyHtoDAsync_v2", 3000),
        ("cuda.cuMemcpyDtoH_v2(p, d, n)", "cuMemcpyDtoH_v2", 4000),
        ("cuda.cuMemcpyAsync(d, as_int(h), n, s)", "cuMemcpyAsync", 1000),
        ("cuda.cuMemcpyAsync(as_int(p), d, n, s)", "cuMemcpyAsync", 4000),
        ("cuda.cuMemcpy2DAsync_v2(to_device_2d(h), s)", "cuMemcpy2DAsync_v2", 2000),
        ("cuda.cuMemcpy2D_v2(to_device_2d(p))", "cuMemcpy2D_v2", 96000),
        ("batch((d, h, 64), (h, d, 64), (d, d, 64), (p, d, 128))", "cuMemcpyBatchAsync", 11000),
        ("cuda.cuMemHostAlloc(byref(c_void_p()), c_size_t(4096), 0)", "cuMemHostAlloc", 5000),
        ("cuda.cuMemAllocHost_v2(byref(c_void_p()), c_size_t(8192))", "cuMemAllocHost_v2", 10000),
        ("cuda.cuMemHostRegister_v2(p, c_size_t(4096), 0)", "cuMemHostRegister_v2", 5000),
        # Nothing of these crosses PCIe, or nothing is known that would be charged.
        ("cuda.cuMemcpyDtoDAsync_v2(d, d, n, s)", "cuMemcpyDtoDAsync_v2", 0),
        ("cuda.cuMemcpyAsync(d, d, n, s)", "cuMemcpyAsync", 0),
        ("cuda.cuMemcpyAsync(as_int(h), as_int(p), n, s)", "cuMemcpyAsync", 0),
        ("cuda.cuMemcpyAsync(m, as_int(h), n, s)", "cuMemcpyAsync", 0),
        ("cuda.cuMemcpyAsync(as_int(h), m, n, s)", "cuMemcpyAsync", 0),
        ("cuda.cuMemcpyPeerAsync(d, None, d, None, n, s)", "cuMemcpyPeerAsync", 0),
        ("cuda.cuMemcpyHtoDAsync_v2(d, h, c_size_t(0), s)", "cuMemcpyHtoDAsync_v2", 0),
        ("cuda.cuMemAlloc_v2(byref(c_uint64()), c_size_t(4096))", "cuMemAlloc_v2", 0),
        ("cuda.cuMemsetD8Async(d, 0, n, s)", "cuMemsetD8Async", 0),
    ],
)
def test_each_call_is_charged_by_its_table(recorder: Any, call: str, symbol: str, us: float) -> None:
    found = shortest_us(recorder, call, symbol, TABLES)
    assert us - 1 <= found < us + SLACK_US
    # The pinned memory of the preparation, and the calls.
    assert recorder.read()[0].states()["emulated.pcie.count"][1] == 1 + (CALLS if us else 0)


@pytest.mark.parametrize("pageable", ["", ",h2d_pageable_us=64:0"])
def test_pageable_memory_is_charged_as_pinned_unless_told(recorder: Any, pageable: str) -> None:
    call = "cuda.cuMemcpyHtoDAsync_v2(d, p, n, s)"
    found = shortest_us(recorder, call, "cuMemcpyHtoDAsync_v2", f"h2d_us=64:1500{pageable}")
    expected = 0 if pageable else 1500
    assert expected - 1 <= found < expected + SLACK_US


def test_a_copy_is_charged_for_being_a_submission_too(recorder: Any) -> None:
    call = "cuda.cuMemcpyHtoDAsync_v2(d, h, n, s)"
    found = shortest_us(recorder, call, "cuMemcpyHtoDAsync_v2", "copy_us=700,h2d_us=64:1000")
    assert 1699 <= found < 1700 + SLACK_US


THREADS = """
start(); barrier = threading.Barrier(2)
def work(context):
    check(cuda.cuCtxSetCurrent(c_void_p(context)))
    s = stream(); d = device(64); h = pinned(64)
    for _ in range(10):
        barrier.wait()
        check(cuda.cuMemcpyHtoDAsync_v2(d, h, c_size_t(64), s))
threads = [threading.Thread(target=work, args=(c,)) for c in CONTEXTS]
for t in threads: t.start()
for t in threads: t.join()
"""


def two_threads(recorder: Any, contexts: str) -> tuple[npt.NDArray[np.void], dict[str, int]]:
    """Rows of ten copies each of two threads, at 5 ms a copy, and what was counted."""
    code = THREADS.replace("CONTEXTS", contexts)
    spool = recorder.python(code, CCTRACE_EMULATE="h2d_us=64:5000").spool
    return spool.named("cuMemcpyHtoDAsync_v2"), {key: number for key, (_, number) in spool.states().items()}


def test_copies_of_one_context_take_turns(recorder: Any) -> None:
    rows, states = two_threads(recorder, "(0x1000, 0x1000)")
    assert len(rows) == 20
    # However the threads were run: twenty turns of 5 ms one after the other.
    assert int(rows["end_ns"].max()) - int(rows["start_ns"].min()) >= 20 * 5_000_000 - 1000
    assert states["emulated.pcie.queued_ns"] > 0
    # Waiting for a turn is in the row, and not in what was injected.
    durations = int((rows["end_ns"] - rows["start_ns"]).sum())
    assert durations >= states["emulated.pcie.ns"] + states["emulated.pcie.queued_ns"]


def test_copies_of_two_contexts_do_not(recorder: Any) -> None:
    rows, states = two_threads(recorder, "(0x1000, 0x2000)")
    assert len(rows) == 20
    assert "emulated.pcie.queued_ns" not in states
    assert states["emulated.pcie.count"] == 20


@pytest.mark.parametrize(
    ("call", "drains"),
    [
        ("cuda.cuMemcpyHtoDAsync_v2(d, h, n, s)", 1),
        ("cuda.cuMemcpyDtoHAsync_v2(h, d, n, s)", 1),
        ("cuda.cuMemcpyDtoHAsync_v2(h, d, n, None)", 1),
        ("cuda.cuMemcpyDtoHAsync_v2_ptsz(h, d, n, None)", 1),
        ("cuda.cuMemcpyAsync(as_int(h), d, n, s)", 1),
        ("cuda.cuMemcpy2DAsync_v2(to_device_2d(h), s)", 1),
        ("batch((d, d, 64), (d, h, 64), (h, d, 64))", 1),
        ("batch((d, d, 64), (d, p, 64))", 0),
        ("cuda.cuMemcpyHtoDAsync_v2(d, p, n, s)", 0),
        ("cuda.cuMemcpyDtoDAsync_v2(d, d, n, s)", 0),
        ("cuda.cuMemcpyPeerAsync(d, None, d, None, n, s)", 0),
        ("cuda.cuMemcpyAsync(m, as_int(h), n, s)", 0),
        ("cuda.cuMemcpyHtoD_v2(d, h, n)", 0),
        ("cuda.cuMemcpyHtoDAsync_v2(d, h, c_size_t(0), s)", 0),
    ],
)
def test_which_copies_block(recorder: Any, call: str, drains: int) -> None:
    code = f"{PREPARE}\nfor _ in range(5): check({call})\nprint(cuda.mock_calls(b'cuStreamSynchronize'))"
    recording = recorder.python(code, CCTRACE_EMULATE="overlap=1")
    assert int(recording.out) == 5 * drains
    states = recording.spool.states()
    assert states.get("emulated.overlap.count", ("", 0))[1] == 5 * drains


def test_what_was_blocked_is_the_time_of_the_wait(recorder: Any) -> None:
    code = PREPARE + "for _ in range(5): check(cuda.cuMemcpyDtoHAsync_v2(h, d, n, s))"
    spool = recorder.python(
        code, CCTRACE_EMULATE="overlap=1,d2h_us=64:1000", MOCK_CUDA_DELAYS="cuStreamSynchronize=2000"
    ).spool
    rows = spool.named("cuMemcpyDtoHAsync_v2")
    durations = rows["end_ns"] - rows["start_ns"]
    assert durations.min() >= 3_000_000 - 1000
    states = {key: number for key, (_, number) in spool.states().items()}
    assert states["emulated.overlap.ns"] >= 5 * 2_000_000
    assert states["emulated.pcie.ns"] >= 5 * 1_000_000 - 1000
    assert states["emulated.overlap.ns"] + states["emulated.pcie.ns"] <= durations.sum()


@pytest.mark.parametrize("emulate", ["", "copy_us=0", "h2d_us=64:1000"])
def test_questions_about_pointers_are_no_part_of_a_call(recorder: Any, emulate: str) -> None:
    questions = "cuda.mock_calls(b'cuPointerGetAttributes')"
    # At the first copy the collector measures what a question takes.
    code = f"""{PREPARE}
check(cuda.cuMemcpyAsync(d, d, n, s))
before = {questions}
for _ in range(5): check(cuda.cuMemcpyAsync(d, d, n, s))
print({questions} - before)"""
    env = {"CCTRACE_EMULATE": emulate} if emulate else {}
    recording = recorder.python(code, MOCK_CUDA_DELAYS="cuPointerGetAttributes=3000", **env)
    rows = recording.spool.named("cuMemcpyAsync")
    assert (rows["end_ns"] - rows["start_ns"]).min() < 3_000_000
    assert np.diff(rows["start_ns"]).min() >= 2 * 3_000_000
    # One question an end, with and without emulation.
    assert int(recording.out) == 5 * 2
