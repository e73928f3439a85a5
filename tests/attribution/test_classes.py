"""Which steps are compared with which."""

from dataclasses import replace

from simulator import OFF, ON, Load, Recorder, Run, simulate

from cctrace.analyzers.arms import Arm, arm_of
from cctrace.analyzers.attribution.classes import (
    LEAD_STEPS,
    MAX_STEPS,
    PASSAGE_STEPS,
    Passage,
    matched_classes,
    not_compared,
)
from cctrace.analyzers.calls import calls_from
from cctrace.analyzers.gpu import gpu_rows_from
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.marks import marks_from

SMALL = Load(kernels=6, kernel_us=20.0, schedule_us=60.0, process_us=40.0, prefill_kernels=12)


def arm(load: Load, steps: int, on: bool = False, seed: int = 1) -> Arm:
    run = Run(load, ON if on else OFF, steps=steps, seed=seed, recorder=Recorder(gpu="none"))
    trace = simulate(run).trace()
    table = trace.table
    recording = Recording("", trace.metadata, calls_from(table), marks_from(table), gpu_rows_from(table))
    return arm_of(recording)


def classes_of(one: Arm, passage: Passage, *, on: bool) -> list[str]:
    first = passage.on_first if on else passage.off_first
    names = [one.steps.classes[number].name for number in one.steps.class_of]
    return names[first : first + passage.steps]


def test_passages_pair_steps_that_follow_the_same_steps() -> None:
    load = replace(SMALL, prefill_every=7)
    off, on = arm(load, 90), arm(load, 70, on=True, seed=2)
    matched = matched_classes(off, on)
    assert {one.phase for one in matched} == {"decode", "prefill"}
    for one in matched:
        for passage in one.passages:
            off_names, on_names = classes_of(off, passage, on=False), classes_of(on, passage, on=True)
            assert off_names == on_names
            assert set(off_names[passage.lead :]) == {one.off_name}
            assert passage.lead == LEAD_STEPS


def test_no_step_counts_twice() -> None:
    off, on = arm(replace(SMALL, prefill_every=5), 120), arm(replace(SMALL, prefill_every=5), 120, on=True)
    for one in matched_classes(off, on):
        counted = [
            step
            for passage in one.passages
            for step in range(passage.off_first + passage.lead, passage.off_first + passage.steps)
        ]
        assert len(counted) == len(set(counted)) == one.counted


def test_of_a_long_run_steps_are_taken_from_all_of_it() -> None:
    off, on = arm(SMALL, 900), arm(SMALL, 900, on=True)
    (decode,) = matched_classes(off, on)
    assert MAX_STEPS - PASSAGE_STEPS <= decode.counted <= MAX_STEPS
    first = [passage.off_first for passage in decode.passages]
    assert min(first) < 100
    assert max(first) > 700


def test_the_first_steps_of_a_recording_lead_in_and_do_not_count() -> None:
    (decode,) = matched_classes(arm(SMALL, 30), arm(SMALL, 30, on=True))
    assert min(one.off_first + one.lead for one in decode.passages) >= LEAD_STEPS


def test_what_one_arm_lacks_is_named() -> None:
    off, on = arm(replace(SMALL, prefill_every=7), 60), arm(SMALL, 60, on=True)
    (line,) = not_compared(off, on, matched_classes(off, on))
    assert line == "8 steps of the off arm: prefill bs=1"
