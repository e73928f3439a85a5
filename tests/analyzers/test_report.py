"""The document of several pairs of runs: means that add up, what is left out, what is said first."""

from dataclasses import replace

import numpy as np
import pytest
from attributions import SITE, arms, attribution, breakdown, differs, pair, refused, report
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cctrace.analyzers.attribution.result import CAUSES, Attribution, Breakdown, Phases
from cctrace.analyzers.published import published_schemas
from cctrace.analyzers.report.assembly import PAIRED, assembled
from cctrace.analyzers.report.combine import combined
from cctrace.analyzers.report.headline import site_words
from cctrace.analyzers.statistics import within_run
from cctrace.analyzers.statistics.intervals import t_interval
from cctrace.app.attribution_view import opening_blocks, whole_blocks
from cctrace.app.blocks import Paragraph


def add_up(one: Breakdown) -> None:
    assert one.shares is not None
    assert one.residual is not None
    shares = [getattr(one.shares, cause) for cause in CAUSES]
    rest = one.residual
    total = sum(share.share_us for share in shares if share) + rest.total_us
    assert one.on_step_us - one.off_step_us == pytest.approx(one.delta_us, abs=1e-6)
    assert total == pytest.approx(one.delta_us)
    parts = rest.host_us + rest.gpu_us + rest.schedule_mix_us + rest.model_error_us
    assert parts == pytest.approx(rest.total_us)
    assert one.shares.overlap.share_pct_of_off == pytest.approx(
        100 * one.shares.overlap.share_us / one.off_step_us
    )


US = st.floats(-3000, 3000)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            breakdown,
            launch=US,
            pcie=US,
            overlap=US,
            nvlink=st.one_of(st.none(), US),
            host=US,
            gpu=US,
            off_us=st.floats(20_000, 40_000),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_means_over_pairs_add_up_to_the_difference(parts: list[Breakdown]) -> None:
    one = combined(parts)

    add_up(one)
    assert one.off_step_us == pytest.approx(sum(part.off_step_us for part in parts) / len(parts))
    assert one.shares is not None
    assert one.residual is not None
    known = all(part.shares is not None and part.shares.nvlink is not None for part in parts)
    assert (one.shares.nvlink is not None) == known
    assert one.residual.gpu_holds_nvlink == (not known)


def test_intervals_are_those_of_the_pairs() -> None:
    values = [2000.0, 2020.0, 2010.0, 2050.0]

    document = report(*(attribution(breakdown(overlap=value)) for value in values))

    wanted = t_interval(values)
    assert wanted is not None
    assert document.shares is not None
    assert document.shares.overlap.share_us == pytest.approx(2020.0)
    assert document.shares.overlap.ci_us == pytest.approx((wanted.low, wanted.high))
    assert document.phases.decode is not None
    assert document.phases.decode.shares is not None
    assert document.phases.decode.shares.overlap.ci_us == pytest.approx((wanted.low, wanted.high))
    assert document.ci_kind == PAIRED
    assert document.pairs == 4
    assert [run.off for run in document.runs] == [f"off{number}.parquet" for number in range(1, 5)]


def test_one_pair_has_no_interval_of_its_shares() -> None:
    document = report(attribution())

    assert document.shares is not None
    assert document.shares.launch.ci_us is None
    assert document.delta_ci_us is None
    assert document.ci_kind is None


def test_one_pair_has_the_spread_within_its_runs_and_says_so() -> None:
    random = np.random.default_rng(1)
    spread = within_run(random.normal(4169, 40, 400), random.normal(6200, 40, 400))
    one = replace(pair(1, attribution()), within=spread)

    document = assembled([one], arms())

    assert document.delta_ci_us is not None
    assert document.ci_kind is not None
    assert document.delta_ci_us[0] < document.delta_us < document.delta_ci_us[1]
    assert "no significance" in document.ci_kind


def test_a_pair_that_cannot_be_attributed_is_left_out_of_all_means() -> None:
    odd = breakdown(overlap=9000.0)
    bad = attribution(replace(odd, **refused(odd, "the replay misses the on arm by 7 %")))

    document = report(attribution(), bad, attribution())

    add_up(document)
    assert document.delta_us == pytest.approx(breakdown().delta_us)
    assert document.pairs == 2
    assert [run.counted for run in document.runs] == [True, False, True]
    assert any(note.startswith("pair 2 has no part in these numbers") for note in document.notes)


