import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_builder import Built, Costs, Load, Tolls, build

from cctrace.analyzers.calls import calls_from
from cctrace.analyzers.copies import size_bucket
from cctrace.analyzers.forms import BLOCK
from cctrace.analyzers.gpu import covered_ns, gpu_rows_from
from cctrace.analyzers.graphs import FRAGMENTED_LAUNCHES
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.marks import marks_from
from cctrace.analyzers.step_list import list_steps
from cctrace.analyzers.summary import StepsSummary, Summary, summarize
from cctrace.app.summary_view import gpu_line
from cctrace.trace import Collector, Emulation, Metadata, Process
from cctrace.trace.metadata import Recording as RecordingFields

EXACT = Load(marks="decode", noise=0.0, steps=40)


def recording(built: Built, metadata: Metadata | None = None) -> Recording:
    table = built.table
    return Recording(
        "x.parquet", metadata or Metadata(), calls_from(table), marks_from(table), gpu_rows_from(table)
    )


def summary_of(load: Load, metadata: Metadata | None = None) -> Summary:
    return summarize(recording(build(load), metadata))


def steps_of(load: Load, metadata: Metadata | None = None) -> StepsSummary:
    steps = summary_of(load, metadata).processes[0].steps
    assert steps is not None
    return steps


def by_category(steps: StepsSummary) -> dict[str, Any]:
    return {one.category: one for one in steps.submissions.categories}


@pytest.mark.parametrize("execution", ["eager", "graph", "piecewise"])
def test_submissions_per_step_are_exact(execution: str) -> None:
    load = replace(EXACT, execution=execution, readback="overlap")
    built = build(load)

    submissions = steps_of(load).submissions

    assert submissions.work_per_step == built.decode_work
    assert submissions.order_per_step == int(built.events[0]) == 3
    assert submissions.waits_per_step == pytest.approx(1, abs=0.03)  # the first step has nothing to wait for


def test_own_cost_is_the_cost_that_was_put_in() -> None:
    costs = Costs(kernel=3.45, copy=5.2, memset=2.5, event=1.25, graph=8.5)

    found = by_category(steps_of(replace(EXACT, execution="piecewise", costs=costs)))

    assert found["kernel"].own_cost_us == pytest.approx(3.45, abs=0.001)
    assert found["graph"].own_cost_us == pytest.approx(8.5, abs=0.001)
    assert found["copy h2d"].own_cost_us == pytest.approx(5.2, abs=0.001)
    assert found["memset"].own_cost_us == pytest.approx(2.5, abs=0.001)
    assert found["event-record"].own_cost_us == pytest.approx(1.25, abs=0.001)
    assert found["event-sync"].own_cost_us is None


def test_distorted_host_times_give_no_own_cost() -> None:
    distorted = Metadata(collector=Collector(gpu_mode="nodes", timing="distorted"))

    summary = summary_of(replace(EXACT, gpu_rows="nodes"), distorted)

    assert summary.processes[0].steps is not None
    assert {one.own_cost_us for one in summary.processes[0].steps.submissions.categories} == {None}
    assert "distorted" in summary.provenance.warnings
    assert any("own costs cannot be told" in note for note in summary.notes)


def test_the_time_line_of_a_step_adds_up() -> None:
    steps = steps_of(replace(EXACT, execution="graph", noise=0.05))
    main = next(one for one in steps.classes if one.main)
    assert main.period is not None

    in_calls = sum(one.in_call_us_per_step for one in steps.submissions.categories)

    assert in_calls + steps.outside_calls_us_per_step == pytest.approx(main.period.mean_us)


def test_a_copy_that_blocks_in_effect_is_a_stall() -> None:
    free = steps_of(replace(EXACT, execution="graph", readback="overlap"))
    blocking = steps_of(replace(EXACT, execution="graph", readback="overlap", tolls=Tolls(blocking=True)))

    assert free.stalls.copies_in_effect_per_step == 0
    assert blocking.stalls.copies_in_effect_per_step == 1
    line = blocking.stalls.lines[0]
    assert (line.category, line.why, line.thread) == ("copy d2h", "in effect", "step")
    assert line.us_per_step > 300
    assert by_category(blocking)["copy d2h"].waited == 39
    assert by_category(blocking)["copy d2h"].own_cost_us is None


