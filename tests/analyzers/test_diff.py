import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_builder import WORKER, Built, Costs, Load, Tolls, build

from cctrace.analyzers.calls import calls_from
from cctrace.analyzers.diff import Diff, compare
from cctrace.analyzers.gpu import gpu_rows_from
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.marks import marks_from
from cctrace.analyzers.noise import NOISE_FLOOR
from cctrace.errors import UnusableInputError
from cctrace.trace import Acceptance, Collector, Emulation, Metadata
from cctrace.trace.acceptance import Load as LoadFields
from cctrace.trace.acceptance import Security
from cctrace.trace.metadata import Recording as RecordingFields

# The published eager step: 181 kernels, 3.45 µs to submit one, about 12 µs more with CC.
EAGER = Load(
    layers=36,
    kernels_per_layer=5,
    sampling_kernels=1,
    input_copies=1,
    host_us=200.0,
    gap_us=8.0,
    steps=60,
    costs=Costs(kernel=3.45, gpu_kernel=3.0),
)
TOLL = 12.25
LAUNCH = Tolls(kernel=TOLL, graph=TOLL, copy=TOLL, memset=TOLL, event=TOLL)


def recording(built: Built, name: str, metadata: Metadata) -> Recording:
    table = built.table
    return Recording(name, metadata, calls_from(table), marks_from(table), gpu_rows_from(table))


def secure(cc_mode: str | None) -> Metadata:
    return Metadata(acceptance=Acceptance(security=Security(cc_mode=cc_mode)))


def diff_of(
    off: Load, on: Load, on_metadata: Metadata | None = None, off_metadata: Metadata | None = None
) -> Diff:
    return compare(
        recording(build(replace(on, seed=on.seed + 1)), "on", on_metadata or secure("on")),
        recording(build(off), "off", off_metadata or secure("off")),
    )


@pytest.mark.parametrize(
    ("execution", "toll"), [("eager", 12.25), ("eager", 40.0), ("graph", 5.0), ("piecewise", 12.25)]
)
def test_the_injected_toll_is_found_within_five_percent(execution: str, toll: float) -> None:
    tolls = Tolls(kernel=toll, graph=toll, copy=toll, memset=toll, event=toll)
    load = replace(EAGER, execution=execution)

    diff = diff_of(load, replace(load, tolls=tolls))

    assert diff.account is not None
    found = {one.category: one.toll_us for one in diff.account.tolls}
    wanted = {"kernel", "copy h2d", "copy d2h", "memset", "event-record"}
    assert wanted | ({"graph"} if execution != "eager" else set()) == set(found)
    for toll_us in found.values():
        assert toll_us == pytest.approx(toll, rel=0.05)


def test_tolls_that_differ_by_category_are_kept_apart() -> None:
    tolls = Tolls(kernel=12.25, graph=20.0, copy=5.0, memset=1.0, event=0.0)
    load = replace(EAGER, execution="piecewise", noise=0.0)

    diff = diff_of(load, replace(load, tolls=tolls))

    assert diff.account is not None
    found = {one.category: one.toll_us for one in diff.account.tolls}
    assert found == pytest.approx(
        {
            "kernel": 12.25,
            "graph": 20.0,
            "copy h2d": 5.0,
            "copy d2h": 5.0,
            "memset": 1.0,
            "event-record": 0.0,
        },
        abs=0.002,
    )


def test_a_host_bound_step_grows_by_count_times_toll() -> None:
    diff = diff_of(EAGER, replace(EAGER, tolls=LAUNCH))

    submissions = 181 + 1 + 1 + 1 + 1
    assert diff.delta_us_per_step == pytest.approx(submissions * TOLL, rel=0.01)
    assert diff.account is not None
    assert diff.account.toll_us_per_step == pytest.approx(submissions * TOLL, rel=0.01)
    assert abs(diff.account.unexplained.total_us_per_step) < 0.01 * diff.off.period_us
    assert diff.step_growth == pytest.approx(diff.on.period_us / diff.off.period_us - 1)
    assert diff.throughput_loss == pytest.approx(1 - diff.off.period_us / diff.on.period_us)
    assert any("host-bound" in statement for statement in diff.statements)
    assert diff.statements[0].startswith("Launch toll: 184 submissions a step × +12.")


