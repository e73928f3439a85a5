"""Longer collectives and peer copies: which kernels stand around them, in what order, and what is counted."""

from __future__ import annotations

import re
from typing import Any

import pytest

BEGIN, END = "cctrace_transfer_begin", "cctrace_transfer_end"
ALL_REDUCE = "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LLv"
SEND_RECEIVE = "_Z22ncclDevKernel_SendRecvv"
# What our kernels take themselves (nvlink_slots.h), launched: the one behind, both, and between their clocks.
END_NS, BOTH_NS, GAP_NS = 1600, 3560, 3260
IN_GRAPH_NS = 1720
FACTOR = {"CCTRACE_EMULATE": "collective_factor=1.5"}
LATENCY = {"CCTRACE_EMULATE": "peer_latency_us=3"}
ALL = {"CCTRACE_EMULATE": "collective_factor=1.5,all_to_all_factor=1.25,peer_copy_factor=2,peer_latency_us=3"}
DURATION = {"MOCK_CUDA_KERNEL_NS": "50000"}

NCCL = """
cuda.mock_ran.restype = c_char_p
start(); nccl = ctypes.CDLL("libnccl.so.2"); s = stream()
def communicator(ranks):
    c = c_void_p(); check(nccl.mock_nccl_init(byref(c), ranks))
    return c
def all_reduce(c, count=1000, s=s):
    check(nccl.ncclAllReduce(None, None, c_size_t(count), 9, 0, c, s))
def exchange(c, *peers, count=1000):
    nccl.ncclGroupStart()
    for p in peers:
        check(nccl.ncclSend(None, c_size_t(count), 0, p, c, s))
        check(nccl.ncclRecv(None, c_size_t(count), 0, p, c, s))
    nccl.ncclGroupEnd()
def ran():
    print(cuda.mock_ran().decode(), end="")
c = communicator(4); device(64); cuda.mock_ran()
"""


def kernels(out: str) -> list[tuple[str, list[int]]]:
    """Name and parameters of each kernel that ran, without the stamps."""
    found = re.findall(r"^(\w+)\((.*)\)$", out, re.MULTILINE)
    return [(name, [int(p) for p in text.split(",") if p]) for name, text in found]


def names(out: str) -> list[str]:
    """Names alone."""
    return [name for name, _ in kernels(out)]


def truth(spool: Any) -> dict[str, int]:
    """What the process says it injected."""
    return {
        key.removeprefix("emulated.nvlink."): number
        for key, (_, number) in spool.states().items()
        if key.startswith("emulated.nvlink.")
    }


@pytest.mark.parametrize("emulate", ["", "kernel_us=0", "collective_factor=1,peer_latency_us=0"])
def test_nothing_is_launched_where_nothing_is_lengthened(recorder: Any, emulate: str) -> None:
    env = {"CCTRACE_EMULATE": emulate} if emulate else {}
    code = 'print(cuda.mock_calls(b"cuLibraryLoadData")); all_reduce(c); exchange(c, 0, 1); ran()'
    recording = recorder.python(NCCL + code, **env)
    assert recording.out.splitlines()[0] == "0"
    assert names(recording.out) == [ALL_REDUCE, SEND_RECEIVE]
    assert truth(recording.spool) == {}


