"""NVTX ranges become marks, without CUPTI: a C++ program that uses every call, and the nvtx package."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

import pytest

from cctrace.collectors.record.control import CONTROL_MAGIC, CONTROL_NAME, FIELDS
from cctrace.collectors.spool.layout import Flag, Kind

OUTSIDE = ["begun first"]
DEFAULT = [
    *("outer", "inner µ €", "innermost", "started", "started wide", "started by event"),
    *("moment", "moment wide", "moment by event", "default beside it", *["step[DECODE bs=16]"] * 3),
]
ENGINE = ["registered", "registered wide", "domain range", "domain range", ""]
CONTROL = "<" + "".join(code for _, code in FIELDS)


def marks(spool: Any) -> Counter[tuple[str, str]]:
    """Domain and label of every mark."""
    return Counter((spool.texts[int(m["link"])], spool.name(m)) for m in spool.of(Kind.MARK))


def test_every_call_becomes_a_mark(recorder: Any) -> None:
    recording = recorder.run([recorder.built.app("nvtx_ranges"), "before"])
    assert recording.code == 0
    # As NVTX lays down: the depth of the range that is begun or ended, counted from 0.
    assert recording.out == "depths 1 2 3 3 2 1 1\n"
    assert marks(recording.spool) == Counter(
        [("", t) for t in OUTSIDE + DEFAULT] + [("engine", t) for t in ENGINE]
    )
    found = recording.spool.of(Kind.MARK)
    assert (found["flags"] == Flag.NVTX).all()
    assert (found["end_ns"] >= found["start_ns"]).all()


def test_ranges_nest(recorder: Any) -> None:
    spool = recorder.run([recorder.built.app("nvtx_ranges"), "before"]).spool
    outer, inner, innermost = (spool.named(n, Kind.MARK)[0] for n in ("outer", "inner µ €", "innermost"))
    assert outer["start_ns"] <= inner["start_ns"] <= innermost["start_ns"]
    assert innermost["end_ns"] <= inner["end_ns"] <= outer["end_ns"]
    moment = spool.named("moment", Kind.MARK)[0]
    assert moment["start_ns"] == moment["end_ns"]


def test_a_range_that_ends_on_another_thread_belongs_to_the_first(recorder: Any) -> None:
    spool = recorder.run([recorder.built.app("nvtx_ranges"), "before"]).spool
    assert set(spool.of(Kind.MARK)["tid"]) == {spool.pid}


def test_ranges_from_before_the_recording_are_dropped(recorder: Any) -> None:
    spool = recorder.run([recorder.built.app("nvtx_ranges"), "inside"]).spool
    labels = [label for _, label in marks(spool).elements()]
    assert "begun first" not in labels
    assert "outer" in labels


def test_nvtx_alone_starts_no_recording(recorder: Any) -> None:
    recording = recorder.run([recorder.built.app("nvtx_ranges"), "never"])
    assert recording.code == 0
    assert recording.err == ""
    assert recording.spools == []


def test_without_a_spool_nothing_happens(recorder: Any) -> None:
    recording = recorder.run([recorder.built.app("nvtx_ranges"), "before"], CCTRACE_SPOOL="")
    assert recording.code == 0
    assert recording.spools == []


def control(recorder: Any, steps: int) -> Any:
    """A control page that stops after so many steps."""
    page = recorder.folder / CONTROL_NAME
    page.write_bytes(struct.pack(CONTROL, CONTROL_MAGIC, 0, 0, 0, steps, 0, 0, 0).ljust(4096, b"\0"))
    return page


@pytest.mark.parametrize(("pattern", "expected"), [("step[[]*", 3), ("none*;outer;step*", 4), ("other", 0)])
def test_ranges_that_match_count_as_steps(recorder: Any, pattern: str, expected: int) -> None:
    page = control(recorder, 0)
    recording = recorder.run([recorder.built.app("nvtx_ranges"), "before"], CCTRACE_STEP_PATTERN=pattern)
    steps_seen = struct.unpack_from(CONTROL, page.read_bytes())[5]
    assert steps_seen == expected
    assert not (recording.spool.of(Kind.MARK)["flags"] & Flag.STEP_MARK).any()


def test_the_step_limit_stops_the_recording(recorder: Any) -> None:
    pytest.importorskip("nvtx")
    page = control(recorder, 2)
    code = """
import nvtx
start(); launch()
for i in range(50):
    with nvtx.annotate("step"): launch()
    time.sleep(0.005)
"""
    recording = recorder.python(code, CCTRACE_STEP_PATTERN="step")
    assert recording.code == 0
    assert struct.unpack_from(CONTROL, page.read_bytes())[1] == 1
    assert 2 <= len(recording.spool.named("step", Kind.MARK)) < 50


def test_the_nvtx_package(recorder: Any) -> None:
    pytest.importorskip("nvtx")
    code = """
import nvtx
start(); launch()
domain = nvtx.get_domain("scheduler")
with nvtx.annotate("plain"):
    with nvtx.annotate("inside", domain="engine"):
        launch()
@nvtx.annotate("decorated", color="green")
def work(): launch()
work()
nvtx.push_range("pushed"); nvtx.pop_range()
r = nvtx.start_range("process range"); nvtx.end_range(r)
nvtx.mark("moment")
a = domain.get_event_attributes(message="step[PREFILL bs=1]")
domain.push_range(a); domain.pop_range()
"""
    recording = recorder.python(code)
    assert recording.code == 0, recording.err
    labels = {label for _, label in marks(recording.spool)}
    assert labels == {
        "plain",
        "inside",
        "decorated",
        "pushed",
        "process range",
        "moment",
        "step[PREFILL bs=1]",
    }
    domains = {label: domain for domain, label in marks(recording.spool)}
    assert domains["inside"] == "engine"
    assert domains["step[PREFILL bs=1]"] == "scheduler"


def test_ranges_of_many_threads(recorder: Any) -> None:
    pytest.importorskip("nvtx")
    code = """
import nvtx
start(); launch()
def work(i):
    for k in range(50):
        with nvtx.annotate(f"thread {i}"), nvtx.annotate("common"): pass
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
"""
    spool = recorder.python(code).spool
    count = marks(spool)
    assert count["", "common"] + count["NVTX", "common"] == 400
    for i in range(8):
        own = spool.named(f"thread {i}", Kind.MARK)
        assert len(own) == 50
        assert len(set(own["tid"])) == 1


def test_a_child_forked_before_cuda_records_its_own_ranges(recorder: Any) -> None:
    pytest.importorskip("nvtx")
    code = """
import nvtx
with nvtx.annotate("outer"):
    child = os.fork()
    start(); launch()
    with nvtx.annotate("child" if child == 0 else "parent"): launch()
if child: os.waitpid(child, 0); print(child)
"""
    recording = recorder.python(code)
    child = recording.of_pid(int(recording.out.split()[-1]))
    (parent,) = (s for s in recording.spools if s is not child)
    assert [label for _, label in marks(child)] == ["child"]
    assert [label for _, label in marks(parent)] == ["parent"]