def test_a_full_graph_hides_all_but_a_few_submissions() -> None:
    eager = diff_of(EAGER, replace(EAGER, tolls=LAUNCH))
    graph_load = replace(EAGER, execution="graph", costs=Costs(gpu_kernel=12.0))
    graph = diff_of(graph_load, replace(graph_load, tolls=LAUNCH))

    assert eager.ratio > 1.8
    assert graph.ratio < 1.05
    assert graph.within_noise
    assert graph.account is not None
    assert graph.account.toll_us_per_step == pytest.approx(6 * TOLL, rel=0.02)
    assert graph.account.wait_us_per_step < -2 * TOLL
    assert "within the noise" in graph.headline


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(["eager", "graph", "piecewise"]),
    st.sampled_from(["sync", "overlap", "worker"]),
    st.floats(0, 30),
    st.booleans(),
    st.integers(0, 1000),
)
def test_the_account_adds_up_to_the_difference(
    execution: str, readback: str, toll: float, blocking: bool, seed: int
) -> None:
    tolls = Tolls(kernel=toll, graph=toll, copy=toll, memset=toll, event=toll, blocking=blocking)
    load = Load(execution=execution, readback=readback, steps=40, seed=seed, noise=0.1, extra_share=0.2)

    diff = diff_of(load, replace(load, tolls=tolls))

    account = diff.account
    assert account is not None
    rest = account.unexplained
    total = account.toll_us_per_step + account.wait_us_per_step + rest.total_us_per_step
    assert total == pytest.approx(diff.delta_us_per_step, abs=1e-6)
    parts = (
        rest.outside_calls_us_per_step,
        rest.dearer_calls_us_per_step,
        rest.other_counts_us_per_step,
        rest.other_calls_us_per_step,
    )
    assert sum(parts) == pytest.approx(rest.total_us_per_step, abs=1e-6)


@pytest.mark.parametrize(
    ("execution", "readback"), [("eager", "sync"), ("graph", "overlap"), ("piecewise", "worker")]
)
def test_a_null_pair_gives_nothing(execution: str, readback: str) -> None:
    load = Load(execution=execution, readback=readback, steps=60)

    diff = diff_of(load, load)

    assert diff.within_noise
    assert abs(diff.step_growth) < NOISE_FLOOR
    assert diff.account is not None
    assert abs(diff.account.toll_us_per_step) < 0.01 * diff.off.period_us
    assert all(abs(one.toll_us or 0.0) < 0.1 for one in diff.account.tolls)
    assert diff.call_differences.listed == ()


def test_what_kernels_alone_explain_is_said_where_others_pay_too() -> None:
    load = Load(execution="piecewise", layers=20, steps=40)

    diff = diff_of(load, replace(load, tolls=LAUNCH))

    assert any(one.startswith("Kernels alone: 24 kernels a step × +12.2 µs") for one in diff.statements)


def test_lost_overlap_shows_as_waiting_in_the_copy() -> None:
    load = Load(execution="graph", readback="overlap", steps=60, host_us=300.0)

    diff = diff_of(load, replace(load, tolls=Tolls(blocking=True)))

    assert diff.account is not None
    assert diff.account.wait_us_per_step == pytest.approx(diff.delta_us_per_step, rel=0.1)
    copy = diff.account.waits[0]
    assert (copy.category, copy.thread, copy.off_per_step, copy.on_per_step) == ("copy d2h", "step", 0.0, 1.0)
    read_back = next(one for one in diff.account.tolls if one.category == "copy d2h")
    assert read_back.toll_us is None
    assert read_back.cannot_tell_because == "every such call waited in the on arm"
    assert any("copy d2h holds the host up" in statement for statement in diff.statements)


def test_slower_host_code_is_unexplained_and_named() -> None:
    diff = diff_of(EAGER, replace(EAGER, gap_us=8.0 * 1.5))

    assert diff.account is not None
    rest = diff.account.unexplained
    assert rest.total_us_per_step == pytest.approx(diff.delta_us_per_step, rel=0.02)
    assert rest.outside_calls_us_per_step == pytest.approx(diff.delta_us_per_step, rel=0.02)
    assert any("unexplained: host code outside driver calls" in statement for statement in diff.statements)


