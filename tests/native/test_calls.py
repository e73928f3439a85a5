"""What a record of a call says: stream, bytes, memory, direction, kernel name, capture, duration."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from cctrace.collectors.spool.layout import COPY_CODES, MEMORY_CODES, Flag, Kind, Operation

KERNEL_ARGUMENTS = "1, 1, 1, 1, 1, 1, 0"


def test_streams_are_told_apart(recorder: Any) -> None:
    code = """
start(); s = stream(); launch(s); launch(); launch(c_void_p(1)); launch(c_void_p(2))
check(cuda.cuLaunchKernel_ptsz(None, 1, 1, 1, 1, 1, 1, 0, None, None, None))
print(s.value)
"""
    recording = recorder.python(code)
    launches = recording.spool.named("cuLaunchKernel")
    own = 2 | recording.spool.pid << 32
    assert list(launches["stream"]) == [int(recording.out), 0, 0, own, own]
    assert list(recording.spool.of(Kind.STREAM)["object"]) == [int(recording.out)]


def test_results_are_kept(recorder: Any) -> None:
    code = (
        "start(); assert cuda.cuMemFreeHost(c_void_p(12345)) == 1; assert cuda.cuMemFreeHost(pinned(64)) == 0"
    )
    recording = recorder.python(code)
    assert recording.code == 0
    assert list(recording.spool.named("cuMemFreeHost")["result"]) == [1, 0]


@pytest.mark.parametrize(
    ("call", "source", "destination", "direction"),
    [
        ("cuda.cuMemcpyHtoDAsync_v2(d, h, n, s)", "pinned", "device", "h2d"),
        ("cuda.cuMemcpyHtoDAsync_v2(d, p, n, s)", "pageable", "device", "h2d"),
        ("cuda.cuMemcpyHtoD_v2(d, p, n)", "pageable", "device", "h2d"),
        ("cuda.cuMemcpyDtoHAsync_v2(h, d, n, s)", "device", "pinned", "d2h"),
        ("cuda.cuMemcpyDtoHAsync_v2(p, d, n, s)", "device", "pageable", "d2h"),
        ("cuda.cuMemcpyDtoH_v2(p, d, n)", "device", "pageable", "d2h"),
        ("cuda.cuMemcpyDtoDAsync_v2(d, d, n, s)", "device", "device", "d2d"),
        ("cuda.cuMemcpyAsync(d, c_uint64(h.value), n, s)", "pinned", "device", "h2d"),
        ("cuda.cuMemcpyAsync(c_uint64(p.value), d, n, s)", "device", "pageable", "d2h"),
        ("cuda.cuMemcpyAsync(d, d, n, s)", "device", "device", "d2d"),
        ("cuda.cuMemcpyAsync(c_uint64(p.value), c_uint64(h.value), n, s)", "pinned", "pageable", "h2h"),
        ("cuda.cuMemcpyAsync(d, m, n, s)", "managed", "device", "d2d"),
        ("cuda.cuMemcpyPeerAsync(d, None, d, None, n, s)", "device", "device", "p2p"),
    ],
)
def test_copies_know_their_ends(
    recorder: Any, call: str, source: str, destination: str, direction: str
) -> None:
    code = f"""
start(); s = stream(); h = pinned(512); d = device(512); n = c_size_t(200)
m = c_uint64(); check(cuda.cuMemAllocManaged(byref(m), c_size_t(512), 1))
block = ctypes.create_string_buffer(512); p = c_void_p(ctypes.addressof(block))
check({call})
"""
    spool = recorder.python(code).spool
    (copy,) = (r for r in spool.of(Kind.CALL) if r["operation"] == Operation.COPY)
    assert copy["bytes"] == 200
    assert MEMORY_CODES[copy["memory"] & 15] == source
    assert MEMORY_CODES[copy["memory"] >> 4] == destination
    assert COPY_CODES[copy["copy_kind"]] == direction
    assert bool(copy["flags"] & Flag.SYNCHRONOUS) == ("Async" not in call)


def test_registered_memory_is_pinned_until_it_is_not(recorder: Any) -> None:
    code = """
