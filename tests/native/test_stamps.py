"""Stamps inside captured graphs and around eager steps, executed by the stand-in GPU."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from cctrace.collectors.spool.layout import Flag, Kind

STAMPS = {"CCTRACE_GPU": "stamps"}
GRAPH = """
start(); s = stream()
def captured(n, s=s, mode=0):
    check(cuda.cuStreamBeginCapture_v2(s, mode))
    for _ in range(n): launch(s)
    return end_capture(s)
def nodes(graph):
    n = c_size_t(); check(cuda.cuGraphGetNodes(graph, None, byref(n)))
    return n.value
"""


def stamps(spool: Any, *, eager: bool = False) -> Any:
    """Stamps of graphs, or of eager steps, in the order in which the GPU made them."""
    found = spool.of(Kind.STAMP)
    found = found[((found["flags"] & Flag.EAGER_STAMP) != 0) == eager]
    return found[np.argsort(found["bytes"])]


def bindings(spool: Any) -> list[tuple[int, int]]:
    """Executable graph and tag of every binding, in order of time."""
    return [(int(b["object"]), int(b["bytes"])) for b in spool.of(Kind.BINDING)]


def test_every_replay_has_a_begin_and_an_end(recorder: Any) -> None:
    code = (
        GRAPH
        + "e = instantiate(captured(3))\nfor _ in range(5): check(cuda.cuGraphLaunch(e, s))\nprint(e.value)"
    )
    recording = recorder.python(code, **STAMPS)
    spool = recording.spool
    found = stamps(spool)
    assert [bool(r["flags"] & Flag.STAMP_END) for r in found] == [False, True] * 5
    ((executable, tag),) = bindings(spool)
    assert executable == int(recording.out)
    assert tag > 0
    assert set(found["object"]) == {tag}
    assert set(found["device"]) == {0}
    assert spool.states()["stamps.captures"] == ("stamped", 1)


def test_stamps_lie_inside_their_replays(recorder: Any) -> None:
    code = (
        GRAPH
        + """
e = instantiate(captured(3))
for _ in range(20): check(cuda.cuGraphLaunch(e, s)); time.sleep(0.002)
"""
    )
    spool = recorder.python(code, **STAMPS).spool
    clock = spool.of(Kind.GPU_CLOCK)[0]
    offset = int(clock["object"]) - int(clock["start_ns"])
    uncertainty = int(clock["bytes"]) + 50_000
    replays = spool.named("cuGraphLaunch")
    times = stamps(spool)["start_ns"].astype(np.int64).reshape(-1, 2) - offset
    assert len(replays) == len(times) == 20
    assert (times[:, 0] >= replays["start_ns"].astype(np.int64) - uncertainty).all()
    assert (times[:, 1] <= replays["end_ns"].astype(np.int64) + uncertainty).all()
    assert (times[:, 0] <= times[:, 1]).all()


def test_a_replay_submits_nothing_more(recorder: Any) -> None:
    code = (
        GRAPH
        + """
e = instantiate(captured(3))
counted = [b"cuLaunchKernel", b"cuGraphLaunch", b"cuStreamSynchronize", b"cuMemcpyDtoHAsync_v2"]
before = [cuda.mock_calls(n) for n in counted]
for _ in range(200): check(cuda.cuGraphLaunch(e, s))
print([cuda.mock_calls(n) - b for n, b in zip(counted, before)])
"""
    )
    assert recorder.python(code, **STAMPS).out == "[0, 200, 0, 0]\n"


def test_other_modes_add_no_call_at_all(recorder: Any) -> None:
    code = (
        GRAPH
        + """
g = captured(3); print(nodes(g), cuda.mock_calls(b'cuLaunchKernel'), cuda.mock_calls(b'cuStreamCreate'))
"""
    )
    recording = recorder.python(code)
    assert recording.out == "3 3 1\n"
    assert len(recording.spool.of(Kind.STAMP)) == 0


def test_an_update_brings_the_stamps_of_the_new_graph(recorder: Any) -> None:
    code = (
        GRAPH
        + """
first, second = captured(3), captured(3)
e = instantiate(first); check(cuda.cuGraphLaunch(e, s))
check(cuda.cuGraphExecUpdate_v2(e, second, None)); check(cuda.cuGraphLaunch(e, s))
assert cuda.cuGraphExecUpdate_v2(e, captured(5), None) == 910
check(cuda.cuGraphLaunch(e, s))
"""
    )
    spool = recorder.python(code, **STAMPS).spool
    (executable, first), (same, second) = bindings(spool)
    assert executable == same
    assert first != second
    assert list(stamps(spool)["object"]) == [first, first, second, second, second, second]


def test_clones_and_repeated_instances_keep_the_tag(recorder: Any) -> None:
    code = (
        GRAPH
        + """
