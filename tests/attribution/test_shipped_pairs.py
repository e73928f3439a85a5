"""The shipped pairs: real runs, with tolls of 12.25 µs a submission charged to the on arm by the emulator.

The truth is what was charged. How fast the host ran is not part of it: these processes differ by up to a
factor of two, and that must not be put down to a cause.
"""

from functools import cache
from pathlib import Path

import pytest

from cctrace.analyzers.attribution.engine import attribute
from cctrace.analyzers.attribution.kernel_times import kernel_times_of
from cctrace.analyzers.attribution.result import CAUSES, Attribution, Breakdown, CauseShare
from cctrace.analyzers.loading import load
from cctrace.trace import open_trace

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
TOLL_US = 12.25
PAIRS = (
    "launch-181",
    "launch-eager",
    "launch-graph",
    *(
        f"server-{way}-{back}"
        for way in ("eager", "graph", "piecewise")
        for back in ("sync", "overlap", "worker")
    ),
    "vllm-0.6b-eager",
    "vllm-0.6b-piecewise",
    "vllm-8b-full",
)
EAGER = {
    # Host-bound steps: every submission of the submitting thread shows. pair → submissions a step
    "launch-181": 181,
    "launch-eager": 302,
    "server-eager-sync": 309,
    "server-eager-overlap": 310,
    "server-eager-worker": 310,
    "server-piecewise-worker": 92,
    "vllm-0.6b-eager": 426,
}


@cache
def attribution(pair: str) -> Attribution:
    on, off = (load(open_trace(SAMPLES / f"{pair}-{arm}.parquet")) for arm in ("emulated", "off"))
    return attribute(on, off)


def decode(pair: str) -> Breakdown:
    found = attribution(pair).phases.decode
    assert found is not None
    return found


def cause(part: Breakdown, name: str) -> CauseShare:
    assert part.shares is not None
    found: CauseShare = getattr(part.shares, name)
    return found


@pytest.mark.parametrize("pair", PAIRS)
def test_the_replay_reproduces_both_arms(pair: str) -> None:
    one = decode(pair)
    assert one.refused_because == ()
    assert one.model is not None
    assert one.model.worst_pct_of_off < 1.0


@pytest.mark.parametrize("pair", PAIRS)
def test_shares_and_residual_add_up(pair: str) -> None:
    result = attribution(pair)
    for part in (result, *result.classes, *(phase for _, phase in result.phases.found())):
        if part.shares is not None:
            assert part.residual is not None
            total = sum(cause(part, name).share_us for name in CAUSES) + part.residual.total_us
            assert total == pytest.approx(part.delta_us, abs=1e-6)


@pytest.mark.parametrize("pair", PAIRS)
def test_nothing_is_put_down_to_what_was_not_charged(pair: str) -> None:
    one = decode(pair)
    assert abs(cause(one, "pcie").share_us) < 0.025 * one.off_step_us
    assert cause(one, "nvlink").share_us == 0.0
    if pair.startswith("launch"):
        assert cause(one, "overlap").share_us == 0.0


@pytest.mark.parametrize(("pair", "submissions"), EAGER.items())
def test_a_host_that_sets_the_pace_shows_every_toll(pair: str, submissions: int) -> None:
    launch = cause(decode(pair), "launch")
    assert launch.share_us == pytest.approx(submissions * TOLL_US, rel=0.09)
    assert abs(launch.hidden_us) < 0.1 * launch.raw_toll_us


def test_a_gpu_that_sets_the_pace_hides_tolls() -> None:
    for pair in ("server-graph-overlap", "vllm-8b-full"):
        launch = cause(decode(pair), "launch")
        assert launch.hidden_us > 0.5 * launch.raw_toll_us


def test_overlap_is_what_is_lost_where_a_copy_blocks_behind_a_graph() -> None:
    for pair in ("server-graph-overlap", "vllm-8b-full"):
        one = decode(pair)
        assert cause(one, "overlap").share_us > 0.75 * one.delta_us
        assert cause(one, "overlap").saved_if_removed_us > 0.75 * one.delta_us
    site = attribution("server-graph-overlap").classes[0].sites[0]
    assert (site.cause, site.category, site.bytes) == ("overlap", "copy d2h", 64)
    assert site.saved_if_removed_us == pytest.approx(500, abs=40)


def test_a_worker_keeps_the_overlap() -> None:
    one = decode("server-graph-worker")
    assert max(abs(cause(one, name).share_us) for name in CAUSES) < 0.02 * one.off_step_us


def test_prefill_and_decode_are_told_apart() -> None:
    result = attribution("server-graph-overlap")
    prefill = result.phases.prefill
    assert prefill is not None
    # Prefills are eager: they pay a toll for every kernel, decodes hide those of their few submissions.
    assert cause(prefill, "launch").share_us > 50 * cause(decode("server-graph-overlap"), "launch").share_us
    assert any("pairs of steps could be compared" in note for note in prefill.notes)


def test_a_recording_beside_itself_differs_in_nothing() -> None:
    same = load(open_trace(SAMPLES / "server-graph-overlap-off.parquet"))
    result = attribute(same, same)
    assert result.delta_us == 0.0
    assert result.residual is not None
    values = [cause(result, name).share_us for name in CAUSES]
    assert max(map(abs, [*values, result.residual.host_us, result.residual.gpu_us])) < 1e-9


def test_a_distorted_recording_gives_no_shares_but_kernel_times() -> None:
    nodes = load(open_trace(SAMPLES / "server-graph-overlap-nodes.parquet"))
    off = load(open_trace(SAMPLES / "server-graph-overlap-off.parquet"))
    on = load(open_trace(SAMPLES / "server-graph-overlap-emulated.parquet"))
    refused = attribute(on, nodes)
    assert refused.shares is None
    assert "distorted" in refused.refused_because[0]
    times = kernel_times_of(nodes)
    assert list(times.graphs) == [0]
    assert times.graphs[0] == pytest.approx(1150, rel=0.05)
    with_times = attribute(on, off, times)
    assert with_times.kind_of_input == "kernels"
    overlap = cause(decode("server-graph-overlap"), "overlap").share_us
    assert with_times.phases.decode is not None
    assert cause(with_times.phases.decode, "overlap").share_us == pytest.approx(overlap, rel=0.05)
