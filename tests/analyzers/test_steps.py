from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from trace_builder import Built, Load, build

from cctrace.analyzers.calls import Calls, calls_from
from cctrace.analyzers.marks import Marks, marks_from
from cctrace.analyzers.phases import phase_of
from cctrace.analyzers.steady import EXCLUSIONS, HICCUP, PAUSE, STEADY, WARM_UP, exclusions, warm_up_length
from cctrace.analyzers.steps import NoSteps, Steps, find_steps
from cctrace.analyzers.structure import STRETCHES, per_step


def found(built: Built) -> Steps:
    steps = find_steps(calls_from(built.table), marks_from(built.table))
    assert not isinstance(steps, NoSteps)
    return steps


def test_a_step_lasts_from_mark_to_mark() -> None:
    built = build(Load(marks="decode bs=16", steps=40))

    steps = found(built)

    assert steps.origin == "marks"
    assert steps.confidence is None
    assert steps.start_ns.tolist() == built.step_ns[:-1].tolist()
    assert steps.end_ns.tolist() == built.step_ns[1:].tolist()


@pytest.mark.parametrize("stretches", [0, 1, STRETCHES - 1, STRETCHES, 2 * STRETCHES + 1])
def test_sums_of_steps(stretches: int) -> None:
    random = np.random.default_rng(stretches)
    step = np.repeat(random.permutation(stretches) - 1, random.integers(1, 5, stretches)).astype(np.int32)
    values = random.integers(0, 1 << 30, len(step)).astype(np.int32)
    expected = np.zeros(stretches + 3, np.int64)
    np.add.at(expected, step[step >= 0], values[step >= 0])

    assert (per_step(step, values, len(expected)) == expected).all()


def test_labels_tell_phases_apart() -> None:
    built = build(Load(marks="decode bs=16", steps=40, prefill_every=8))

    steps = found(built)

    by_phase = {one.phase: int((steps.class_of == number).sum()) for number, one in enumerate(steps.classes)}
    assert by_phase == {"decode": 39, "prefill": 5}
    assert {one.phase_source for one in steps.classes} == {"label"}
    assert steps.classes[steps.main_class].phase == "decode"


def test_marks_without_a_phase_are_told_apart_by_structure() -> None:
    built = build(Load(marks="iteration", steps=60, prefill_every=10))

    steps = found(built)

    main = steps.classes[steps.main_class]
    assert (main.phase, main.phase_source) == ("decode", "structure")
    assert main.name.startswith("iteration: 69 submissions")
    assert int((steps.class_of == steps.main_class).sum()) == 59


def test_inferred_steps_agree_with_marks() -> None:
    load = Load(execution="graph", readback="overlap", steps=60, marks="decode")
    built = build(load)
    marked = found(built)
    inferred = find_steps(calls_from(built.table), marks_from(built.table.slice(0, 0)))

    assert isinstance(inferred, Steps)
    assert inferred.origin == "inferred"
    assert np.median(inferred.period_ns) == pytest.approx(np.median(marked.period_ns), rel=0.01)
    assert abs(len(inferred) - len(marked)) <= 1


def test_pauses_do_not_count() -> None:
    built = build(Load(marks="decode", steps=60, pause_after=20))

    steps = found(built)

    assert [EXCLUSIONS[code] for code in steps.exclusion[steps.exclusion != STEADY]] == ["pause", "pause"]
    assert steps.period_ns[steps.exclusion == STEADY].max() < 2 * np.median(steps.period_ns)


def test_slow_first_steps_are_warm_up() -> None:
    period = np.full(100, 1_000_000)
    period[:6] = 3_000_000

    none = np.zeros(100, np.bool_)
    reason = exclusions(np.zeros(100, np.int64), period, np.zeros(100, np.int64), none, none)

    assert (reason[:6] == WARM_UP).all()
    assert (reason[6:] == STEADY).all()


def test_a_warm_up_in_stages_is_left_out_as_a_whole() -> None:
    """Other programs leave the GPU one by one."""
    period = np.r_[np.full(9, 60_000), np.full(9, 12_000), np.full(7, 5_000), np.full(120, 1_500)]

    assert warm_up_length(period) == 25


def test_steps_between_the_turns_of_another_program_are_warm_up() -> None:
    period = np.full(200, 1_000)
    period[1:30:3] = 15_000
    period[120] = 15_000
    none, one_class = np.zeros(200, np.bool_), np.zeros(200, np.int64)

    reason = exclusions(one_class, period, np.zeros(200, np.int64), none, none)

    assert np.flatnonzero(reason == PAUSE).tolist() == [*range(1, 30, 3), 120]
    assert np.flatnonzero(reason == WARM_UP).tolist() == [n for n in range(29) if n % 3 != 1]