graph = captured(2); clone = c_void_p()
check(cuda.cuGraphClone(byref(clone), graph))
for g in (graph, clone, clone): check(cuda.cuGraphLaunch(instantiate(g), s))
"""
    )
    spool = recorder.python(code, **STAMPS).spool
    assert len({tag for _, tag in bindings(spool)}) == 1
    assert len({executable for executable, _ in bindings(spool)}) == 3
    assert len(stamps(spool)) == 6


def test_a_graph_that_was_built_by_hand_is_left_alone(recorder: Any) -> None:
    code = (
        GRAPH
        + """
graph, node = c_void_p(), c_void_p(); check(cuda.cuGraphCreate(byref(graph), 0))
check(cuda.cuGraphAddEmptyNode(byref(node), graph, None, c_size_t(0)))
check(cuda.cuGraphLaunch(instantiate(graph), s)); print(nodes(graph))
"""
    )
    recording = recorder.python(code, **STAMPS)
    assert recording.out == "1\n"
    assert [tag for _, tag in bindings(recording.spool)] == [0]
    assert len(stamps(recording.spool)) == 0


def test_nested_graphs_work(recorder: Any) -> None:
    code = (
        GRAPH
        + """
child = captured(2)
check(cuda.cuStreamBeginCapture_v2(s, 0))
launch(s); check(cuda.cuGraphLaunch(instantiate(child), s)); launch(s)
check(cuda.cuGraphLaunch(instantiate(end_capture(s)), s))
"""
    )
    spool = recorder.python(code, **STAMPS).spool
    (_, inner), (_, outer) = bindings(spool)
    # The parent's begin, the child's two, the parent's end.
    assert list(stamps(spool)["object"]) == [outer, inner, inner, outer]


def test_a_capture_over_two_streams(recorder: Any) -> None:
    code = (
        GRAPH
        + """
side = stream(); fork, join = c_void_p(0x100), c_void_p(0x200)
check(cuda.cuStreamBeginCapture_v2(s, 0))
launch(s); check(cuda.cuEventRecord(fork, s)); check(cuda.cuStreamWaitEvent(side, fork, 0))
launch(side); launch(s); check(cuda.cuEventRecord(join, side)); check(cuda.cuStreamWaitEvent(s, join, 0))
g = end_capture(s); check(cuda.cuGraphLaunch(instantiate(g), s)); print(nodes(g))
"""
    )
    recording = recorder.python(code, **STAMPS)
    assert recording.code == 0, recording.err
    assert len(stamps(recording.spool)) == 2
    assert int(recording.out) == 3 + 2
    captured = [bool(r["flags"] & Flag.CAPTURED) for r in recording.spool.named("cuLaunchKernel")]
    assert captured == [True] * 3


def test_a_stream_that_was_not_joined_fails_as_without_us(recorder: Any) -> None:
    code = (
        GRAPH
        + """
side = stream(); fork = c_void_p(0x100); graph = c_void_p()
check(cuda.cuStreamBeginCapture_v2(s, 0))
launch(s); check(cuda.cuEventRecord(fork, s)); check(cuda.cuStreamWaitEvent(side, fork, 0)); launch(side)
print(cuda.cuStreamEndCapture(s, byref(graph)), graph.value)
"""
    )
    expected = recorder.python(code).out
    recording = recorder.python(code, **STAMPS)
    assert recording.out == expected == "904 None\n"
    assert recording.spools[-1].states()["stamps.captures_skipped"] == ("left alone", 1)


def test_a_broken_capture_fails_as_without_us(recorder: Any) -> None:
    code = (
        GRAPH
        + """
graph = c_void_p()
check(cuda.cuStreamBeginCapture_v2(s, 0)); launch(s)
print(cuda.cuStreamSynchronize(s), cuda.cuStreamEndCapture(s, byref(graph)), graph.value)
e = instantiate(captured(2)); check(cuda.cuGraphLaunch(e, s))
"""
    )
    recording = recorder.python(code, **STAMPS)
    assert recording.out == "900 901 None\n"
    assert len(stamps(recording.spool)) == 2


def test_a_capture_of_nothing_stays_empty(recorder: Any) -> None:
    recording = recorder.python(GRAPH + "print(nodes(captured(0)))", **STAMPS)
    assert recording.out == "0\n"


def test_a_capture_without_a_context_is_left_alone(recorder: Any) -> None:
    code = """