def test_toll_of_a_worker_is_not_on_the_step() -> None:
    load = Load(execution="graph", readback="worker", steps=60, host_us=900.0)

    diff = diff_of(load, replace(load, tolls=Tolls(copy=20.0)))

    assert diff.account is not None
    copy = next(one for one in diff.account.tolls if one.category == "copy d2h")
    assert copy.raw_toll_us_per_step == 0
    assert copy.other_threads_raw_toll_us_per_step == pytest.approx(20.0, rel=0.05)


def test_swapped_arms_are_noticed() -> None:
    diff = diff_of(EAGER, EAGER, on_metadata=secure("off"), off_metadata=secure("on"))

    assert any("swapped" in warning for warning in diff.warnings)


def test_two_arms_without_cc_are_noticed() -> None:
    diff = diff_of(EAGER, EAGER, on_metadata=secure("off"), off_metadata=secure("off"))

    assert any("not CC's" in warning for warning in diff.warnings)


def test_emulation_stands_for_cc_and_is_labelled() -> None:
    emulated = replace(secure("off"), emulation=Emulation(profile="b200-tdx", causes=("launch",)))

    diff = diff_of(EAGER, replace(EAGER, tolls=LAUNCH), on_metadata=emulated)

    assert diff.headline.startswith("Emulated b200-tdx (launch): +")
    assert not any("swapped" in warning or "not CC's" in warning for warning in diff.warnings)
    assert diff.on.provenance.warnings == ("emulated",)


def test_gpu_rows_of_one_arm_only_are_noticed() -> None:
    load = replace(EAGER, execution="graph")

    diff = diff_of(load, replace(load, gpu_rows="stamps"))

    assert any("only the on arm has GPU rows" in warning for warning in diff.warnings)


def test_distorted_host_times_give_no_tolls() -> None:
    distorted = replace(secure("off"), collector=Collector(gpu_mode="nodes", timing="distorted"))

    diff = diff_of(EAGER, EAGER, off_metadata=distorted)

    assert diff.account is None
    assert diff.no_account_because is not None
    assert "distorted" in diff.no_account_because
    assert diff.statements == ()


def test_shares_are_not_invented() -> None:
    shares = diff_of(EAGER, replace(EAGER, tolls=LAUNCH)).shares.to_json()

    assert shares.pop("not_computed_because")
    assert set(shares.values()) == {None}


def test_different_work_is_compared_with_a_warning() -> None:
    diff = diff_of(replace(EAGER, execution="graph"), EAGER)

    assert diff.warnings[0].startswith("the arms' steps hold different work")
    assert not any("different speed" in warning for warning in diff.warnings)
    assert diff.call_differences.listed[0].call == "kernel"
    assert diff.classes == ()


def test_classes_are_compared_one_by_one() -> None:
    load = replace(EAGER, marks="decode", prefill_every=6, steps=60)

    diff = diff_of(load, replace(load, tolls=LAUNCH))

    assert [(one.phase, one.main) for one in diff.classes] == [("decode", True), ("prefill", False)]
    assert all(one.step_growth > 0.5 for one in diff.classes)


GPU_BOUND = Load(
    execution="graph",
    readback="worker",
    sampling_kernels=1,
    steps=60,
    costs=Costs(gpu_kernel=60.0),
    gpu_rows="stamps",
)


def test_host_bound_is_not_claimed_where_another_thread_waits_for_the_gpu() -> None:
    diff = diff_of(GPU_BOUND, replace(GPU_BOUND, tolls=LAUNCH))

    text = " ".join(diff.statements)
    assert "host-bound" not in text
    assert "Cannot tell how much toll shows in the step, because another thread of the off arm waits" in text
    assert "event-sync) for the GPU, and the GPU works 9" in text
    assert "toll of another thread" not in text
    assert "Host code includes waiting for other threads" in text or "unexplained" not in text
    assert not any("different speed" in warning for warning in diff.warnings)