def test_a_toll_is_not_taken_for_a_stall() -> None:
    tolls = Tolls(kernel=12.25, graph=12.25, copy=12.25, memset=12.25, event=12.25)

    steps = steps_of(replace(EXACT, execution="eager", tolls=tolls))

    assert steps.stalls.copies_in_effect_per_step == 0
    assert by_category(steps)["copy d2h"].own_cost_us == pytest.approx(3.5 + 12.25, abs=0.01)


def test_waiting_on_a_worker_is_not_the_steps_own() -> None:
    steps = steps_of(replace(EXACT, execution="eager", readback="worker"))

    assert {line.thread for line in steps.stalls.lines} == {"other"}
    assert steps.stalls.step_thread_us_per_step == 0
    assert by_category(steps)["copy d2h"].other_threads_per_step == pytest.approx(1, abs=0.05)


def test_the_headline_names_the_thread_that_waits() -> None:
    load = Load(execution="graph", readback="worker", steps=60, costs=Costs(gpu_kernel=16.0))

    summary = summary_of(load)

    steps = summary.processes[0].steps
    assert steps is not None
    assert steps.stalls.step_thread_us_per_step == 0
    assert steps.stalls.other_thread_category == "event-sync"
    period = steps.classes[0].period
    assert period is not None
    assert steps.stalls.other_thread_us_per_step > 0.5 * period.mean_us
    assert "the submitting thread waits 0.00 µs (0.0 %) for the GPU, another thread" in summary.headline
    assert summary.headline.endswith("in event-sync.")


def test_a_worker_that_hardly_waits_is_not_in_the_headline() -> None:
    summary = summary_of(Load(execution="graph", readback="worker", steps=60, host_us=9_000.0))

    assert "another thread" not in summary.headline


def test_copies_are_in_power_of_two_buckets() -> None:
    copies = steps_of(replace(EXACT, input_copies=3, batch=16)).copies

    found = [
        (one.direction, one.from_bytes, one.below_bytes, one.per_step, one.host_memory) for one in copies
    ]

    assert found == [
        ("h2d", 64, 128, 1.0, "pinned"),
        ("h2d", 128, 256, 1.0, "pinned"),
        ("h2d", 256, 512, 1.0, "pinned"),
        ("d2h", 64, 128, 1.0, "pinned"),
    ]


def test_size_buckets_have_exact_borders() -> None:
    sizes = np.array([-1, 0, 1, 2, 3, 4, 2**40 - 1, 2**40, 2**53 - 1])

    assert size_bucket(sizes).tolist() == [0, 0, 1, 2, 2, 3, 40, 41, 53]


@pytest.mark.parametrize(
    ("layers", "execution", "word"),
    [
        (1, "eager", "eager"),
        (1, "graph", "graph"),
        (FRAGMENTED_LAUNCHES - 1, "piecewise", "graph"),
        (28, "piecewise", "fragmented"),
    ],
)
def test_many_graph_launches_are_fragmented(layers: int, execution: str, word: str) -> None:
    graphs = steps_of(replace(EXACT, layers=layers, execution=execution)).graphs

    assert graphs.execution == word
    assert graphs.per_step == (layers if execution == "piecewise" else execution == "graph")


def test_gpu_busy_from_graph_stamps() -> None:
    load = replace(EXACT, execution="graph", gpu_rows="stamps", host_us=600.0)
    main = steps_of(load)
    assert main.gpu.source == "graph stamps"
    assert main.gpu.busy_us_per_step == pytest.approx(12 * 5 * 6.0)
    assert main.gpu.cannot_tell_because is None


def test_gpu_busy_from_kernels() -> None:
    load = replace(EXACT, execution="eager", gpu_rows="nodes", host_us=3000.0)

    gpu = steps_of(load).gpu

    assert gpu.source == "cupti"
    assert gpu.busy_us_per_step == pytest.approx(64 * 6.0 + 1.0)