def test_pairs_that_mostly_cannot_be_attributed_give_no_shares() -> None:
    bad = attribution(replace(breakdown(), **refused(breakdown(), "the replay misses the on arm by 7 %")))

    document = report(bad, attribution(), bad)

    assert document.shares is None
    assert document.residual is None
    assert document.pairs == 3
    assert document.refused_because == ("the replay misses the on arm by 7 %",)
    assert document.headline.endswith("; cannot attribute it, because the replay misses the on arm by 7 %.")


def test_arms_that_cannot_be_compared_have_no_shares_anywhere() -> None:
    document = report(attribution(), differences=(differs("forbids"), differs("warns", "host")))

    assert document.comparability[0].severity == "forbids"
    assert document.shares is None
    assert document.phases.decode is not None
    assert document.phases.decode.shares is None
    assert document.classes[0].shares is None
    assert document.classes[0].sites == ()
    assert "cannot attribute it, because the loads differ" in document.headline


def test_places_are_those_that_most_pairs_name() -> None:
    other = replace(SITE, position=3)
    first = attribution()
    second = replace(
        first, classes=(replace(first.classes[0], sites=(replace(SITE, thread="scheduler 99"), other)),)
    )
    third = replace(first, classes=(replace(first.classes[0], sites=(replace(SITE, on_us=1406.0),)),))

    document = report(first, second, third)

    (site,) = document.classes[0].sites
    assert site.position == SITE.position
    assert site.on_us == pytest.approx((2006 + 2006 + 1406) / 3)


def test_classes_that_one_pair_lacks_are_kept() -> None:
    first = attribution()
    rare = replace(
        first.classes[0], name="prefill", phase="prefill", off_class="p", on_class="p", off_steps=3
    )

    document = report(first, replace(first, classes=(*first.classes, rare)))

    assert [one.off_class for one in document.classes] == ["decode bs=16", "p"]
    assert document.classes[1].off_steps == 3


def test_the_headline_names_cause_and_place() -> None:
    document = report(attribution())

    assert document.headline == (
        "CC costs 2.05 ms on top of a decode step of 4.17 ms (+49.2 %, throughput loss 33.0 %); 98 % of it "
        "is lost overlap: the copy d2h of 128 B at 310 µs blocks 2.01 ms per step."
    )


def test_a_residual_is_not_called_a_cause() -> None:
    document = report(attribution(breakdown(overlap=0.0, launch=0.0, host=1000.0)))

    assert "is no cause of CC, but slower host code" in document.headline


def test_a_cause_that_others_offset_is_more_than_all() -> None:
    document = report(attribution(breakdown(gpu=-900.0)))

    assert "; more than all of it is lost overlap: the copy d2h" in document.headline
    assert document.headline.endswith(", offset by faster GPU work (−900 µs).")


def test_a_large_residual_beside_a_cause_is_named() -> None:
    document = report(attribution(breakdown(host=800.0)))

    assert document.headline.endswith("; 28 % is no cause of CC (residual).")


@pytest.mark.parametrize(
    ("overlap", "begin"),
    [
        (3.0, "Within noise: +34.0 µs on a decode step of 4.17 ms (+0.8 %"),
        (-2000.0, "CC saves 1.97 ms on a decode step of 4.17 ms (−47.2 %, throughput gain 89.5 %)"),
    ],
)
def test_headlines_of_no_difference_and_of_a_gain(overlap: float, begin: str) -> None:
    assert report(attribution(breakdown(overlap=overlap))).headline.startswith(begin)


def test_a_gain_is_put_down_to_less_of_a_cause_or_faster_work() -> None:
    less = report(attribution(breakdown(overlap=-2000.0))).headline
    faster = report(attribution(breakdown(overlap=0.0, gpu=-2000.0))).headline

    assert less.endswith("is less lost overlap.")
    assert faster.endswith("is no cause of CC, but faster GPU work.")


def test_equal_arms_are_said_to_be_equivalent() -> None:
    document = report(*(attribution(breakdown(overlap=value)) for value in (-31.0, -30.0, -32.0, -29.0)))

    assert document.verdict == "equivalent"
    assert document.headline.startswith("CC changes a decode step of 4.17 ms by less than 1.0 %")