def test_a_slow_first_burst_is_warm_up() -> None:
    """The other programs of a measurement start while this one has its first round."""
    period = np.r_[np.full(30, 1_300), 900_000, np.full(60, 1_000), 900_000, np.full(60, 1_000)]
    none, one_class = np.zeros(len(period), np.bool_), np.zeros(len(period), np.int64)

    reason = exclusions(one_class, period, np.zeros(len(period), np.int64), none, none)

    assert np.flatnonzero(reason == WARM_UP).tolist() == list(range(30))
    assert np.flatnonzero(reason == PAUSE).tolist() == [30, 91]


@pytest.mark.parametrize(
    "period",
    [
        np.r_[np.full(30, 1_000), 900_000, np.full(120, 1_000)],  # as fast as the rest
        np.r_[np.full(60, 1_300), 900_000, np.full(60, 1_000)],  # half of the steps
    ],
    ids=["fast", "half"],
)
def test_other_first_bursts_count(period: np.ndarray) -> None:
    none, one_class = np.zeros(len(period), np.bool_), np.zeros(len(period), np.int64)

    reason = exclusions(one_class, period, np.zeros(len(period), np.int64), none, none)

    assert not (reason == WARM_UP).any()


@pytest.mark.parametrize(
    "period",
    [
        np.full(100, 10),
        np.r_[np.full(6, 10), np.full(94, 30)],  # the start is faster: no warm-up
        np.r_[np.full(50, 30), np.full(50, 10)],  # half of the steps are no warm-up
        np.r_[np.full(6, 11), np.full(94, 10)],  # hardly slower
        np.full(4, 10),
    ],
    ids=["flat", "faster", "half", "hardly", "few"],
)
def test_other_changes_are_no_warm_up(period: np.ndarray) -> None:
    assert warm_up_length(period) == 0


def test_steps_with_captures_and_rare_allocations_do_not_count() -> None:
    period = np.full(50, 1_000)
    allocates, captures = np.zeros(50, np.bool_), np.zeros(50, np.bool_)
    allocates[7], captures[9] = True, True

    nothing = np.zeros(50, np.int64)
    reason = exclusions(nothing, period, nothing, allocates, captures)

    assert np.flatnonzero(reason).tolist() == [7, 9]
    everywhere = exclusions(nothing, period, nothing, np.ones(50, np.bool_), captures)
    assert (everywhere == STEADY).sum() == 49


def test_a_pause_is_relative_to_its_own_class() -> None:
    class_of = np.r_[np.zeros(20, np.int64), np.ones(20, np.int64)]
    period = np.r_[np.full(20, 100), np.full(20, 10_000)]
    none = np.zeros(40, np.bool_)

    assert not (exclusions(class_of, period, np.zeros(40, np.int64), none, none) == PAUSE).any()


def test_a_long_step_is_a_pause_only_if_its_time_lies_outside_calls() -> None:
    period, inside = np.full(40, 1_700_000), np.full(40, 1_200_000)
    period[[10, 20, 30]] = 9_000_000
    inside[[10, 20]] = 8_200_000  # the calls took that long
    none, one_class = np.zeros(40, np.bool_), np.zeros(40, np.int64)

    reason = exclusions(one_class, period, inside, none, none)

    assert np.flatnonzero(reason == HICCUP).tolist() == [10, 20]
    assert np.flatnonzero(reason == PAUSE).tolist() == [30]


def test_marks_that_all_begin_at_once_give_no_steps() -> None:
    built = build(Load(marks="decode", steps=12))
    kinds = np.array(built.table["kind"].to_pylist(), object)
    start = np.array(built.table["start_ns"].to_pylist())
    start[kinds == "step"] = start[0]
    index = built.table.schema.get_field_index("start_ns")
    table = built.table.set_column(index, "start_ns", pa.array(start))

    steps = find_steps(calls_from(table), marks_from(table))

    assert isinstance(steps, NoSteps)
    assert steps.reason == "all its step marks begin at the same time"


def test_hiccups_say_how_much_longer_their_calls_took() -> None:
    built = build(Load(marks="decode", execution="graph", steps=60, noise=0.0, stall_after=20))

    steps = found(built)

    hiccups = steps.exclusion == HICCUP
    assert hiccups.sum() == 2
    factors = steps.hiccup_factors()
    assert np.isnan(factors[~hiccups]).all()
    steady = np.median(steps.inside_ns[steps.exclusion == STEADY])
    assert factors[hiccups] == pytest.approx((steady + 9e6) / steady, rel=0.05)