def test_gpu_busy_from_eager_stamps_is_an_upper_bound() -> None:
    built = build(replace(EXACT, execution="graph", gpu_rows="stamps"))
    kinds = pa.array(["range" if kind == "graph" else kind for kind in built.table["kind"].to_pylist()])
    index = built.table.schema.get_field_index("kind")
    stamped = replace(built, table=built.table.set_column(index, "kind", kinds.dictionary_encode()))

    steps = summarize(recording(stamped)).processes[0].steps
    graphs = summarize(recording(built)).processes[0].steps

    assert steps is not None
    assert graphs is not None
    assert steps.gpu.upper_bound
    assert gpu_line(steps.gpu).startswith("GPU busy: ≤ ")
    assert "from eager stamps (an upper bound" in gpu_line(steps.gpu)
    assert not graphs.gpu.upper_bound
    assert "≤" not in gpu_line(graphs.gpu)
    assert "work outside of graphs is not seen" in gpu_line(graphs.gpu)


def test_gpu_busy_cannot_be_told_without_rows() -> None:
    gpu = steps_of(EXACT).gpu

    assert gpu.busy_share is None
    assert gpu.cannot_tell_because is not None
    assert "no GPU rows" in gpu.cannot_tell_because


def test_start_up_is_told_apart() -> None:
    built = build(replace(EXACT, execution="graph", start_up=True))
    image_start = int(built.table["start_ns"].to_numpy().min()) - 3_000_000_000
    metadata = Metadata(
        collector=Collector(
            processes=(Process(pid=4200, name="python", image_start_ns=image_start, records=9),)
        )
    )

    process = summarize(recording(built, metadata)).processes[0]

    start_up = process.start_up
    assert process.name == "python"
    assert start_up.image_to_first_submission_s == pytest.approx(3.0)
    assert start_up.image_to_first_step_s == pytest.approx((built.step_ns[0] - image_start) / 1e9)
    assert (start_up.h2d_copies, start_up.h2d_bytes) == (40, 40 * (8 << 20))
    assert start_up.h2d_in_call_s == pytest.approx(40 * 900e-6)
    assert start_up.graphs_captured == 3
    assert process.steps is not None
    assert process.steps.submissions.work_per_step == built.decode_work


def test_labels_of_the_recording_are_passed_on() -> None:
    emulated = Metadata(emulation=Emulation(profile="b200-tdx", causes=("launch",)), labels=("emulated",))

    provenance = summary_of(EXACT, emulated).provenance

    assert provenance.warnings == ("emulated",)
    assert provenance.emulated == "b200-tdx (launch)"


def test_an_empty_recording_says_so() -> None:
    nothing = build(replace(EXACT, steps=1)).table.slice(0, 0)
    empty = Recording("x", Metadata(), calls_from(nothing), marks_from(nothing), gpu_rows_from(nothing))

    assert "no host call" in summarize(empty).headline
    assert list_steps(empty, None).processes == ()


@pytest.mark.parametrize(
    ("window", "seconds", "wanted"),
    [
        (
            {"delay_s": 60.0},
            12,
            "because the run lasted 12.00 s and the window began after 60.00 s",
        ),
        ({"delay_s": 6.0}, 12, "was open from 6.00 s on (--delay); what"),
        (
            {"duration_s": 2.0, "ended_by": "duration"},
            12,
            "was open from the start, closed by duration; what",
        ),
        ({"delay_s": None, "ended_by": None}, 12, "the program never used the GPU while it was recorded"),
    ],
)
def test_no_rows_because_of_the_window_says_so(window: dict[str, Any], seconds: int, wanted: str) -> None:
    made = RecordingFields(start_ns=10**9, stop_ns=(1 + seconds) * 10**9, window=window)
    empty = replace(build(EXACT), table=build(EXACT).table.slice(0, 0))

    summary = summarize(recording(empty, Metadata(recording=made)))
    listed = list_steps(recording(empty, Metadata(recording=made)), None)

    assert wanted in summary.headline
    assert listed.headline == summary.headline


def test_hiccups_are_noted_and_not_called_a_pause() -> None:
    summary = summary_of(Load(marks="decode", execution="graph", steps=60, stall_after=20))

    steps = summary.processes[0].steps
    assert steps is not None
    assert steps.excluded == {"hiccup": 2}
    assert any(re.search(r"2 hiccups .* took \d+\.\d times longer", note) for note in summary.notes)