start(); s = stream(); d = device(64)
block = ctypes.create_string_buffer(64); p = c_void_p(ctypes.addressof(block))
copy = lambda: check(cuda.cuMemcpyHtoDAsync_v2(d, p, c_size_t(64), s))
copy(); check(cuda.cuMemHostRegister_v2(p, c_size_t(64), 0))
copy(); check(cuda.cuMemHostUnregister(p)); copy()
"""
    spool = recorder.python(code).spool
    copies = spool.named("cuMemcpyHtoDAsync_v2")
    assert [MEMORY_CODES[m & 15] for m in copies["memory"]] == ["pageable", "pinned", "pageable"]
    register = spool.named("cuMemHostRegister_v2")[0]
    assert register["bytes"] == 64


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("cuda.cuMemsetD8Async(d, 1, c_size_t(100), s)", 100),
        ("cuda.cuMemsetD16Async(d, 1, c_size_t(100), s)", 200),
        ("cuda.cuMemsetD32Async(d, 1, c_size_t(100), s)", 400),
        ("cuda.cuMemsetD2D32Async(d, c_size_t(64), 1, c_size_t(8), c_size_t(3), s)", 96),
        ("cuda.cuMemsetD8_v2(d, 1, c_size_t(7))", 7),
    ],
)
def test_memsets_count_bytes(recorder: Any, call: str, expected: int) -> None:
    spool = recorder.python(f"start(); s = stream(); d = device(4096); check({call})").spool
    (record,) = (r for r in spool.of(Kind.CALL) if r["operation"] == Operation.MEMSET)
    assert record["bytes"] == expected


def test_host_allocations_keep_address_and_size(recorder: Any) -> None:
    recording = recorder.python("start(); p = pinned(12345); print(p.value); check(cuda.cuMemFreeHost(p))")
    made, freed = recording.spool.named("cuMemHostAlloc")[0], recording.spool.named("cuMemFreeHost")[0]
    assert made["bytes"] == 12345
    assert made["object"] == freed["object"] == int(recording.out)


@pytest.mark.parametrize(("wanted", "text"), [("1", "decode_attention"), ("0", "")])
def test_kernels_have_names(recorder: Any, wanted: str, text: str) -> None:
    code = """
start(); f = function(b"decode_attention")
for _ in range(3): launch(function=f)
config = (c_uint64 * 16)()
check(cuda.cuLaunchKernelEx(config, f, None, None))
check(cuda.cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, None, None))
"""
    spool = recorder.python(code, CCTRACE_KERNEL_NAMES=wanted).spool
    kernels = [r for r in spool.of(Kind.CALL) if r["operation"] == Operation.KERNEL]
    assert len(kernels) == 5
    assert {spool.texts[int(r["link"])] for r in kernels} == {text}
    assert len({int(r["object"]) for r in kernels}) == 1


def test_a_name_is_asked_again_after_a_module_is_unloaded(recorder: Any) -> None:
    code = """
start(); f = function(b"first"); launch(function=f)
check(cuda.cuModuleUnload(c_void_p(1)))
g = function(b"second"); launch(function=f); launch(function=g)
"""
    spool = recorder.python(code).spool
    assert [spool.texts[int(r["link"])] for r in spool.named("cuLaunchKernel")] == [
        "first",
        "first",
        "second",
    ]


def test_captured_calls_are_no_submissions(recorder: Any) -> None:
    code = """
start(); s, other = stream(), stream(); d = device(64); h = pinned(64)
launch(s)
check(cuda.cuStreamBeginCapture_v2(s, 0))
launch(s); check(cuda.cuMemcpyHtoDAsync_v2(d, h, c_size_t(64), s)); launch(other)
graph = end_capture(s); executable = instantiate(graph)
check(cuda.cuGraphLaunch(executable, s)); launch(s)
print(executable.value)
"""
    recording = recorder.python(code)
    spool = recording.spool
    captured = [bool(r["flags"] & Flag.CAPTURED) for r in spool.named("cuLaunchKernel")]
    assert captured == [False, True, False, False]
    assert spool.named("cuMemcpyHtoDAsync_v2")[0]["flags"] & Flag.CAPTURED
    replay = spool.named("cuGraphLaunch")[0]
    assert replay["object"] == int(recording.out)
    assert not replay["flags"] & Flag.CAPTURED
    assert [spool.name(r) for r in spool.of(Kind.CALL) if r["operation"] in {40, 41, 42}] == [
        "cuStreamBeginCapture_v2",
        "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags",
    ]


def test_durations_are_those_of_the_driver(recorder: Any) -> None:
    code = "start()\nfor _ in range(20): launch(); check(cuda.cuStreamSynchronize(None))"
    spool = recorder.python(code, MOCK_CUDA_DELAYS="cuLaunchKernel=300,cuStreamSynchronize=2000").spool
    for name, expected_ns in (("cuLaunchKernel", 300_000), ("cuStreamSynchronize", 2_000_000)):
        records = spool.named(name)
        durations = records["end_ns"] - records["start_ns"]
        assert (durations >= expected_ns).all()
        # The rest is the clock and the wrapper; and for the longer ones, other programs on this machine.
        assert durations.min() < expected_ns + 100_000


def test_every_thread_is_recorded_even_after_it_ended(recorder: Any) -> None:
    code = """
