from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from trace_builder import Load, build

from cctrace.analyzers.calls import Calls, calls_from
from cctrace.analyzers.inference import Anchor, NoAnchor, find_anchor
from cctrace.analyzers.marks import marks_from
from cctrace.analyzers.scope import scope_of
from cctrace.analyzers.startup import first_step_ns
from cctrace.analyzers.steps import NoSteps, Steps, find_steps

DATA = Path(__file__).parent / "data"

# Call sequences of vLLM 0.26 decoding on one H200, recorded through the driver API. Submissions and graph
# launches per decode step were counted from the windows in which the client saw all requests decode.
VLLM = {
    "vllm_eager": (426, 0),
    "vllm_piecewise": (144, 29),
    "vllm_full_graph": (34, 1),
    "vllm_full_graph_sync": (35, 1),
    "vllm_full_graph_v2": (26, 1),
    "vllm_start_up": (34, 1),
}


def steps_of(calls: Calls) -> Steps:
    found = find_steps(calls, marks_from(pq.read_table(DATA / "vllm_eager.parquet").slice(0, 0)))
    assert not isinstance(found, NoSteps), found
    return found


@pytest.mark.parametrize("kernel_names", [True, False])
@pytest.mark.parametrize("name", VLLM)
def test_vllm_steps_are_found_without_marks(name: str, kernel_names: bool) -> None:
    table = pq.read_table(DATA / f"{name}.parquet")
    calls = calls_from(table if kernel_names else table.drop_columns(["kernel"]))
    work, graphs = VLLM[name]

    steps = steps_of(calls)

    scope = scope_of(calls, steps, steps.main_class)
    assert np.median(np.bincount(scope.step[scope.calls.is_work], minlength=scope.steps)) == work
    launches = scope.calls.is_work & scope.calls.is_operation("graph")
    assert scope.per_step(int(launches.sum())) == pytest.approx(graphs, abs=0.01)
    assert steps.confidence is not None
    assert steps.confidence > 0.95


def test_a_cut_graph_is_not_taken_for_29_steps() -> None:
    calls = calls_from(pq.read_table(DATA / "vllm_piecewise.parquet"))
    graph_launches = int((calls.is_work & calls.is_operation("graph")).sum())

    steps = steps_of(calls)

    assert len(steps) == pytest.approx(graph_launches / 29, rel=0.03)


def test_start_up_of_vllm_is_no_step() -> None:
    calls = calls_from(pq.read_table(DATA / "vllm_start_up.parquet"))
    last_capture = calls.start_ns[calls.is_operation("capture-end")].max()

    steps = steps_of(calls)

    first = first_step_ns(steps)
    assert first is not None
    assert first > last_capture
    main = steps.steady_of(steps.main_class)
    assert (steps.start_ns[main] > last_capture).all()


@pytest.mark.parametrize("kernel_names", [True, False])
def test_a_short_run_is_not_outvoted_by_the_loading_of_weights(kernel_names: bool) -> None:
    """A whole run of vLLM: 225 copies of weights, each with its synchronization, and 70 decode steps."""
    table = pq.read_table(DATA / "vllm_short_run.parquet")
    calls = calls_from(table if kernel_names else table.drop_columns(["kernel"]))

    steps = steps_of(calls)

    scope = scope_of(calls, steps, steps.main_class)
    assert np.median(np.bincount(scope.step[scope.calls.is_work], minlength=scope.steps)) == 34
    assert scope.steps > 60


@pytest.mark.parametrize("readback", ["sync", "overlap", "worker"])
@pytest.mark.parametrize("execution", ["eager", "graph", "piecewise"])
@pytest.mark.parametrize(
    "load",
    [
        Load(),
        Load(kernel_names=False, prefill_every=10),
        Load(start_up=True, pause_after=20, extra_share=0.1),
    ],
    ids=["plain", "prefill", "start-up"],
)
def test_synthetic_steps_are_found(load: Load, execution: str, readback: str) -> None:
    load = replace(load, execution=execution, readback=readback)
    built = build(load)
    calls = calls_from(built.table)

    steps = steps_of(calls)

    scope = scope_of(calls, steps, steps.main_class)
    found = scope.per_step(int(scope.calls.is_work.sum()))
    assert found == pytest.approx(built.work[built.decode].mean(), abs=0.2)
    assert scope.steps > 0.7 * load.steps
    true_period = np.median(np.diff(built.step_ns)[built.decode[:-1]])
    assert np.median(scope.period_ns) == pytest.approx(true_period, rel=0.03)


@pytest.mark.parametrize("count", [30, 200])
def test_calls_in_random_order_are_no_steps(count: int) -> None:
    built = build(Load(execution="eager", steps=count))
    calls = calls_from(built.table)
    shuffled = np.random.default_rng(3).permutation(len(calls))
    mixed = calls.pick(shuffled)
    in_time = replace(mixed, start_ns=calls.start_ns)

    found = find_anchor(in_time, np.sort(in_time.start_ns[in_time.is_host_boundary]))

    assert isinstance(found, NoAnchor)
    assert "followed by the same calls in only" in found.reason


def test_launches_without_read_back_are_no_steps() -> None:
    calls = calls_from(build(Load(execution="piecewise", steps=30)).table)
    launches = calls.pick(calls.is_operation("kernel", "graph"))

    found = find_anchor(launches, np.zeros(0, np.int64))

    assert isinstance(found, NoAnchor)
    assert "a copy to the host or a synchronization" in found.reason


def test_too_few_calls_are_no_steps() -> None:
    calls = calls_from(build(Load(execution="graph", steps=1)).table)

    found = find_anchor(calls.pick(slice(0, 5)), np.zeros(0, np.int64))

    assert isinstance(found, NoAnchor)


def test_the_anchor_begins_every_step_of_a_pure_loop() -> None:
    built = build(Load(execution="graph", readback="overlap", steps=50))
    calls = calls_from(built.table)

    found = find_anchor(calls, np.sort(calls.start_ns[calls.is_host_boundary]))

    assert isinstance(found, Anchor)
    assert found.description == "copy d2h"
    assert len(found.start_ns) == 50
    assert found.self_shift > 0.95