def test_the_phase_that_carries_the_difference_is_named() -> None:
    decode = breakdown(overlap=0.0, off_weight=0.9, on_weight=0.9)
    prefill = breakdown(launch=20_000.0, off_us=50_000.0, off_weight=0.1, on_weight=0.1)
    phases = Phases(decode=decode, prefill=prefill, mixed=None, other=None, unknown=None)
    off = 0.9 * decode.off_step_us + 0.1 * prefill.off_step_us
    whole = breakdown(launch=0.9 * 31 + 2000, overlap=201.9, host=-9.0, off_us=off)

    document = report(attribution(whole, phases=phases))

    assert document.headline.startswith("CC costs 2.23 ms on top of a step of 8.75 ms")
    # 184 submissions a step are those of decode steps: they do not make prefill longer.
    assert document.headline.endswith(" of it in prefill steps; 91 % of it is launch toll.")


def test_the_first_call_of_a_step_is_named_so() -> None:
    assert site_words(SITE) == "the copy d2h of 128 B at 310 µs"
    assert site_words(replace(SITE, offset_us=0.0)) == "the copy d2h of 128 B at the begin of the step"


@pytest.mark.parametrize(("limit", "failed"), [(49.0, True), (50.0, False)])
def test_the_gate_compares_the_growth_of_the_step(limit: float, failed: bool) -> None:
    gate = report(attribution(), fail_over_pct=limit).gate

    assert gate is not None
    assert gate.failed == failed
    assert gate.denominator == "the off arm's step"
    assert gate.measured_pct == pytest.approx(49.17, abs=0.01)


def test_a_gate_that_cannot_judge_fails() -> None:
    gate = report(attribution(), differences=(differs("forbids"),), fail_over_pct=90.0).gate

    assert gate is not None
    assert gate.failed
    assert gate.because == "the growth cannot be judged, because the loads differ"


def arms_apart() -> Attribution:
    """Arms that have no steps in common."""
    apart = replace(breakdown(), **refused(breakdown(), "the arms have no steps in common"))
    none = Phases(decode=None, prefill=None, mixed=None, other=None, unknown=None)
    return attribution(apart, phases=none, classes=())


def test_a_gate_fails_if_the_arms_have_no_steps_in_common() -> None:
    gate = report(arms_apart(), fail_over_pct=90.0).gate

    assert gate is not None
    assert gate.failed
    assert gate.because == "the growth cannot be judged, because the arms have no steps in common"


def test_arms_without_common_steps_are_promised_nothing() -> None:
    document = report(arms_apart())

    assert document.headline == (
        "Cannot attribute, because the arms have no steps in common: a step takes 4.17 ms in the off arm and "
        "6.22 ms in the on arm."
    )
    blocks = (*opening_blocks(document), *whole_blocks(document))
    texts = [block.text.lower() for block in blocks if isinstance(block, Paragraph)]
    assert not any(word in text for text in texts for word in ("saves", "costs", "difference", "throughput"))


def test_a_gate_says_if_the_interval_holds_the_limit() -> None:
    several = [attribution(breakdown(overlap=value)) for value in (1500.0, 2000.0, 2500.0)]

    gate = report(*several, fail_over_pct=50.0).gate

    assert gate is not None
    assert not gate.failed
    assert gate.because.endswith("holds the limit")


@pytest.mark.parametrize("pairs", [1, 3])
def test_the_document_is_as_published(pairs: int) -> None:
    document = report(*[attribution()] * pairs, fail_over_pct=5.0).to_json()

    Draft202012Validator(published_schemas()["diff"]).validate(document)
    assert {
        "off_step_us",
        "on_step_us",
        "delta_us",
        "denominator",
        "verdict",
        "comparability",
        "labels",
    } <= set(document)
    for cause in ("launch", "pcie", "overlap", "nvlink"):
        wanted = {"share_us", "share_pct_of_off", "alone_us", "saved_if_removed_us", "hidden_us", "ci_us"}
        assert wanted <= set(document["shares"][cause])
    assert {"host_us", "gpu_us", "model_error_us"} <= set(document["residual"])
    assert {"decode", "prefill", "mixed"} <= set(document["phases"])
