"""NCCL's host calls as rows: however they are reached, and none where there is no NCCL."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from cctrace.collectors.spool.layout import Flag, Kind

NCCL = """
start(); nccl = ctypes.CDLL("libnccl.so.2"); s = stream()
def communicator(ranks):
    c = c_void_p(); check(nccl.mock_nccl_init(byref(c), ranks))
    return c
def all_reduce(c, count=1000, s=s, type=9):
    check(nccl.ncclAllReduce(None, None, c_size_t(count), type, 0, c, s))
"""
BFLOAT16 = 9


def rows(spool: Any) -> list[tuple[str, int, int, int]]:
    """Function, bytes, calls of the communicator before it, and ranks of each row."""
    return [
        (spool.name(r), int(r["bytes"]), int(r["link"]), int(r["memory"]) | int(r["copy_kind"]) << 8)
        for r in spool.of(Kind.COLLECTIVE)
    ]


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_calls_of_a_program_that_is_linked_with_nccl(recorder: Any, binding: str) -> None:
    recording = recorder.run([recorder.built.app(f"all_reduce_{binding}")])
    assert recording.code == 0, recording.err
    # What this NCCL lacks, a weak reference still finds missing.
    assert recording.out == "no all-to-all\n"
    # The broadcast that NCCL's own older function makes is the same call.
    expected = [("ncclAllReduce", 2000, i, 4) for i in range(3)] + [("ncclBcast", 32, 3, 4)]
    assert rows(recording.spool) == expected


def test_a_program_that_is_not_relocatable_runs_as_without_us(recorder: Any) -> None:
    recording = recorder.run([recorder.built.app("all_reduce_fixed")])
    assert (recording.code, recording.out) == (0, "no all-to-all\n"), recording.err


def test_calls_that_are_looked_up(recorder: Any) -> None:
    code = """
c, d = communicator(2), communicator(300)
all_reduce(c); all_reduce(d, 5, type=8); all_reduce(c, 7)
"""
    spool = recorder.python(NCCL + code).spool
    assert rows(spool) == [
        ("ncclAllReduce", 2000, 0, 2),
        ("ncclAllReduce", 40, 0, 300),
        ("ncclAllReduce", 14, 1, 2),
    ]
    first, second, third = spool.of(Kind.COLLECTIVE)
    assert first["object"] == third["object"] != second["object"]
    assert (int(first["operation"]), int(first["result"]), int(first["device"])) == (BFLOAT16, 0, 0)
    # The launch lies inside the call, and on its stream.
    launches = spool.named("cuLaunchKernelEx")
    assert first["start_ns"] <= launches[0]["start_ns"] <= launches[0]["end_ns"] <= first["end_ns"]
    assert first["stream"] == launches[0]["stream"]


def test_bytes_are_those_of_the_larger_buffer(recorder: Any) -> None:
    code = """
c = communicator(4)
check(nccl.ncclAllGather(None, None, c_size_t(10), 7, c, s))
check(nccl.ncclSend(None, c_size_t(10), 0, 1, c, s)); check(nccl.ncclRecv(None, c_size_t(10), 99, 1, c, s))
"""
    found = rows(recorder.python(NCCL + code).spool)
    assert found == [("ncclAllGather", 160, 0, 4), ("ncclSend", 10, 1, 4), ("ncclRecv", 10, 2, 4)]


def test_a_handle_that_comes_again_is_another_communicator(recorder: Any) -> None:
    code = """
c = communicator(2); all_reduce(c); check(nccl.ncclCommDestroy(c))
again = [communicator(8) for _ in range(50)]
same = [d for d in again if d.value == c.value][0]; all_reduce(same)
"""
    recording = recorder.python(NCCL + code)
    assert recording.code == 0, recording.err
    assert rows(recording.spool) == [("ncclAllReduce", 2000, 0, 2), ("ncclAllReduce", 2000, 0, 8)]


def test_a_failed_call_says_so(recorder: Any) -> None:
    spool = recorder.python(
        NCCL + "assert nccl.ncclAllReduce(None, None, c_size_t(1), 0, 0, None, s) == 4"
    ).spool
    (row,) = spool.of(Kind.COLLECTIVE)
    assert (int(row["result"]), int(row["memory"])) == (4, 0)


def test_captured_calls_are_told_apart(recorder: Any) -> None:
    code = """