check(cuda.cuInit(0)); s = c_void_p(2)
check(cuda.cuStreamBeginCapture_v2(s, 0)); launch(s); graph = end_capture(s)
print(graph.value is not None)
"""
    recording = recorder.python(code, **STAMPS)
    assert recording.code == 0, recording.err
    assert recording.out == "True\n"


def test_captures_of_several_threads_at_once(recorder: Any) -> None:
    code = (
        GRAPH
        + """
def work():
    start(); mine = stream(); barrier.wait()
    for _ in range(20): check(cuda.cuGraphLaunch(instantiate(captured(4, mine, 2)), mine))
barrier = threading.Barrier(4)
threads = [threading.Thread(target=work) for _ in range(4)]
captured(1)
for t in threads: t.start()
for t in threads: t.join()
"""
    )
    recording = recorder.python(code, **STAMPS)
    assert recording.code == 0
    assert recording.err == ""
    found = Counter(int(t) for t in stamps(recording.spool)["object"])
    assert len(found) == 80
    assert set(found.values()) == {2}


EAGER = """
start(); s = stream()
for _ in range(32):
    for _ in range(10): launch(s)
    check(cuda.cuStreamSynchronize(s))
"""


@pytest.mark.parametrize(("every", "sampled"), [(1, 31), (8, 4)])
def test_eager_steps_are_sampled(recorder: Any, every: int, sampled: int) -> None:
    spool = recorder.python(EAGER, CCTRACE_STAMP_EVERY=str(every), **STAMPS).spool
    found = stamps(spool, eager=True)
    ends = [bool(r["flags"] & Flag.STAMP_END) for r in found]
    assert ends == [False, True] * (len(found) // 2)
    assert abs(len(found) // 2 - sampled) <= 1
    tags = found["object"].reshape(-1, 2)
    assert (tags[:, 0] == tags[:, 1]).all()
    assert len(spool.named("cuLaunchKernel")) == 320


def test_eager_stamps_follow_step_marks(recorder: Any) -> None:
    code = """
library = ctypes.CDLL(os.environ["CCTRACE_LIBRARY"]); start(); s = stream(); launch(s)
for i in range(10):
    library.cctrace_step_begin(b"decode")
    launch(s); check(cuda.cuStreamSynchronize(s)); launch(s)
    library.cctrace_step_end()
"""
    spool = recorder.python(code, CCTRACE_STAMP_EVERY="1", **STAMPS).spool
    marks = spool.named("decode", Kind.MARK)
    assert len(marks) == 10
    assert (marks["flags"] == Flag.STEP_MARK).all()
    assert len(stamps(spool, eager=True)) == 20


def test_a_stream_that_is_gone_is_not_stamped(recorder: Any) -> None:
    code = """
start()
for _ in range(10):
    s, other = stream(), stream()
    launch(s); check(cuda.cuStreamDestroy_v2(s)); check(cuda.cuStreamSynchronize(other))
print("fine")
"""
    recording = recorder.python(code, CCTRACE_STAMP_EVERY="1", **STAMPS)
    assert (recording.code, recording.out) == (0, "fine\n"), recording.err


def test_an_eager_step_that_ends_in_a_capture_stays_out_of_the_graph(recorder: Any) -> None:
    code = (
        GRAPH
        + """
other = stream()
check(cuda.cuStreamSynchronize(other)); launch(s)
check(cuda.cuStreamBeginCapture_v2(s, 2)); launch(s); check(cuda.cuStreamSynchronize(other)); launch(s)
g = end_capture(s); print(nodes(g))
for _ in range(3): check(cuda.cuGraphLaunch(instantiate(g), s))
"""
    )
    recording = recorder.python(code, CCTRACE_STAMP_EVERY="1", **STAMPS)
    assert recording.code == 0, recording.err
    assert int(recording.out) == 4
    assert len(stamps(recording.spool, eager=True)) <= 2


def test_stamps_are_on_disk_after_sigkill(recorder: Any) -> None:
    code = (
        GRAPH
        + """
e = instantiate(captured(2))
for _ in range(50): check(cuda.cuGraphLaunch(e, s))
ctypes.CDLL(os.environ["CCTRACE_LIBRARY"]).cctrace_flush(); os.kill(os.getpid(), 9)
"""
    )
    spool = recorder.python(code, **STAMPS).spool
    assert len(stamps(spool)) == 100


def test_an_overrun_ring_is_counted(recorder: Any) -> None:
    code = GRAPH + "e = instantiate(captured(1))\nfor _ in range(70000): cuda.cuGraphLaunch(e, s)"
    spool = recorder.python(code, **STAMPS).spool
    assert len(stamps(spool)) + spool.losses().get("stamp ring overrun", 0) == 140000