def test_a_factor_needs_a_kernel_before_and_one_after(recorder: Any) -> None:
    recording = recorder.python(NCCL + "for _ in range(3): all_reduce(c)\nran()", **FACTOR, **DURATION)
    assert names(recording.out) == [BEGIN, ALL_REDUCE, END] * 3
    ends = [p for name, p in kernels(recording.out) if name == END]
    (slot, fraction, added, limit, gap, own) = ends[0]
    assert all(p == ends[0] for p in ends)
    assert [p for name, p in kernels(recording.out) if name == BEGIN] == [[slot]] * 3
    assert (fraction, added, gap, own) == (1 << 19, 0, GAP_NS, BOTH_NS)
    # 2000 bytes may take 100 µs and their way at 5 GB/s.
    assert limit == 100_400
    found = truth(recording.spool)
    assert found["count"] == 3
    assert found["ns"] == found["spun_ns"] + 3 * BOTH_NS
    # Half of each 50 µs, less our own kernels; the clock of a busy machine only makes the first ones longer.
    assert 3 * (25_000 - GAP_NS // 2 - BOTH_NS) <= found["spun_ns"] <= 3 * 50_200


def test_latency_alone_needs_no_kernel_before(recorder: Any) -> None:
    recording = recorder.python(NCCL + "all_reduce(c); all_reduce(c, 7); ran()", **LATENCY)
    assert names(recording.out) == [ALL_REDUCE, END] * 2
    (_, fraction, added, *_) = kernels(recording.out)[1][1]
    assert (fraction, added) == (0, 3 * 3000)
    assert truth(recording.spool) == {"count": 2, "ns": 2 * 9000, "spun_ns": 2 * (9000 - END_NS)}


def test_our_own_cost_is_the_least_that_can_be_added(recorder: Any) -> None:
    recording = recorder.python(NCCL + "all_reduce(c)", CCTRACE_EMULATE="peer_latency_us=0.1")
    assert truth(recording.spool) == {"count": 1, "ns": END_NS}


def test_a_first_call_is_not_lengthened_by_its_wait_for_others(recorder: Any) -> None:
    recording = recorder.python(NCCL + "all_reduce(c)", **FACTOR, MOCK_CUDA_KERNEL_NS="5000000000")
    assert truth(recording.spool)["spun_ns"] == 100_400 // 2 - BOTH_NS


def test_alike_transfers_share_a_slot_and_others_do_not(recorder: Any) -> None:
    code = """
d = communicator(4); other = stream()
for which, count, on in ((c, 1, s), (c, 1, other), (c, 2, s), (d, 1, s), (c, 1, s)):
    all_reduce(which, count, on)
check(nccl.ncclAllGather(None, None, c_size_t(1), 9, c, s)); ran()
"""
    out = recorder.python(NCCL + code, **LATENCY).out
    slots = [p[0] for name, p in kernels(out) if name == END]
    assert slots[0] == slots[1] == slots[4]
    assert len(set(slots)) == 4


def test_a_captured_transfer_is_lengthened_at_every_replay(recorder: Any) -> None:
    code = """
check(cuda.cuStreamBeginCapture_v2(s, 0)); launch(s); all_reduce(c); launch(s); g = end_capture(s)
n = c_size_t(); check(cuda.cuGraphGetNodes(g, None, byref(n))); print(n.value)
e = instantiate(g); counted = [b"cuLaunchKernel", b"cuLaunchKernelEx", b"cuGraphLaunch"]
before = [cuda.mock_calls(x) for x in counted]; ran()
for _ in range(100): check(cuda.cuGraphLaunch(e, s))
print([cuda.mock_calls(x) - b for x, b in zip(counted, before)]); ran()
"""
    recording = recorder.python(NCCL + code, **ALL)
    assert recording.code == 0, recording.err
    assert recording.out.splitlines()[:2] == ["5", "[0, 0, 100]"]
    assert names(recording.out) == [BEGIN, ALL_REDUCE, END] * 100
    found = truth(recording.spool)
    assert found["count"] == 100
    # Nodes of a graph follow each other faster than launches do.
    assert found["ns"] - found.get("spun_ns", 0) == 100 * IN_GRAPH_NS
    # No row and no toll is ours.
    assert len(recording.spool.named("cuLaunchKernel")) == 2
    assert len(recording.spool.named("cuLaunchKernelEx")) == 1


def test_stamps_stay_first_and_last(recorder: Any) -> None:
    code = """
check(cuda.cuStreamBeginCapture_v2(s, 0)); all_reduce(c); e = instantiate(end_capture(s)); cuda.mock_ran()
check(cuda.cuGraphLaunch(e, s)); ran()
"""
    out = recorder.python(NCCL + code, CCTRACE_GPU="stamps", **ALL).out
    assert names(out) == ["cctrace_stamp", BEGIN, ALL_REDUCE, END, "cctrace_stamp"]


def test_a_group_is_one_transfer(recorder: Any) -> None:
    code = """
def group(*counts):
    nccl.ncclGroupStart()
    for n in counts: all_reduce(c, n)
    nccl.ncclGroupEnd()
group(1000, 500); group(1000, 500); group(500, 500); all_reduce(c, 1500); ran()
"""
    recording = recorder.python(NCCL + code, **ALL)
    assert names(recording.out) == [BEGIN, ALL_REDUCE, END] * 4
    ends = [p for name, p in kernels(recording.out) if name == END]
    assert ends[0] == ends[1]
    assert [p[3] for p in ends] == [100_600, 100_600, 100_400, 100_600]
    # Fused or not, the peers are met once; but one call of the same bytes is another transfer.
    assert {p[2] for p in ends} == {9000}
    assert len({p[0] for p in ends}) == 3
    assert truth(recording.spool)["count"] == 4


def test_a_group_on_two_streams_is_two_transfers(recorder: Any) -> None:
    code = """
other, d = stream(), communicator(2)
nccl.ncclGroupStart(); all_reduce(c, 1000); all_reduce(d, 10, other); nccl.ncclGroupEnd(); ran()
"""
    ends = [p for name, p in kernels(recorder.python(NCCL + code, **ALL).out) if name == END]
    assert [(p[2], p[3]) for p in ends] == [(9000, 100_400), (3000, 100_004)]


@pytest.mark.parametrize(
    ("peers", "fraction", "latency"),
    [("1,", 1 << 20, 3000), ("0, 1, 2, 3", 1 << 18, 9000), ("1, 2", 1 << 18, 9000)],
    ids=["between two", "all-to-all", "several"],
)
def test_sends_and_receives(recorder: Any, peers: str, fraction: int, latency: int) -> None:
    out = recorder.python(NCCL + f"exchange(c, {peers}); ran()", **ALL).out
    assert names(out) == [BEGIN, SEND_RECEIVE, END]
    assert kernels(out)[2][1][1:3] == [fraction, latency]


def test_a_simulated_group_launches_nothing(recorder: Any) -> None:
    code = "nccl.ncclGroupStart(); all_reduce(c, 5); nccl.ncclGroupSimulateEnd(None); all_reduce(c); ran()"
    out = recorder.python(NCCL + code, **ALL).out
    assert names(out) == [BEGIN, ALL_REDUCE, END]
    assert kernels(out)[2][1][3] == 100_400


@pytest.mark.parametrize(
    ("symbol", "peers", "fraction"),
    [
        (b"_ZN4vllm26cross_device_reduce_1stageI6__halfLi8EEEvPNS_8RankDataE", 7, 1 << 19),
        (b"_ZN4c10d26one_shot_all_reduce_kernelIfLi16ELi2ELb0EEEvPPT_", 1, 1 << 19),
        (
            b"_ZN12tensorrt_llm39allreduce_fusion_kernel_oneshot_lamportILNS_1E1E6__halfLi4ELb1EEEvv",
            3,
            1 << 19,
        ),
        # It does not say how many: as many as the largest communicator.
        (b"_ZN8moe_comm20moeA2ADispatchKernelEv", 3, 1 << 18),
        (b"oneshotAllreduceFusionKernel", 3, 1 << 19),
        (b"ncclDevKernel_Generic_4", 3, 1 << 19),
    ],
    ids=str,
)
def test_kernels_that_do_not_come_through_nccl(
    recorder: Any, symbol: bytes, peers: int, fraction: int
) -> None:
    code = f"f = function({symbol!r}); all_reduce(c); cuda.mock_ran()\nfor _ in range(2): launch(s, f)\nran()"
    out = recorder.python(NCCL + code, **ALL).out
    assert names(out) == [BEGIN, symbol.decode(), END] * 2
    assert [p[1:3] for name, p in kernels(out) if name == END] == [[fraction, peers * 3000]] * 2


def test_names_are_asked_for_also_when_they_are_not_kept(recorder: Any) -> None:
    recording = recorder.python(NCCL + "all_reduce(c); ran()", CCTRACE_KERNEL_NAMES="0", **ALL)
    assert names(recording.out) == [BEGIN, ALL_REDUCE, END]
    (launch,) = recording.spool.named("cuLaunchKernelEx")
    assert launch["link"] == 0


def test_other_kernels_are_left_alone(recorder: Any) -> None:
    code = "launch(s, function(b'_ZN2at6native4gemmEv')); launch(s, function(b'barrier')); ran()"
    assert len(kernels(recorder.python(NCCL + code, **ALL).out)) == 2


def test_tolls_of_launches_are_not_charged_to_ours(recorder: Any) -> None:
    spool = recorder.python(
        NCCL + "for _ in range(10): all_reduce(c)", CCTRACE_EMULATE="kernel_us=5,collective_factor=1.5"
    ).spool
    states = spool.states()
    assert states["emulated.launch.count"][1] == 10 == len(spool.named("cuLaunchKernelEx"))
    assert states["emulated.nvlink.count"][1] == 10


PEERS = """
cuda.mock_ran.restype = c_char_p
start(); s = stream(); near = device(64); here = device(64)
context = c_void_p(); check(cuda.cuDevicePrimaryCtxRetain(byref(context), 1))
check(cuda.cuCtxPushCurrent_v2(context)); far = device(64); there = stream()
check(cuda.cuCtxPopCurrent_v2(None))
host = pinned(64); cuda.mock_ran(); size = c_size_t(64)
def ran():
    print(cuda.mock_ran().decode(), end="")
"""
TWO = {"MOCK_CUDA_DEVICES": "2"}


@pytest.mark.parametrize(
    "copy",
    [
        "cuda.cuMemcpyPeerAsync(far, context, near, None, size, s)",
        "cuda.cuMemcpyPeer(far, context, near, None, size)",
        "cuda.cuMemcpyDtoDAsync_v2(near, far, size, s)",
        "cuda.cuMemcpyDtoD_v2(near, far, size)",
        "cuda.cuMemcpyAsync(far, near, size, s)",
        "cuda.cuMemcpy(far, near, size)",
        "cuda.cuMemcpyAsync(far, near, size, there)",
    ],
)
def test_copies_between_two_devices(recorder: Any, copy: str) -> None:
    recording = recorder.python(PEERS + f"check({copy}); check({copy}); ran()", **ALL, **TWO)
    assert recording.code == 0, recording.err
    assert names(recording.out) == [BEGIN, END] * 2
    ends = [p for name, p in kernels(recording.out) if name == END]
    assert ends[0] == ends[1]
    assert ends[0][1:] == [1 << 20, 3000, 100_012, GAP_NS, BOTH_NS]
    assert truth(recording.spool)["count"] == 2


def test_captured_copies_between_two_devices(recorder: Any) -> None:
    code = """
check(cuda.cuStreamBeginCapture_v2(s, 0)); check(cuda.cuMemcpyDtoDAsync_v2(near, far, size, s))
e = instantiate(end_capture(s))
for _ in range(7): check(cuda.cuGraphLaunch(e, s))
ran()
"""
    recording = recorder.python(PEERS + code, **ALL, **TWO)
    assert names(recording.out) == [BEGIN, END] * 7
    assert truth(recording.spool)["count"] == 7


@pytest.mark.parametrize(
    "copy",
    [
        "cuda.cuMemcpyDtoDAsync_v2(near, here, size, s)",
        "cuda.cuMemcpyAsync(near, here, size, s)",
        "cuda.cuMemcpyHtoDAsync_v2(near, host, size, s)",
        "cuda.cuMemcpyAsync(far, c_uint64(host.value), size, s)",
    ],
)
def test_copies_within_a_device_or_with_the_host_are_left_alone(recorder: Any, copy: str) -> None:
    recording = recorder.python(PEERS + f"check({copy}); ran()", **ALL, **TWO)
    assert (recording.code, recording.out) == (0, ""), recording.err


def test_a_context_that_ends_keeps_its_count_and_begins_anew(recorder: Any) -> None:
    code = """
for _ in range(3): all_reduce(c)
check(cuda.cuDevicePrimaryCtxReset_v2(0))
start(); device(64); s = stream()
for _ in range(4): all_reduce(c, s=s)
check(cuda.cuDevicePrimaryCtxReset_v2(0))
"""
    recording = recorder.python(NCCL + code, **LATENCY)
    assert (recording.code, recording.err) == (0, "")
    assert truth(recording.spool)["count"] == 7


def test_contexts_of_two_devices_have_slots_of_their_own(recorder: Any) -> None:
    code = """
context = c_void_p(); check(cuda.cuDevicePrimaryCtxRetain(byref(context), 1))
check(cuda.cuCtxPushCurrent_v2(context)); device(64); there = stream(); cuda.mock_ran()
all_reduce(c); all_reduce(c, s=there); ran()
"""
    recording = recorder.python(NCCL + code, **LATENCY, **TWO)
    slots = [p[0] for name, p in kernels(recording.out) if name == END]
    assert len(set(slots)) == 2
    assert truth(recording.spool)["count"] == 2


def test_what_is_needed_is_there_before_a_capture_begins(recorder: Any) -> None:
    # No memory was allocated: the begin of the capture is the last chance.
    code = """
start(); s = stream(); f = function(b"cross_device_reduce_1stage")
check(cuda.cuStreamBeginCapture_v2(s, 0)); launch(s, f); g = end_capture(s)
n = c_size_t(); check(cuda.cuGraphGetNodes(g, None, byref(n))); print(n.value)
"""
    assert recorder.python(code, **ALL).out == "3\n"


def test_a_forked_child_is_left_alone(recorder: Any) -> None:
    code = """
all_reduce(c); sys.stdout.flush()
child = os.fork()
if not child: os._exit(nccl.ncclAllReduce(None, None, c_size_t(1), 0, 0, c, s))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); all_reduce(c)
"""
    recording = recorder.python(NCCL + code, **LATENCY)
    assert (recording.code, recording.out) == (0, "1\n"), recording.err
    assert truth(recording.spool)["count"] == 2


def test_outside_the_window_transfers_are_lengthened_but_not_counted(recorder: Any) -> None:
    recorder.write_control(start_at_ns=1 << 62)
    recording = recorder.python(NCCL + "all_reduce(c); ran()", **ALL)
    assert names(recording.out) == [BEGIN, ALL_REDUCE, END]
    assert truth(recording.spool) == {}


def test_the_count_is_on_disk_after_sigkill(recorder: Any) -> None:
    code = """
for _ in range(9): all_reduce(c)
ctypes.CDLL(os.environ["CCTRACE_LIBRARY"]).cctrace_flush(); os.kill(os.getpid(), 9)
"""
    assert truth(recorder.python(NCCL + code, **LATENCY).spool)["count"] == 9


def test_threads_lengthen_their_own_groups(recorder: Any) -> None:
    code = """
def work(ranks):
    start(); mine, d = stream(), communicator(ranks)
    for _ in range(50): all_reduce(d, ranks, mine)
threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 5, 9)]
for t in threads: t.start()
for t in threads: t.join()
"""
    recording = recorder.python(NCCL + code, **LATENCY)
    assert recording.code == 0, recording.err
    found = truth(recording.spool)
    assert found["count"] == 200
    assert found["ns"] == 50 * 3000 * (1 + 2 + 4 + 8)
