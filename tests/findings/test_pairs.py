"""Savings from a replay, in the place of bounds; and what needs shares."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from attributions import SITE, attribution, breakdown, refused
from call_program import Program, copy, graph, metadata, record, sync
from found import looked_at, one, outcome
from simulator.costs import OFF, ON
from simulator.load import Load
from simulator.run import Run
from simulator.scenarios import parallel, serving
from simulator.simulation import simulate

from cctrace.analyzers.attribution.engine import attribute_arms
from cctrace.analyzers.findings import Observation, find, find_in_pair, observe
from cctrace.trace import open_trace

Arms = tuple[Observation, Observation]
Simulated = Callable[[Load], Arms]
OVERLAP = Program([graph(), copy("d2h", 128, 2000.0), record(1), sync(2)], host_us=2000.0)
QUICK = replace(OVERLAP, step=[graph(), copy("d2h", 128, 6.0), record(1), sync(2, 500.0)])


@pytest.fixture
def arms(tmp_path: Path) -> Arms:
    return looked_at(tmp_path, OVERLAP, metadata("on")), looked_at(tmp_path, QUICK)


def test_the_replayed_place_gives_the_saving(arms: Arms) -> None:
    place = replace(SITE, thread="scheduler 500", saved_if_removed_us=1234.0)
    said = attribution()
    said = replace(said, classes=(replace(said.classes[0], sites=(place,)),))

    finding = one(find_in_pair(*arms, said), "blocked-readback")

    assert finding is not None
    assert (finding.saving.kind, finding.saving.low_us) == ("replay", 1234.0)
    assert (finding.saving.high_us or 0) > 1234.0  # other copies would block after it


def test_a_place_of_another_thread_is_not_taken_for_it(arms: Arms) -> None:
    said = attribution()
    said = replace(
        said, classes=(replace(said.classes[0], sites=(replace(SITE, thread="copy-worker 501"),)),)
    )

    finding = one(find_in_pair(*arms, said), "blocked-readback")

    assert finding is not None
    shares = said.classes[0].shares
    assert shares is not None
    assert finding.saving.high_us == pytest.approx(shares.overlap.saved_if_removed_us)


def test_a_refused_attribution_leaves_bounds(arms: Arms) -> None:
    whole = breakdown()
    said = attribution(replace(whole, **refused(whole, "the model is wrong")))

    result = find_in_pair(*arms, said)
    finding = one(result, "blocked-readback")

    assert finding is not None
    assert finding.saving.kind == "bound"
    assert outcome(result, "nvlink-share") == "cannot tell"


@pytest.mark.parametrize(
    ("share_us", "expected"), [(400.0, "found"), (20.0, "nothing"), (None, "cannot tell")]
)
def test_a_notable_nvlink_share_is_a_finding(arms: Arms, share_us: float | None, expected: str) -> None:
    result = find_in_pair(*arms, attribution(breakdown(nvlink=share_us)))

    assert outcome(result, "nvlink-share") == expected


@pytest.fixture
def simulated(tmp_path: Path) -> Simulated:
    """A simulated pair: `on, off = simulated(load)`."""

    def made(load: Load) -> Arms:
        observed: list[Observation] = []
        for costs, cc_mode in ((ON, "on"), (OFF, "off")):
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
            simulate(Run(load, costs, steps=40, seed=3)).trace(cc_mode=cc_mode).write(path)
            observed.append(observe(open_trace(path)))
        return observed[0], observed[1]

    return made


def test_a_simulated_server_saves_what_overlap_costs_it(simulated: Simulated) -> None:
    on, off = simulated(serving(16, inputs_aside=True))

    bound = one(find_in_pair(on, off), "blocked-readback")
    assert off.arm is not None
    assert on.arm is not None
    replayed = one(find_in_pair(on, off, attribute_arms(off.arm, on.arm)), "blocked-readback")

    assert bound is not None
    assert replayed is not None
    saved = replayed.saving.high_us or 0.0
    # Published: the step grows from 4.2 to 6.2 ms, nearly all of it lost overlap.
    assert 1500 < saved < 2300
    assert (bound.saving.low_us or 0.0) <= 1.05 * saved
    assert saved <= 1.05 * (bound.saving.high_us or 0.0)


def test_a_simulated_worker_has_nothing_to_mend(simulated: Simulated) -> None:
    on, off = simulated(serving(16, readback="worker", input_copies=0))

    result = find_in_pair(on, off)

    assert one(result, "blocked-readback") is None
    assert one(result, "pinned-inputs") is None


def test_inputs_on_the_stream_of_the_forward_are_found_in_the_off_arm(simulated: Simulated) -> None:
    _, shared = simulated(serving(16, readback="worker"))
    assert one(find(shared), "pinned-inputs") is not None
    _, aside = simulated(serving(16, readback="worker", inputs_aside=True))
    assert one(find(aside), "pinned-inputs") is None


def test_ranks_are_examined_once_and_the_others_named(simulated: Simulated) -> None:
    on, off = simulated(parallel(2))

    result = find_in_pair(on, off)

    assert one(result, "split-graphs") is not None
    assert any("1 more process" in note for note in result.notes)
