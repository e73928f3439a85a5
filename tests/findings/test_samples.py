"""The shipped traces: what anybody who tries the program sees first."""

import numpy as np
import pytest
from found import one, outcome, sample, sample_pair

from cctrace.analyzers.findings import find


@pytest.mark.parametrize("replay", [False, True])
def test_the_overlap_server_waits_in_its_readback(replay: bool) -> None:
    result = sample_pair("server-graph-overlap", replay=replay)

    finding = one(result, "blocked-readback", "decode")
    assert finding is not None
    assert result.findings[0] == finding
    assert (finding.state, finding.cause) == ("measured", "overlap")
    place = finding.evidence[0]
    assert (place.thread, place.call, place.bytes) == ("scheduler 1663", "copy d2h", 64)
    assert place.position == 9
    assert 1000 < (place.us_per_step or 0) < 1300
    # The emulated server's step is 0.48 ms longer, and the small toll of its few submissions is in it.
    assert finding.saving.high_us == pytest.approx(500, rel=0.1)
    assert finding.saving.kind == ("replay" if replay else "bound")
    assert "worker" in " ".join(finding.known_from)


def test_the_same_server_without_cc_is_told_beforehand() -> None:
    finding = one(find(sample("server-graph-overlap-off")), "blocked-readback", "decode")

    assert finding is not None
    assert finding.state == "expected"
    assert finding.saving.high_us == pytest.approx(510, rel=0.1)


@pytest.mark.parametrize("name", ["server-graph-worker", "server-eager-worker", "server-piecewise-worker"])
def test_a_server_with_a_copy_worker_has_no_readback_to_mend(name: str) -> None:
    assert one(sample_pair(name), "blocked-readback") is None
    assert one(find(sample(f"{name}-emulated")), "blocked-readback") is None
    assert outcome(find(sample(f"{name}-off")), "blocked-readback") != "found"


def test_a_server_that_waits_at_once_has_no_overlap_to_lose() -> None:
    for name in ("server-graph-sync-off", "server-graph-sync-emulated"):
        result = find(sample(name))
        assert one(result, "blocked-readback", "decode") is None
        assert one(result, "synchronous-copies", "decode") is not None


@pytest.mark.parametrize(("name", "step_us"), [("launch-181", 2090), ("server-eager-sync", 3300)])
def test_eager_servers_hand_over_too_much(name: str, step_us: float) -> None:
    result = sample_pair(name)

    finding = one(result, "many-submissions", "decode")
    assert finding is not None
    assert result.findings[0] == finding
    assert finding.saving.high_us == pytest.approx(step_us, rel=0.1)
    assert one(result, "split-graphs") is None


def test_pieces_of_a_graph_are_called_so() -> None:
    result = sample_pair("server-piecewise-worker")

    assert one(result, "split-graphs", "decode") is not None
    assert one(result, "many-submissions", "decode") is None


def test_vllm_blocks_in_its_readback_and_its_inputs_come_next() -> None:
    result = sample_pair("vllm-8b-full", replay=True)

    readback, inputs = one(result, "blocked-readback"), one(result, "pinned-inputs")
    assert readback is not None
    assert inputs is not None
    assert (readback.evidence[0].us_per_step or 0) > 4000
    # The copies of inputs would block as soon as the read-back does not.
    assert 0 < (readback.saving.low_us or 0) < (readback.saving.high_us or 0) < 3000
    assert inputs.saving.kind == "cannot tell"
    assert one(result, "autotuner-events") is not None  # vLLM compiles, and times what it compiled


def test_one_graph_of_few_submissions_has_no_finding() -> None:
    result = sample_pair("launch-graph", replay=True)

    assert result.findings == ()
    assert result.headline == "No finding that costs time in the steps, by 15 rules."
    assert {one_.outcome for one_ in result.checked} == {"nothing"}


def test_distorted_times_give_no_numbers() -> None:
    result = find(sample("server-graph-overlap-nodes"))

    costs = [each for each in result.findings if each.kind == "cost"]
    assert costs
    assert all(each.saving.high_us is None for each in costs)
    assert any("CUPTI" in note for note in result.notes)


def test_evidence_names_a_call_that_can_be_looked_at() -> None:
    seen = sample("server-graph-overlap-emulated")
    assert seen.process is not None
    assert seen.steps is not None
    calls, period_us = seen.process.calls, seen.steps.period_ns / 1e3
    finding = one(find(seen), "blocked-readback", "decode")
    assert finding is not None

    for place in finding.evidence:
        example = place.example
        assert example is not None
        begin_ns = seen.steps.start_ns[example.step] + example.begin_us * 1e3
        there = np.flatnonzero((np.abs(calls.start_ns - begin_ns) < 1) & calls.is_operation("copy"))
        assert calls.duration_ns[there].tolist() == [pytest.approx(example.duration_us * 1e3)]
        assert 0 <= example.begin_us < period_us[example.step]
        assert seen.steps.classes[seen.steps.class_of[example.step]].name == finding.steps
        assert example.duration_us == pytest.approx(place.us_per_step, rel=0.2)


def test_what_lies_outside_of_steps_has_no_example() -> None:
    tuner = one(find(sample("vllm-8b-full-emulated")), "autotuner-events")

    assert tuner is not None
    assert [place.example for place in tuner.evidence] == [None]
