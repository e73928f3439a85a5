"""Each rule where it must find something, and where it must not."""

from dataclasses import replace
from pathlib import Path

import pytest
from call_program import (
    ASIDE,
    COMPUTE,
    COPY_WORKER,
    Call,
    Program,
    copy,
    graph,
    kernel,
    memory_call,
    metadata,
    query,
    record,
    sync,
)
from found import looked_at, one, outcome

from cctrace.analyzers.findings import Finding, Findings, find, find_in_pair
from cctrace.analyzers.findings.rules.submissions import MANY
from cctrace.trace import Metadata
from cctrace.trace.metadata import Recording

ON = metadata("on")
MEBIBYTE = 1 << 20
QUIET = [graph(), copy("d2h", 64, memory="pageable"), sync(None, 300.0)]
"""A step that no rule has anything against, but that cannot tell which event it waits for."""


def found_in(folder: Path, program: Program, rule: str, about: Metadata | None = None) -> Finding | None:
    return one(find(looked_at(folder, program, about)), rule)


def checked(folder: Path, program: Program, about: Metadata | None = None) -> Findings:
    return find(looked_at(folder, program, about))


def must(finding: Finding | None) -> Finding:
    assert finding is not None
    return finding


# ---- submissions


def test_many_submissions_are_found_with_their_price(tmp_path: Path) -> None:
    program = Program([kernel() for _ in range(200)], host_us=500.0)

    off = must(found_in(tmp_path, program, "many-submissions"))
    on = must(found_in(tmp_path, program, "many-submissions", ON))

    assert (off.state, on.state) == ("expected", "measured")
    assert off.evidence[0].call == "kernel"
    assert off.evidence[0].thread == "scheduler 500"
    assert off.evidence[0].per_step == pytest.approx(200)
    assert (off.saving.kind, on.saving.kind) == ("estimate", "bound")
    assert off.saving.high_us == pytest.approx(190 * 12.25)  # a graph leaves ten submissions
    assert on.saving.high_us == pytest.approx(0.95 * 200 * 5.0)  # no more than the time in the calls
    assert on.saving.low_us == 0


def test_slack_of_the_host_is_taken_off_the_least_saving(tmp_path: Path) -> None:
    program = Program([*[kernel() for _ in range(200)], sync(1, 400.0)], host_us=100.0)

    saving = must(found_in(tmp_path, program, "many-submissions")).saving

    assert saving.high_us == pytest.approx(190 * 12.25)
    assert saving.low_us == pytest.approx(190 * 12.25 - 400.0)


def test_a_pair_measures_what_submissions_cost(tmp_path: Path) -> None:
    program = Program([kernel(us=4.0) for _ in range(200)], host_us=500.0)
    dear = replace(program, step=[kernel(us=16.25) for _ in range(200)])

    on, off = looked_at(tmp_path, dear, ON), looked_at(tmp_path, program)
    finding = must(one(find_in_pair(on, off), "many-submissions"))

    assert finding.state == "measured"
    assert finding.saving.kind == "bound"
    assert finding.saving.high_us == pytest.approx(190 * 12.25)


@pytest.mark.parametrize("kernels", [0, MANY - 1])
def test_few_submissions_are_no_finding(kernels: int, tmp_path: Path) -> None:
    program = Program([graph(), *[kernel() for _ in range(kernels)]])

    assert found_in(tmp_path, program, "many-submissions") is None
    assert found_in(tmp_path, program, "split-graphs") is None


def test_a_graph_in_pieces_is_found_as_such_and_once(tmp_path: Path) -> None:
    program = Program(
        [call for number in range(30) for call in (graph(number), kernel(), kernel(), kernel())]
    )

    result = checked(tmp_path, program)

    finding = must(one(result, "split-graphs"))
    assert {seen.call for seen in finding.evidence} == {"graph", "kernel"}
    assert finding.saving.high_us == pytest.approx(110 * 12.25)
    assert one(result, "many-submissions") is None


def test_prefill_is_advised_piecewise_graphs(tmp_path: Path) -> None:
    program = Program([kernel() for _ in range(200)], label="prefill bs=4")

    finding = must(found_in(tmp_path, program, "many-submissions"))

    assert finding.phase == "prefill"
    assert "piecewise" in finding.remedy


# ---- the read-back