def test_host_bound_is_not_claimed_where_the_gpu_is_always_busy() -> None:
    # The worker's rows are taken away: nobody is seen to wait, but the GPU is.
    def without_worker(load: Load) -> Recording:
        built = build(load)
        own = pc.fill_null(pc.not_equal(built.table["tid"], WORKER), fill_value=True)
        return recording(replace(built, table=built.table.filter(own)), f"{load.seed}", secure("off"))

    marked = replace(GPU_BOUND, marks="decode")
    diff = compare(without_worker(replace(marked, seed=5)), without_worker(marked))

    text = " ".join(diff.statements)
    assert "host-bound" not in text
    assert "Cannot tell how much toll shows in the step: the off arm's host waits 0.0 %" in text


def test_submissions_of_other_threads_are_not_multiplied() -> None:
    load = replace(GPU_BOUND, gpu_rows="none")

    diff = diff_of(load, replace(load, tolls=LAUNCH))

    own = load.input_copies + 1 + load.sampling_kernels + 1
    assert diff.statements[0].startswith(f"Launch toll: {own} submissions a step × +12.")
    assert any(one.startswith("1 call a step of another thread pays +12.") for one in diff.statements)


def test_mean_and_median_that_move_both_ways_are_noise() -> None:
    # Half of the steps a little faster, the others far slower: the mean grows, the median shrinks.
    off = replace(EAGER, noise=0.0, steps=100, marks="decode")
    on = replace(off, host_us=100.0, uneven_us=500.0)

    diff = diff_of(off, on)

    assert diff.step_growth > NOISE_FLOOR
    assert diff.on.period is not None
    assert diff.off.period is not None
    assert diff.on.period.median_us < diff.off.period.median_us
    assert diff.within_noise
    assert "within the noise" in diff.headline
    assert diff.noise_because is not None
    assert "but the median by −" in diff.noise_because
    assert any("the steps move both ways" in warning for warning in diff.warnings)


def test_host_code_of_different_speed_is_a_warning() -> None:
    slower = diff_of(EAGER, replace(EAGER, gap_us=8.0 * 1.5))
    same = diff_of(EAGER, replace(EAGER, tolls=LAUNCH))

    assert any("host code ran at different speed (" in warning for warning in slower.warnings)
    assert not any("different speed" in warning for warning in same.warnings)


def test_tolls_of_events_below_a_microsecond_are_not_a_statement() -> None:
    load = replace(EAGER, layers=0, sampling_kernels=1, steps=60, readback="overlap")
    tolls = Tolls(kernel=12.0, copy=12.0, memset=12.0, event=0.8)
    charged = Emulation(profile="x", causes=("launch",), values={"event_us": 5.0})
    free = Emulation(profile="x", causes=("launch",), values={"event_us": 0.0})

    def said(event_us: float, emulation: Emulation) -> bool:
        on = replace(load, tolls=replace(tolls, event=event_us))
        metadata = replace(secure("off"), emulation=emulation)
        return any(one.startswith("Events and") for one in diff_of(load, on, on_metadata=metadata).statements)

    assert not said(0.8, charged)
    assert said(5.0, charged)
    assert not said(5.0, free)


def test_longer_waiting_names_all_its_parts() -> None:
    load = Load(execution="graph", readback="overlap", steps=60, host_us=200.0)

    diff = diff_of(load, replace(load, tolls=Tolls(blocking=True)))

    text = " ".join(diff.statements)
    assert re.search(r"The host waits .* longer per step: copy d2h \+.*, event-sync −", text)
    assert "(off: never waits; on: waits" in text
    assert diff.account is not None
    listed = re.search(r"longer per step: (.*?)\.( |$)(?=[a-zA-Z])", text)
    assert listed is not None


def test_a_copy_without_a_counterpart_is_named() -> None:
    load = Load(execution="graph", readback="overlap", steps=60, costs=Costs(copy=12.0))

    diff = diff_of(load, replace(load, tolls=Tolls(blocking=True)))

    assert diff.account is not None
    copy = next(one for one in diff.account.tolls if one.category == "copy d2h")
    assert copy.off_per_step == pytest.approx(copy.on_per_step, abs=0.05)
    assert copy.counted_per_step == 0
    assert diff.account.unexplained.other_counts_us_per_step < -10