def test_a_second_loop_of_the_process_is_left_out() -> None:
    built = build(Load(marks="decode", steps=30))
    other = build(Load(marks="decode", steps=20, seed=9, start_ns=1_000_000_300_000))
    shifted = other.table.set_column(
        other.table.schema.get_field_index("tid"),
        "tid",
        pa.array(np.full(other.table.num_rows, 77, np.int32)),
    )
    both = pa.concat_tables([built.table, shifted])

    steps = find_steps(calls_from(both), marks_from(both))

    assert isinstance(steps, Steps)
    assert steps.other_loops == (77,)
    assert len(steps) == 29


def test_one_mark_is_no_step() -> None:
    built = build(Load(marks="decode", steps=1))

    steps = find_steps(calls_from(built.table).pick(slice(0, 3)), marks_from(built.table))

    assert isinstance(steps, NoSteps)


def test_no_work_is_no_step() -> None:
    table = build(Load(steps=5)).table
    waits = table.filter(pa.compute.equal(table["kind"].cast(pa.string()), "wait"))

    steps = find_steps(calls_from(waits), marks_from(waits))

    assert steps == NoSteps(4200, "it handed no work to the GPU")


def test_batches_are_classes_of_their_own() -> None:
    small = build(Load(execution="graph", steps=40, batch=1))
    large = build(replace(Load(execution="graph", steps=40, batch=64, seed=2), start_ns=1_000_100_000_000))
    both = pa.concat_tables([small.table, large.table])

    steps = find_steps(calls_from(both), marks_from(both))

    assert isinstance(steps, Steps)
    frequent = [one.name for number, one in enumerate(steps.classes) if (steps.class_of == number).sum() > 20]
    assert sorted(frequent) == [
        "10 submissions, 1 graph, 256 B read back",
        "10 submissions, 1 graph, 4 B read back",
    ]


@pytest.mark.parametrize(
    ("label", "phase"),
    [
        ("step[DECODE bs=32]", "decode"),
        ("step[EXTEND bs=2 toks=512]", "prefill"),
        ("execute_context_0(0)_generation_16(16)", "decode"),
        ("execute_context_2(300)_generation_16(16)", "mixed"),
        ("execute_context_2(300)_generation_0(0)", "prefill"),
        ("[Executor] _forward_step 7: 0 ctx reqs, 4 gen reqs", "decode"),
        ("[Executor] _forward_step 7: 1 ctx reqs, 90 ctx tokens, 4 gen reqs", "mixed"),
        ("decode bs=16", "decode"),
        ("Prefill 3", "prefill"),
        ("iteration", "unknown"),
        ("decoder", "unknown"),
    ],
)
def test_phases_of_labels(label: str, phase: str) -> None:
    assert phase_of(label) == phase


def test_marks_fall_back_to_the_name() -> None:
    built = build(Load(marks="decode", steps=3))
    without = built.table.drop_columns(["step_class"])

    marks: Marks = marks_from(without)

    assert [marks.labels[code] for code in marks.label] == ["decode"] * 3


def test_calls_of_unknown_operations_are_kept() -> None:
    table = build(Load(steps=2)).table
    foreign = table.set_column(
        table.schema.get_field_index("operation"), "operation", pa.array(["new-thing"] * table.num_rows)
    )

    calls: Calls = calls_from(foreign)

    assert len(calls) > 0
    assert not calls.is_work.any()


def test_a_busier_thread_without_a_loop_does_not_hide_the_steps() -> None:
    served = build(Load(execution="graph", steps=40))
    busy = build(Load(execution="eager", steps=1, prefill_every=1, prefill_kernels=900)).table
    loader = busy.filter(pc.equal(busy["operation"], "kernel"))
    loader = _filled(_filled(loader, "tid", 99), "kernel", "load")

    steps = find_steps(
        calls_from(pa.concat_tables([loader, served.table])), marks_from(served.table.slice(0, 0))
    )

    assert isinstance(steps, Steps)
    assert steps.tid == 4200
    assert len(steps) == 39


def _filled(table: pa.Table, name: str, value: Any) -> pa.Table:
    """The table with one value in all of a column."""
    place = table.schema.get_field_index(name)
    column = pa.array([value] * len(table))
    if isinstance(value, str):
        column = column.dictionary_encode()
    return table.set_column(place, name, column.cast(table.schema.field(name).type))


def test_labels_that_differ_in_every_step_do_not_make_a_class_each() -> None:
    built = build(Load(execution="graph", steps=200, marks="decode"))
    marks = marks_from(built.table)
    labels = tuple(f"execute_context_1({number})_generation_3(3)" for number in range(200))
    many = replace(marks, label=np.arange(200), labels=labels)

    steps = find_steps(calls_from(built.table), many)

    assert isinstance(steps, Steps)
    assert len(steps.classes) == 49
    assert {one.phase for one in steps.classes} == {"mixed"}
    assert "mixed, rare labels" in {one.name for one in steps.classes}
