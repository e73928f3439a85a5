import numpy as np
import pytest
from converted import Convert
from spool_builder import SpoolBuilder

from cctrace.collectors.spool.labels import matches_any, step_classes
from cctrace.collectors.spool.layout import Operation

T = 10**12


def classes(*labels: str) -> list[str]:
    distinct, order = np.unique(np.array(labels, dtype=object), return_inverse=True)
    found = step_classes(distinct.tolist(), order)
    return [found[place] for place in order]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("_forward_step 17: 0 ctx reqs, 8 gen reqs", "_forward_step: 0 ctx reqs, 8 gen reqs"),
        ("step[DECODE bs=32]", "step[DECODE bs=32]"),
        ("execute_context_0(0)_generation_16(16)", "execute_context_0(0)_generation_16(16)"),
        ("decode bs=16", "decode bs=16"),
        ("iter=5 decode", "iter decode"),
        ("Step #12", "Step"),
        ("iteration_7", "iteration"),
        ("", ""),
    ],
)
def test_the_counter_of_a_label_is_not_part_of_its_class(label: str, expected: str) -> None:
    assert classes(label) == [expected]


def test_numbers_that_count_up_are_counters() -> None:
    found = classes(*(f"decode {i} bs=16" for i in range(100, 140)))
    assert set(found) == {"decode # bs=16"}


def test_batch_sizes_are_not_counters() -> None:
    sizes = [1, 2, 3, 4, 4, 4, 3, 2, 16, 16, 15, 15]
    assert classes(*(f"decode bs={n}" for n in sizes)) == [f"decode bs={n}" for n in sizes]


def test_two_kinds_of_steps_share_a_counter() -> None:
    labels = [f"{'prefill' if i % 10 == 0 else 'decode'} {i}" for i in range(100)]
    assert set(classes(*labels)) == {"prefill #", "decode #"}


def test_patterns() -> None:
    assert matches_any("step*;*_step *", "_forward_step 3")
    assert not matches_any("step*", "Step 1")
    assert not matches_any("", "step")


def test_hook_marks_are_steps_and_other_marks_are_ranges(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    for i in range(3):
        begin = T + i * 1000
        spool.mark("sampling", begin + 10, begin + 20)
        spool.mark(f"decode step {i}", begin, begin + 900, step=True, nvtx=False)
    converted = to_trace(spool)
    steps, ranges = converted.kind("step"), converted.kind("range")
    assert steps.step.tolist() == [0, 1, 2]
    assert steps.step_class.tolist() == ["decode step"] * 3
    assert steps.name.tolist() == ["decode step 0", "decode step 1", "decode step 2"]
    assert steps.source.tolist() == ["hook"] * 3
    assert ranges.source.tolist() == ["nvtx"] * 3
    assert ranges.step.isna().all()


def test_named_ranges_become_steps_where_the_hook_is_silent(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    for i in range(4):
        begin = T + i * 1000
        spool.mark("step inner", begin + 100, begin + 200, tid=1)  # inside, so no step of its own
        spool.mark(f"step {i}", begin, begin + 900, tid=1)
        spool.mark("hooked", begin, begin + 900, tid=2, step=True, nvtx=False)
        spool.mark(f"step {i}", begin + 1, begin + 899, tid=2)
    spool.mark("step instant", T + 9000, T + 9000, tid=1)
    converted = to_trace(spool, recording={"recording": {"step_pattern": "nothing;step *"}})
    by_thread = converted.kind("step").groupby("tid").name.apply(list)
    assert by_thread[1] == ["step 0", "step 1", "step 2", "step 3"]
    assert by_thread[2] == ["hooked"] * 4
    ranges = converted.kind("range")
    assert len(ranges) == 4 + 4 + 1 + 4  # a range that is a step is still a range


def test_the_pattern_may_come_from_the_environment(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    spool.mark("tick", T, T + 5)
    converted = to_trace(spool, recording={"environment_variables": {"CCTRACE_STEP_PATTERN": "tick"}})
    assert converted.kind("step").name.tolist() == ["tick"]


def test_roles_follow_from_steps_and_submissions(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    spool.mark("step", T, T + 10**6, tid=1, step=True)
    spool.call(Operation.KERNEL, T + 1, tid=1)
    spool.call(Operation.KERNEL, T + 2, tid=2)
    spool.call(Operation.COPY, T + 3, tid=3, copy_kind=2)
    spool.call(Operation.EVENT_SYNC, T + 4, tid=3)
    spool.call(Operation.EVENT_SYNC, T + 5, tid=4)
    converted = to_trace(spool)
    assert {lane.tid: lane.role for lane in converted.trace.lanes} == {
        1: "scheduler",
        2: "worker",
        3: "copy-worker",
        4: "other",
    }
    assert converted.frame.groupby("tid").role.first().tolist() == [
        "scheduler",
        "worker",
        "copy-worker",
        "other",
    ]


def test_without_steps_no_role_is_invented(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    spool.call(Operation.KERNEL, T)
    assert to_trace(spool).frame.role.isna().all()
