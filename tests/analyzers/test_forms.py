from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctrace.analyzers.forms import BLOCK, counted, looked_up, masked, numbered, packed

WORDS = st.one_of(st.none(), st.sampled_from(["", "a", "b", "c"]))
NUMBERS = st.one_of(st.none(), st.integers(-3, 3), st.integers(-(1 << 62), 1 << 62))
ROWS = st.lists(st.tuples(WORDS, NUMBERS, NUMBERS, st.one_of(st.none(), st.booleans())), max_size=60)
NAMES = ("word", "number", "other", "truth")
TYPES = (pa.string(), pa.int64(), pa.int64(), pa.bool_())


def batch(rows: list[tuple[Any, ...]], begin: int = 0) -> pa.RecordBatch:
    """Rows with a dictionary of their own, and times counted from `begin`."""
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(TYPES)]
    times = np.arange(begin, begin + len(rows))
    return pa.RecordBatch.from_arrays(
        [columns[0].dictionary_encode(), *columns[1:], pa.array(times), pa.array(times % 7)],
        names=[*NAMES, "start_ns", "duration_ns"],
    )


@settings(max_examples=80, deadline=None)
@given(ROWS)
def test_rows_have_equal_numbers_if_they_are_equal(rows: list[tuple[Any, ...]]) -> None:
    number, examples = numbered(batch(rows).columns[: len(NAMES)])

    assert len(set(rows)) == len(examples)
    assert [rows[examples[one]] for one in number] == rows


def test_more_combinations_than_64_bits_hold_are_told_apart() -> None:
    random = np.random.default_rng(1)
    columns = [random.integers(0, 1 << 60, 3000) for _ in range(8)]
    twice = [pa.array(np.concatenate((column, column))) for column in columns]

    number, examples = numbered(twice)

    assert len(examples) == 3000
    assert (number[:3000] == number[3000:]).all()


@settings(max_examples=40, deadline=None)
@given(ROWS, ROWS)
def test_packed_rows_are_the_rows_of_all_batches(
    first: list[tuple[Any, ...]], second: list[tuple[Any, ...]]
) -> None:
    rows = packed([batch(first), batch(second, len(first))], NAMES, 200)

    forms = list(zip(*(rows.forms[name].to_pylist() for name in NAMES), strict=True))
    assert [forms[number] for number in rows.form] == first + second
    assert len(set(forms)) == len(forms)
    assert rows.start_ns.tolist() == list(range(len(first) + len(second)))


def test_a_call_of_minutes_keeps_its_length() -> None:
    short, long = batch([("a", 1, 1, True)] * 3), batch([("a", 1, 1, True)])
    minutes = long.set_column(5, "duration_ns", pa.array([600_000_000_000]))

    rows = packed([short, minutes, short], NAMES, 7)

    assert rows.duration_ns.tolist() == [0, 1, 2, 600_000_000_000, 0, 1, 2]


def test_long_lists_are_looked_up_and_counted_in_full() -> None:
    numbers = np.arange(2 * BLOCK + 5) % 3

    assert (looked_up(np.array([7, 8, 9]), numbers) == numbers + 7).all()
    assert counted(numbers, 4).tolist() == [*np.bincount(numbers).tolist(), 0]


@pytest.mark.parametrize("count", [0, 1, BLOCK, 2 * BLOCK + 5])
@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 1.0])
def test_masked_columns(count: int, part: float) -> None:
    random = np.random.default_rng(count)
    numbers, words = np.arange(count, dtype=np.int32), random.integers(0, 1 << 60, count)
    mask = random.random(count) < part

    first, second = masked(mask, numbers, words)

    assert (first == numbers[mask]).all()
    assert (second == words[mask]).all()
    assert (first.dtype, second.dtype) == (np.int32, np.int64)