def readback(us: float, *, at_once: bool = False, wait_us: float = 2.0) -> Program:
    """A step whose tokens are awaited at once; or after the next launch: its wait is for another event."""
    awaited = 1 if at_once else 2
    return Program([graph(), copy("d2h", 64, us), record(1), sync(awaited, wait_us)], host_us=600.0)


def test_a_blocked_readback_is_found_with_its_place(tmp_path: Path) -> None:
    finding = must(found_in(tmp_path, readback(1000.0), "blocked-readback", ON))

    place = finding.evidence[0]
    assert (finding.state, finding.cause) == ("measured", "overlap")
    assert (place.thread, place.call, place.bytes, place.position) == ("scheduler 500", "copy d2h", 64, 1)
    assert place.us_per_step == pytest.approx(1000.0)
    assert place.offset_us == pytest.approx(12.0)
    # The step has 600 µs of host code and 15 µs of other calls beside the stall: no more can be saved.
    assert finding.saving.high_us == pytest.approx(615.0)
    assert "pinned" not in finding.remedy.lower()


def test_without_cc_the_same_readback_is_expected_to_block(tmp_path: Path) -> None:
    finding = must(found_in(tmp_path, readback(5.0, wait_us=400.0), "blocked-readback"))

    assert finding.state == "expected"
    assert finding.saving.low_us == 0
    assert finding.saving.high_us == pytest.approx(623.0, abs=3.0)  # host work while the GPU is busy


@pytest.mark.parametrize("about", [None, ON])
def test_tokens_that_are_awaited_at_once_lose_no_overlap(about: Metadata | None, tmp_path: Path) -> None:
    blocked = readback(1000.0 if about else 5.0, at_once=True)

    assert found_in(tmp_path, blocked, "blocked-readback", about) is None


def test_a_readback_that_does_not_block_with_cc_on_is_no_finding(tmp_path: Path) -> None:
    assert found_in(tmp_path, readback(20.0, wait_us=400.0), "blocked-readback", ON) is None


def test_a_copy_worker_is_the_remedy_and_no_finding(tmp_path: Path) -> None:
    step = [graph(), record(1), copy("d2h", 64, 1000.0, stream=ASIDE, tid=COPY_WORKER)]

    for about in (None, ON):
        assert found_in(tmp_path, Program(step, host_us=1200.0), "blocked-readback", about) is None


def test_without_numbers_of_events_the_readback_cannot_be_told(tmp_path: Path) -> None:
    program = Program([graph(), copy("d2h", 64, 5.0), record(1), sync(None, 400.0)], host_us=600.0)
    blocked = replace(program, step=[graph(), copy("d2h", 64, 1000.0), record(1), sync(None, 2.0)])

    off = checked(tmp_path, program)
    on = must(found_in(tmp_path, blocked, "blocked-readback", ON))

    assert outcome(off, "blocked-readback") == "cannot tell"
    assert on.saving.low_us == 0


# ---- other copies


def test_pinned_inputs_on_the_busy_stream_are_expected_to_block(tmp_path: Path) -> None:
    inputs = [copy("h2d", 256), copy("h2d", 256)]
    program = Program([*inputs, graph(), record(2), sync(1, 400.0)], host_us=600.0)

    finding = must(found_in(tmp_path, program, "pinned-inputs"))

    assert finding.state == "expected"
    assert finding.evidence[0].per_step == pytest.approx(2)
    assert "pageable" in finding.remedy


def test_inputs_on_a_stream_of_their_own_or_behind_a_wait_do_not_block(tmp_path: Path) -> None:
    aside = Program([copy("h2d", 256, stream=ASIDE), graph(), record(2), sync(1, 400.0)], host_us=600.0)
    waited = Program([copy("h2d", 256), graph(), record(1), sync(1, 400.0)], host_us=600.0)

    assert found_in(tmp_path, aside, "pinned-inputs") is None
    assert found_in(tmp_path, waited, "pinned-inputs") is None


def test_inputs_that_block_are_measured(tmp_path: Path) -> None:
    program = Program([copy("h2d", 256, 700.0), graph(), record(2), sync(1, 2.0)], host_us=600.0)

    finding = must(found_in(tmp_path, program, "pinned-inputs", ON))

    assert finding.state == "measured"
    assert finding.evidence[0].us_per_step == pytest.approx(700.0)


