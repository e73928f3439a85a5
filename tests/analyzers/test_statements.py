"""What `cctrace diff` says about a pair, and what it must not say."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pairs import EAGER, LAUNCH, diff_of, recording, secure
from trace_builder import WORKER, Costs, Load, Tolls, build

from cctrace.analyzers.calls import calls_from
from cctrace.analyzers.diff import compare
from cctrace.analyzers.gpu import gpu_rows_from
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.marks import marks_from
from cctrace.analyzers.noise import NOISE_FLOOR
from cctrace.errors import UnusableInputError
from cctrace.trace import Acceptance, Emulation, Metadata
from cctrace.trace.acceptance import Load as LoadFields
from cctrace.trace.acceptance import Security
from cctrace.trace.metadata import Recording as RecordingFields

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
        "environment_variables.VLLM_USE_V2_MODEL_RUNNER": ("1", "not set", False),
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
