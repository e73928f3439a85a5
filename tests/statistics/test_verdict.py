"""The word for a difference."""

import math

import pytest

from cctrace.analyzers.statistics.verdict import few_pairs_limit, verdict_of


def logs(*growths_pct: float) -> list[float]:
    return [math.log1p(growth / 100) for growth in growths_pct]


@pytest.mark.parametrize(
    ("growths_pct", "word"),
    [
        ((48.0, 50.0, 51.0), "difference"),
        ((-9.0, -10.0, -11.0), "difference"),
        ((3.1, 2.6, 3.5, 2.9, 3.3), "difference"),
        ((0.1, -0.1, 0.0), "equivalent"),
        ((0.81, 0.80, 0.79), "equivalent"),
        ((2.0, -2.0, 1.0), "within noise"),
        ((0.0, 0.0, 4.0), "within noise"),
        ((1.5,), "within noise"),
        ((2.5,), "within noise"),
        ((2.9,), "difference"),
        ((-2.9,), "difference"),
        ((2.3, 2.4), "difference"),
        ((1.9, 1.9), "within noise"),
    ],
)
def test_words(growths_pct: tuple[float, ...], word: str) -> None:
    assert verdict_of(logs(*growths_pct)).verdict == word


def test_three_pairs_say_how_many_more_a_statement_to_one_percent_takes() -> None:
    verdict = verdict_of(logs(2.0, -2.0, 1.0))
    assert verdict.pairs_needed is not None
    # s is about 2.1 %: t(0.975, 18) · 2.1 % / √19 is the first below 1 %.
    assert 17 <= verdict.pairs_needed <= 21
    assert verdict.more_pairs == verdict.pairs_needed - 3


def test_pairs_that_agree_need_no_more() -> None:
    assert verdict_of(logs(5.0, 5.1, 5.2)).more_pairs == 0


def test_a_machine_that_is_too_noisy_is_told_no_number() -> None:
    verdict = verdict_of(logs(60.0, -40.0, 5.0))
    assert (verdict.pairs_needed, verdict.more_pairs) == (None, None)


def test_fewer_than_three_pairs_cannot_say_how_many_more() -> None:
    assert verdict_of(logs(1.0)).pairs_needed is None
    assert verdict_of(logs(1.0, 1.2)).pairs_needed is None


def test_the_smallest_difference_shrinks_with_pairs_and_grows_with_spread() -> None:
    calm, wild = verdict_of(logs(1.0, 1.1, 0.9)), verdict_of(logs(3.0, 1.0, -1.0))
    assert calm.detectable_pct < wild.detectable_pct
    twice = verdict_of(logs(3.0, 1.0, -1.0, 3.0, 1.0, -1.0))
    assert twice.detectable_pct < wild.detectable_pct
    assert few_pairs_limit(2, None) < few_pairs_limit(1, None)
    assert few_pairs_limit(1, None) < few_pairs_limit(1, 0.03)


def test_one_pair_never_shows_less_than_the_noise_floor() -> None:
    assert few_pairs_limit(1, 0.0) >= 0.02
    assert few_pairs_limit(2, 0.0) >= 0.02


def test_a_within_run_spread_can_hide_a_large_difference() -> None:
    assert verdict_of(logs(6.0), within_run=0.01).verdict == "difference"
    assert verdict_of(logs(6.0), within_run=0.08).verdict == "within noise"


def test_the_sentences_name_their_denominator_and_what_they_rest_on() -> None:
    many = verdict_of(logs(48.0, 50.0, 51.0)).because
    assert "3 pairs" in many
    assert "of the off arm's step" in many
    assert "excludes zero" in many
    one = verdict_of(logs(1.0)).because
    assert "+1.0 % of the off arm's step" in one
    assert "2 more pairs" in one
    assert "1 more pair " in verdict_of(logs(1.0, 1.0)).because
    assert "though it excludes zero" in verdict_of(logs(0.81, 0.80, 0.79)).because