start()
def work(n):
    for _ in range(n): launch()
for round in range(4):
    threads = [threading.Thread(target=work, args=(100 + i,)) for i in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
"""
    spool = recorder.python(code).spool
    launches = spool.named("cuLaunchKernel")
    assert len(launches) == 4 * sum(range(100, 108))
    assert not spool.losses()
    _, counts = np.unique(launches["tid"], return_counts=True)
    assert counts.sum() == len(launches)
    assert len(counts) > 8 or set(counts) <= {4 * n for n in range(100, 108)}


def test_records_of_a_thread_are_in_order(recorder: Any) -> None:
    spool = recorder.python("start()\nfor _ in range(40000): launch()").spool
    launches = spool.named("cuLaunchKernel")
    assert len(launches) + spool.losses().get("ring full", 0) == 40000
    assert (np.diff(launches["start_ns"].astype(np.int64)) >= 0).all()


@pytest.mark.parametrize("door", ["dlsym", "lookup"])
def test_unknown_submissions_are_counted(recorder: Any, door: str) -> None:
    code = """
start()
def look_up(name):
    p = c_void_p(); status = c_int()
    check(cuda.cuGetProcAddress_v2(name, byref(p), 13000, c_uint64(0), byref(status)))
    return ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)(p.value)
by_door = {"dlsym": lambda n: getattr(cuda, n.decode()), "lookup": look_up}["DOOR"]
f, g = by_door(b"cuLaunchTomorrowsKernel"), by_door(b"cuMemcpyTomorrowAsync")
for _ in range(5): check(f(None, None, 0, None))
check(g(None, None, 0, None))
assert cuda.mock_calls(b"cuLaunchTomorrowsKernel") == 5 and cuda.mock_calls(b"cuMemcpyTomorrowAsync") == 1
""".replace("DOOR", door)
    recording = recorder.python(code)
    assert recording.code == 0, recording.err
    spool = recording.spool
    for name, count in (("cuLaunchTomorrowsKernel", 5), ("cuMemcpyTomorrowAsync", 1)):
        records = spool.named(name)
        assert len(records) == count
        assert set(records["operation"]) == {Operation.UNKNOWN}


def test_what_recording_costs_is_measured(recorder: Any) -> None:
    code = "start(); s = stream(); check(cuda.cuMemcpyHtoDAsync_v2(device(64), pinned(64), c_size_t(64), s))"
    spool = recorder.python(code).spool
    taxes = {spool.name(r): int(r["object"]) for r in spool.of(Kind.TAX)}
    assert set(taxes) == {"call", "pointer_query"}
    # Picoseconds: a call between a few nanoseconds and, on a slow virtual machine, some microseconds.
    assert 5_000 < taxes["call"] < 10_000_000


def test_clocks_are_read_together(recorder: Any) -> None:
    spool = recorder.python("start(); launch(); time.sleep(1.2); launch()").spool
    clocks = spool.of(Kind.CLOCK)
    assert len(clocks) >= 2
    offset = time.time_ns() - time.monotonic_ns()
    assert (
        np.abs(clocks["end_ns"].astype(np.int64) - clocks["start_ns"].astype(np.int64) - offset)
        < 1_000_000_000
    ).all()
    assert (clocks["bytes"] < 1_000_000).all()