@pytest.mark.parametrize(
    ("off", "on", "cause"),
    [
        ("off", "on", "CC: "),
        ("off", "devtools", "CC: "),
        (None, "on", "CC: "),
        ("off", "off", "Difference: "),
        ("on", "off", "Difference: "),
        ("on", "on", "Difference: "),
        ("off", None, "Difference: "),
    ],
)
def test_the_headline_blames_cc_only_where_the_recordings_say_so(
    off: str | None, on: str | None, cause: str
) -> None:
    diff = diff_of(EAGER, EAGER, on_metadata=secure(on), off_metadata=secure(off))

    assert diff.headline.startswith(cause)


def test_one_file_compared_with_itself_is_no_difference_of_cc() -> None:
    one = recording(build(EAGER), "same", replace(secure("on"), emulation=Emulation(profile="x")))

    diff = compare(one, one)

    assert diff.headline.startswith("Difference: 0 µs")
    assert "−0.0" not in diff.headline
    assert "step growth 0.0 %, throughput loss 0.0 %" in diff.headline


def test_a_faster_on_arm_is_a_gain() -> None:
    diff = diff_of(replace(EAGER, tolls=LAUNCH), EAGER)

    assert diff.throughput_loss < 0
    assert re.search(r"step growth −\d+\.\d %, throughput gain \d+\.\d %", diff.headline)


def test_where_a_command_writes_its_results_is_no_difference() -> None:
    def made(*options: str) -> Metadata:
        command = ("serve.py", "--bench", *options, "--model", "8b")
        return replace(secure("off"), recording=RecordingFields(command=command))

    def listed(off: Metadata, on: Metadata) -> list[str]:
        fields = diff_of(EAGER, EAGER, on_metadata=on, off_metadata=off).field_differences
        return [one.name for one in fields if not one.expected]

    off = made("--result-filename", "/tmp/off.json")
    assert listed(off, made("--result-filename", "/tmp/on.json")) == []
    assert listed(made("--result-filename=/tmp/off.json"), off) == []
    assert listed(off, made("--result-filename", "/tmp/on.json", "--execution", "eager")) == [
        "recording.command"
    ]
    assert listed(made("--result-filename", "a", "b"), made("--result-filename", "a", "c")) == [
        "recording.command"
    ]


def test_other_differences_of_the_recordings_are_listed() -> None:
    off = replace(
        secure("off"), environment_variables={"VLLM_USE_V2_MODEL_RUNNER": "1", "CCTRACE_SPOOL": "/a"}
    )
    on_acceptance = Acceptance(security=Security(cc_mode="on"), load=LoadFields(concurrency=32))
    on = Metadata(acceptance=on_acceptance, environment_variables={"CCTRACE_SPOOL": "/b"})

    fields = diff_of(EAGER, EAGER, on_metadata=on, off_metadata=off).field_differences

    found = {one.name: (one.off, one.on, one.expected) for one in fields}
    assert found == {
        "security.cc_mode": ("off", "on", True),
        "load.concurrency": (None, "32", False),
        "environment_variables.VLLM_USE_V2_MODEL_RUNNER": ("1", None, False),
    }
    assert [one.expected for one in fields] == [False, False, True]


def test_kernels_that_one_arm_lacks_are_listed() -> None:
    off = build(replace(EAGER, steps=30))
    names = np.array(off.table["kernel"].to_pylist(), object)
    renamed = np.where(names == "layer_2", "other_attention", names)
    column = pa.array(renamed.tolist()).dictionary_encode()
    on = off.table.set_column(off.table.schema.get_field_index("kernel"), "kernel", column)

    diff = compare(
        recording(replace(off, table=on), "on", secure("on")), recording(off, "off", secure("off"))
    )

    listed = {one.call: (one.off_per_step, one.on_per_step) for one in diff.call_differences.listed}
    assert listed == {"kernel layer_2": (36.0, 0.0), "kernel other_attention": (0.0, 36.0)}
    assert diff.call_differences.kernel_names_known


def test_an_arm_without_steps_cannot_be_compared() -> None:
    built = build(replace(EAGER, steps=2))
    nothing = Recording(
        "empty.parquet",
        Metadata(),
        calls_from(built.table.slice(0, 0)),
        marks_from(built.table.slice(0, 0)),
        gpu_rows_from(built.table.slice(0, 0)),
    )

    with pytest.raises(
        UnusableInputError, match=r"empty\.parquet: cannot tell the steps, because no process"
    ):
        compare(recording(build(EAGER), "on", secure("on")), nothing)
