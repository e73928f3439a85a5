import pytest

from cctrace.analyzers.sentences import bytes_text, count_text, percent, plural, signed_time, time_text


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.0, "0.00 µs"),
        (3.456, "3.46 µs"),
        (12.34, "12.3 µs"),
        (999.4, "999 µs"),
        (999.6, "1.00 ms"),
        (2604.0, "2.60 ms"),
        (99_960.0, "100 ms"),
        (1_200_000.0, "1.20 s"),
    ],
)
def test_times(us: float, text: str) -> None:
    assert time_text(us) == text


@pytest.mark.parametrize(
    ("us", "text"), [(1.5, "+1.50 µs"), (-1.5, "−1.50 µs"), (0.0, "0 µs"), (-0.001, "0 µs")]
)
def test_signed_times(us: float, text: str) -> None:
    assert signed_time(us) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0.0, "0"), (1.0, "1"), (33.96, "34"), (26.24, "26.2"), (0.5, "0.50"), (0.02, "0.02")]
)
def test_counts(count: float, text: str) -> None:
    assert count_text(count) == text


def test_percentages_carry_a_real_minus() -> None:
    assert percent(0.346) == "34.6 %"
    assert percent(-0.01) == "−1.0 %"
    assert percent(0.036, signed=True) == "+3.6 %"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 34, "16.0 GiB")]
)
def test_sizes(size: int, text: str) -> None:
    assert bytes_text(size) == text


def test_plurals() -> None:
    assert plural(1, "step") == "1 step"
    assert plural(12345, "step") == "12 345 steps"
    assert plural(2, "process") == "2 processes"
    assert plural(2, "copy") == "2 copies"


@pytest.mark.parametrize("share", [0.0, -0.0003, 0.0003])
def test_percentages_that_round_to_zero_have_no_sign(share: float) -> None:
    assert percent(share) == percent(share, signed=True) == "0.0 %"