def test_the_step_list_is_exact_and_limited() -> None:
    built = build(replace(EXACT, execution="piecewise", prefill_every=10, noise=0.02))

    listed = list_steps(recording(built), 7)

    process = listed.processes[0]
    assert process.total_steps == len(built.step_ns) - 1
    assert [row.step for row in process.steps] == list(range(7))
    assert [row.work_submissions for row in process.steps] == built.work[:7].tolist()
    assert [row.period_us for row in process.steps] == pytest.approx(np.diff(built.step_ns)[:7] / 1e3)
    names = [process.classes[row.step_class].phase for row in process.steps]
    assert names == ["decode" if decode else "prefill" for decode in built.decode[:7]]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["sync", "overlap", "worker"]))
def test_the_order_of_rows_does_not_matter(seed: int, readback: str) -> None:
    built = build(
        Load(execution="piecewise", readback=readback, steps=15, layers=3, seed=seed % 97, gpu_rows="stamps")
    )
    order = np.random.default_rng(seed).permutation(built.table.num_rows)
    shuffled = replace(built, table=built.table.take(order))

    assert summarize(recording(shuffled)).to_json() == summarize(recording(built)).to_json()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12),
    st.lists(st.integers(0, 80), min_size=2, max_size=6, unique=True),
)
def test_covered_time_is_the_union(intervals: list[tuple[int, int]], borders: list[int]) -> None:
    begin = np.array([start for start, _ in intervals], np.int64)
    finish = begin + np.array([length for _, length in intervals], np.int64)
    edges = np.sort(np.array(borders, np.int64))

    found = covered_ns(begin, finish, edges[:-1], edges[1:])

    busy = {tick for start, length in intervals for tick in range(start, start + length)}
    expected = [len(busy & set(range(a, b))) for a, b in pairwise(edges)]
    assert found.tolist() == expected


@pytest.mark.parametrize("longest", [5, 400, 3_000_000])
def test_covered_time_of_many_intervals(longest: int) -> None:
    random = np.random.default_rng(longest)
    span = 4_000_000
    begin = np.sort(random.integers(0, span, 3 * BLOCK))
    finish = begin + np.where(random.random(len(begin)) < 1e-4, longest, random.integers(0, 8, len(begin)))
    edges = np.sort(random.integers(-100, span + 2 * longest, 5000))

    found = covered_ns(begin, finish, edges[:-1], edges[1:])

    change = np.zeros(int(finish.max()) + 1, np.int64)
    np.add.at(change, begin, 1)
    np.add.at(change, finish, -1)
    busy = np.concatenate(([0], np.cumsum(np.cumsum(change) > 0)))
    before = busy[np.clip(edges, 0, len(busy) - 1)]
    assert (found == np.diff(before)).all()


def test_gpu_rows_elsewhere_do_not_make_the_steps_idle() -> None:
    graphs = build(replace(EXACT, marks="", execution="graph", gpu_rows="stamps"))
    eager = build(replace(EXACT, marks="", execution="eager", start_ns=1_000_100_000_000, steps=60))
    both = replace(graphs, table=pa.concat_tables([graphs.table, eager.table]))

    steps = summarize(recording(both)).processes[0].steps

    assert steps is not None
    assert steps.graphs.execution == "eager"
    assert steps.gpu.busy_share is None
    assert steps.gpu.cannot_tell_because == "no GPU row lies within the steady steps"


def test_rows_of_cupti_mean_distorted_times_even_if_nobody_says_so() -> None:
    summary = summary_of(replace(EXACT, gpu_rows="nodes"))

    assert summary.provenance.warnings == ("distorted",)


def test_many_small_loops_are_not_called_decode() -> None:
    loops = [
        build(
            replace(
                EXACT,
                marks="",
                execution="eager",
                kernels_per_layer=size,
                layers=1,
                steps=30,
                start_ns=10**12 + 10**8 * size,
            )
        )
        for size in (1, 20, 60, 200)
    ]
    together = replace(loops[0], table=pa.concat_tables([one.table for one in loops]))

    summary = summarize(recording(together))

    steps = summary.processes[0].steps
    assert steps is not None
    assert {one.phase for one in steps.classes} == {"unknown"}
    assert summary.headline.startswith("A step takes")