def test_inputs_behind_a_blocked_readback_are_told_of(tmp_path: Path) -> None:
    step = [copy("h2d", 256), graph(), copy("d2h", 64, 900.0), record(2), sync(1, 2.0)]

    finding = must(found_in(tmp_path, Program(step, host_us=600.0), "pinned-inputs", ON))

    assert finding.saving.kind == "cannot tell"
    assert "read-back" in finding.saving.basis


def test_synchronous_copies_are_found_and_never_told_to_be_pinned(tmp_path: Path) -> None:
    for stalled in (
        copy("d2h", 64, 500.0, memory="pageable"),
        copy("h2d", 4096, 500.0, memory="pageable"),
        copy("d2h", 64, 500.0, blocking=True),
    ):
        finding = must(found_in(tmp_path, Program([graph(), stalled], host_us=400.0), "synchronous-copies"))
        assert finding.evidence[0].us_per_step == pytest.approx(500.0)
        assert finding.saving.high_us == pytest.approx(412.0)  # the GPU works 500 µs of the 912 at least
        assert "Pinning the memory helps without CC only" in finding.remedy


def test_a_quick_pageable_copy_is_no_finding(tmp_path: Path) -> None:
    program = Program([graph(), copy("h2d", 64, 6.0, memory="pageable")], host_us=400.0)

    assert found_in(tmp_path, program, "synchronous-copies") is None


def test_many_small_copies_are_to_be_packed(tmp_path: Path) -> None:
    program = Program([*[copy("h2d", 64, stream=ASIDE) for _ in range(6)], graph()], host_us=500.0)
    few = replace(program, step=program.step[3:])

    finding = must(found_in(tmp_path, program, "small-copies"))

    assert finding.evidence[0].per_step == pytest.approx(6)
    assert finding.saving.high_us == pytest.approx(5 * (12.25 + 4.86))
    assert found_in(tmp_path, few, "small-copies") is None


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_large_copies_are_weights_or_cache(direction: str, tmp_path: Path) -> None:
    program = Program([copy(direction, 19 * 10**6, stream=ASIDE, memory="pageable"), graph()], host_us=5000.0)

    finding = must(found_in(tmp_path, program, "large-copies"))

    assert finding.cause == "pcie"
    assert finding.saving.high_us == pytest.approx(2000.0)
    assert found_in(tmp_path, Program([copy(direction, 8192), graph()]), "large-copies") is None


# ---- host memory


@pytest.mark.parametrize("operation", ["host-alloc", "host-register"])
def test_pinned_memory_in_the_steps_is_found(operation: str, tmp_path: Path) -> None:
    program = Program([memory_call(operation, 30.0), graph()], host_us=500.0)

    off = must(found_in(tmp_path, program, "host-allocations"))
    on = must(found_in(tmp_path, program, "host-allocations", ON))

    assert off.evidence[0].call == operation
    assert off.saving.high_us == pytest.approx(43 * 30.0)
    assert on.saving.high_us == pytest.approx(30.0)


def test_allocations_before_the_steps_are_none_in_them(tmp_path: Path) -> None:
    program = Program([graph()], before=[memory_call("host-alloc")] * 5)

    assert found_in(tmp_path, program, "host-allocations") is None
    assert found_in(tmp_path, program, "host-registration") is None


def test_registered_memory_is_a_risk_wherever_it_is(tmp_path: Path) -> None:
    program = Program([graph()], before=[memory_call("host-register")])

    finding = must(found_in(tmp_path, program, "host-registration"))

    assert finding.kind == "risk"
    assert "801" in finding.remedy


# ---- kernels, tuning, start-up


@pytest.mark.parametrize(
    "symbol",
    [
        "ncclDevKernel_AllReduce_Sum_bf16_NVLS_LL",
        "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC",
        "multimem_all_reduce_kernel",
    ],
)
def test_multicast_is_known_by_its_kernels(symbol: str, tmp_path: Path) -> None:
    finding = must(found_in(tmp_path, Program([kernel(symbol), graph()]), "multicast"))

    assert finding.kind == "risk"
    assert finding.saving.kind == "cannot tell"


