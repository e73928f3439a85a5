"""The law of copies, fixed + bytes ÷ bandwidth: found where it holds, refused where it does not."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.copy_law import MAX_SIZES, MIN_COPIES, Law, fitted, size_rows

SIZES = (64, 4096, 65536, 1 << 20, 1 << 24, 1 << 26)
B200_ON_US = {4096: 17.2, 65536: 23.6, 1 << 20: 145.0, 1 << 24: 1744.0, 1 << 26: 7052.0}
"""Launch toll and table of the published platform: 7.2 GB/s at 1 MB, 9.5 GB/s at 64 MB."""


def copies(us_of: Mapping[int, float], *, each: int = 40, noise: float = 0.05) -> tuple[IntArray, IntArray]:
    """(bytes, ns) of noisy copies, a number of each size."""
    random = np.random.default_rng(3)
    size = np.repeat(np.array(list(us_of), np.int64), each)
    us = np.repeat(np.array(list(us_of.values())), each) * np.exp(random.normal(0, noise, len(size)))
    return size, np.round(us * 1e3).astype(np.int64)


def by_law(fixed_us: float, gb_per_s: float, sizes: tuple[int, ...] = SIZES) -> dict[int, float]:
    return {size: fixed_us + size / gb_per_s / 1e3 for size in sizes}


def law_of(us_of: Mapping[int, float], **values: float) -> Law:
    fit = fitted(*copies(us_of, **values))  # type: ignore[arg-type]
    assert fit.law is not None, fit.cannot_tell_because
    return fit.law


@pytest.mark.parametrize(("fixed_us", "gb_per_s"), [(3.5, 55.0), (16.0, 9.5), (40.0, 1.5)])
def test_a_law_that_holds_is_found_within_its_interval(fixed_us: float, gb_per_s: float) -> None:
    law = law_of(by_law(fixed_us, gb_per_s))

    assert law.fixed_us == pytest.approx(fixed_us, rel=0.05)
    assert law.gb_per_s == pytest.approx(gb_per_s, rel=0.05)
    assert law.fixed_low_us <= fixed_us <= law.fixed_high_us
    assert law.gb_per_s_low is not None
    assert law.gb_per_s_high is not None
    assert law.gb_per_s_low <= gb_per_s <= law.gb_per_s_high


def test_some_copies_that_took_a_hundred_times_as_long_change_little() -> None:
    size, ns = copies(by_law(3.5, 20.0))
    ns[::7] *= 100
    fit = fitted(size, ns)

    assert fit.law is not None
    assert fit.law.fixed_us == pytest.approx(3.5, rel=0.05)
    assert fit.law.gb_per_s == pytest.approx(20.0, rel=0.05)


def test_a_time_that_does_not_grow_has_no_bandwidth() -> None:
    law = law_of(dict.fromkeys(SIZES, 4.0))

    assert law.gb_per_s is None
    assert law.gb_per_s_high is None
    assert law.fixed_us == pytest.approx(4.0, rel=0.02)
    assert law.at_us(np.array([1e6]))[0] == law.fixed_us


def test_an_interval_is_wider_with_fewer_copies() -> None:
    few, many = (law_of(by_law(4.0, 10.0), each=each, noise=0.2) for each in (6, 600))

    assert few.fixed_high_us - few.fixed_low_us > 2 * (many.fixed_high_us - many.fixed_low_us)


def test_the_published_copies_of_a_b200_follow_no_single_law() -> None:
    fit = fitted(*copies(B200_ON_US, noise=0.02))

    assert fit.law is None
    assert re.search(r"does not fit: copies of 1\.0 MiB take 1[2-6]\.\d % more", str(fit.cannot_tell_because))


@pytest.mark.parametrize(
    ("us_of", "each", "reason"),
    [
        ({}, 0, "all of them waited"),
        (by_law(4, 10), MIN_COPIES - 1, f"no size with at least {MIN_COPIES} copies"),
        ({64: 4.0, 1 << 20: 100.0}, 40, "only 2 sizes"),
        (by_law(4, 10, (64, 128, 256, 512)), 40, "span less than a factor of 10"),
        # Nearly equal sizes are no further ones.
        ({64: 3.3, 68: 2.7, 8192: 6.2}, 40, "only 2 sizes"),
    ],
)
def test_too_few_sizes_give_no_law(us_of: dict[int, float], each: int, reason: str) -> None:
    fit = fitted(*copies(us_of, each=each))

    assert fit.law is None
    assert str(fit.cannot_tell_because).startswith(reason) or reason in str(fit.cannot_tell_because)


def test_the_table_separates_copies_that_waited() -> None:
    size = np.array([64] * 10 + [1 << 20] * 4)
    ns = np.array([*range(1000, 11_000, 1000), 50_000, 60_000, 70_000, 900_000])
    waited = np.zeros(len(size), np.bool_)
    waited[[9, 13]] = True
    small, large = size_rows(size, ns, waited)

    assert (small.bytes, small.copies, small.median_us, small.waited) == (64, 9, 5.0, 1)
    assert (small.p10_us, small.p90_us) == (pytest.approx(1.8), pytest.approx(8.2))
    assert (large.copies, large.median_us, large.waited, large.waited_median_us) == (3, 60.0, 1, 900.0)


def test_sizes_without_end_become_a_table_of_few_lines() -> None:
    size = np.arange(1000, 9000)
    rows = size_rows(size, np.full(len(size), 5000), np.zeros(len(size), np.bool_))

    assert 10 <= len(rows) <= MAX_SIZES
    assert sum(row.copies for row in rows) == len(size)
    assert [row.bytes for row in rows] == sorted(row.bytes for row in rows)


def test_all_copies_of_a_size_may_have_waited() -> None:
    (row,) = size_rows(np.array([64, 64]), np.array([5000, 7000]), np.array([True, True]))

    assert (row.copies, row.median_us, row.p10_us, row.waited_median_us) == (0, None, None, 6.0)