c = communicator(2)
check(cuda.cuStreamBeginCapture_v2(s, 0)); all_reduce(c); e = instantiate(end_capture(s)); all_reduce(c)
check(cuda.cuGraphLaunch(e, s))
"""
    found = recorder.python(NCCL + code).spool.of(Kind.COLLECTIVE)
    assert [bool(r["flags"] & Flag.CAPTURED) for r in found] == [True, False]


def test_groups_and_simulated_groups(recorder: Any) -> None:
    code = """
c = communicator(2)
nccl.ncclGroupStart(); all_reduce(c); nccl.ncclGroupSimulateEnd(None)
nccl.ncclGroupStart(); nccl.ncclGroupStart(); all_reduce(c); nccl.ncclGroupEnd(); all_reduce(c)
nccl.ncclGroupEnd()
"""
    spool = recorder.python(NCCL + code).spool
    assert [sequence for _, _, sequence, _ in rows(spool)] == [0, 1, 2]
    assert len(spool.named("cuLaunchKernelEx")) == 1


def test_outside_the_window_there_are_no_rows(recorder: Any) -> None:
    recorder.write_control(start_at_ns=1 << 62)
    recording = recorder.python(NCCL + "c = communicator(2); all_reduce(c); print('fine')")
    assert (recording.code, recording.out) == (0, "fine\n"), recording.err
    assert rows(recording.spool) == []


PROBES = """
import ctypes
for where in (ctypes.CDLL(None), ctypes.CDLL("libc.so.6")):
    print([name for name in ("ncclAllReduce", "ncclGroupStart", "ncclCommCount") if hasattr(where, name)])
"""


def test_without_nccl_none_is_found(recorder: Any) -> None:
    recording = recorder.run([sys.executable, "-c", PROBES])
    assert recording.out == "[]\n[]\n"
    assert recording.spools == []


def test_looking_nccl_up_starts_nothing(recorder: Any) -> None:
    recording = recorder.python('nccl = ctypes.CDLL("libnccl.so.2"); nccl.ncclAllReduce; print("fine")')
    assert (recording.out, recording.spools) == ("fine\n", [])


def test_a_forked_child_calls_nccl_as_without_us(recorder: Any) -> None:
    code = """
c = communicator(2); all_reduce(c)
child = os.fork()
if not child:
    # The driver refuses; what counts is that the call comes back.
    os._exit(nccl.ncclAllReduce(None, None, c_size_t(1), 0, 0, c, s))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); all_reduce(c)
"""
    recording = recorder.python(NCCL + code)
    assert (recording.code, recording.out) == (0, "1\n"), recording.err
    assert len(rows(recording.spool)) == 2


def test_without_a_spool_folder_calls_go_straight_through(recorder: Any) -> None:
    recording = recorder.python(NCCL + "all_reduce(communicator(2)); print('fine')", CCTRACE_SPOOL="")
    assert (recording.out, recording.spools) == ("fine\n", [])


def test_another_copy_of_nccl_keeps_to_itself(recorder: Any) -> None:
    code = """
import shutil; shutil.copy(os.environ["LD_LIBRARY_PATH"] + "/libnccl.so.2", "other.so")
other = ctypes.CDLL("./other.so"); c, d = communicator(2), c_void_p()
check(other.mock_nccl_init(byref(d), 8))
nccl.ncclGroupStart(); all_reduce(c)
check(other.ncclAllReduce(None, None, c_size_t(3), 0, 0, d, s)); nccl.ncclGroupEnd()
"""
    recording = recorder.python(NCCL + code)
    assert recording.code == 0, recording.err
    assert rows(recording.spool) == [("ncclAllReduce", 2000, 0, 2), ("ncclAllReduce", 3, 0, 8)]
    assert len(recording.spool.named("cuLaunchKernelEx")) == 2
