from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import EAGER, LAUNCH, TOLL, diff_of, secure
from trace_builder import Costs, Load, Tolls

from cctrace.analyzers.noise import NOISE_FLOOR
from cctrace.trace import Collector, Emulation


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


def test_emulation_stands_for_cc_and_is_labelled() -> None:
    emulated = replace(secure("off"), emulation=Emulation(profile="b200-tdx", causes=("launch",)))

    diff = diff_of(EAGER, replace(EAGER, tolls=LAUNCH), on_metadata=emulated)

    assert diff.headline.startswith("Emulated b200-tdx (launch): +")
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