def test_multicast_is_known_by_the_command(tmp_path: Path) -> None:
    asked = metadata(recording=Recording(command=("serve", "--enable-symm-mem")))

    assert found_in(tmp_path, Program([kernel(), graph()]), "multicast", asked) is not None


def test_ordinary_collectives_are_no_multicast(tmp_path: Path) -> None:
    ring = Program([kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"), graph()])
    nameless = Program([Call(5.0, {**kernel().columns, "kernel": None}), graph()])

    assert outcome(checked(tmp_path, ring), "multicast") == "nothing"
    assert outcome(checked(tmp_path, nameless), "multicast") == "cannot tell"


def timing(times: int) -> list[Call]:
    return [
        call
        for number in range(times)
        for call in (record(2 * number), kernel("tactic"), record(2 * number + 1))
    ]


def test_timing_by_events_before_the_steps_is_a_tuner(tmp_path: Path) -> None:
    finding = must(found_in(tmp_path, Program([graph()], before=timing(40)), "autotuner-events"))

    assert finding.evidence[0].count >= 40
    assert "%globaltimer" in finding.remedy


def test_a_few_events_or_events_around_much_work_are_no_tuner(tmp_path: Path) -> None:
    forward = [record(1), *[kernel() for _ in range(50)], record(2), sync(2)]

    assert found_in(tmp_path, Program([graph()], before=timing(3)), "autotuner-events") is None
    assert found_in(tmp_path, Program([graph()], before=forward * 30), "autotuner-events") is None
    assert found_in(tmp_path, Program(timing(30)), "autotuner-events") is None


def test_start_up_is_counted_apart(tmp_path: Path) -> None:
    weights = [copy("h2d", 64 * MEBIBYTE, 7000.0) for _ in range(8)]

    finding = must(found_in(tmp_path, Program([graph()], before=weights), "start-up-copies", ON))

    assert finding.kind == "information"
    assert finding.share_of_run == 0
    assert finding.evidence[0].count == 8
    assert found_in(tmp_path, Program([graph()], before=weights[:2]), "start-up-copies", ON) is None


# ---- questions and rare stalls


def test_polling_is_found(tmp_path: Path) -> None:
    program = Program([graph(), *[query(3.0) for _ in range(40)]], host_us=500.0)

    finding = must(found_in(tmp_path, program, "polled-events"))

    assert finding.saving.high_us == pytest.approx(120.0)
    assert found_in(tmp_path, Program([graph(), query(), query()]), "polled-events") is None


def test_launches_that_rarely_stand_still_are_found_with_cc_only(tmp_path: Path) -> None:
    program = Program([graph()], host_us=900.0, steps=200, odd=[graph(us=8000.0)], odd_every=40)

    on = must(found_in(tmp_path, program, "rare-stalls", ON))

    assert on.evidence[0].call == "graph"
    assert on.saving.high_us == pytest.approx(4 * 8000.0 / 200, rel=0.1)
    assert found_in(tmp_path, program, "rare-stalls") is None


def test_recorded_key_rotations_are_evidence(tmp_path: Path) -> None:
    program = Program([graph()], host_us=900.0, steps=200, odd=[graph(us=8000.0)], odd_every=40)
    rotation = {"kind": "crypto", "source": "cupti"}
    rotating = replace(program, before=[Call(500.0, rotation), Call(500.0, rotation)])

    without = must(found_in(tmp_path, program, "rare-stalls", ON))
    found = must(found_in(tmp_path, rotating, "rare-stalls", ON))

    assert len(without.evidence) == 1
    assert found.evidence[1].text == "2 key rotations happened in the recording"


def test_an_off_arm_with_the_same_stalls_clears_cc_of_them(tmp_path: Path) -> None:
    program = Program([graph()], host_us=900.0, steps=200, odd=[graph(us=8000.0)], odd_every=40)

    on, off = looked_at(tmp_path, program, ON), looked_at(tmp_path, program)

    assert one(find_in_pair(on, off), "rare-stalls") is None


def test_a_quiet_program_has_no_finding(tmp_path: Path) -> None:
    program = Program([graph(), record(1, COMPUTE), sync(1, 300.0)], host_us=200.0)

    for about in (None, ON):
        result = checked(tmp_path, program, about)
        assert [each for each in result.findings if each.kind == "cost"] == []
        assert result.headline.startswith("No finding that costs time in the steps")
