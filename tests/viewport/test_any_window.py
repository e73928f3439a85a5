"""Whatever rows there are, and however one looks at them: what is shown is what is there."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from drawn_rows import BASE_NS, Seen, dust_busy, index_of, kernel_launches
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cctrace.analyzers.viewport import MAX_ITEMS, Index, Window, visible

SPAN = 1_000_000
SHAPES = ("sequence", "nested", "overlapping", "instants", "burst", "endless")


def drawn(seed: int, count: int, shape: str) -> tuple[Any, Any]:
    """Starts and durations of so many rows within about SPAN ns."""
    chance = np.random.default_rng(seed)
    start = np.sort(chance.integers(0, SPAN, count))
    gap = np.diff(start, append=SPAN + 1)
    if shape == "sequence":
        duration = (gap * chance.random(count)).astype(np.int64)
    elif shape == "nested":
        return nested(chance, count)
    elif shape == "overlapping":
        duration = chance.integers(0, 40 * SPAN // count, count)
    elif shape == "instants":
        duration = np.where(chance.random(count) < 0.7, 0, gap // 2)
    elif shape == "burst":
        start = np.sort(np.where(chance.random(count) < 0.9, start % (SPAN // 100) + SPAN // 3, start))
        duration = chance.integers(0, 20, count)
    else:
        duration = SPAN - start + chance.integers(0, SPAN, count)
    start = start - start[0]
    return start, duration


def nested(chance: np.random.Generator, count: int) -> tuple[Any, Any]:
    """Intervals in each other: what opens last closes first."""
    times = np.unique(chance.integers(0, SPAN, 2 * count + 8))
    chance.shuffle(opens := np.repeat([True, False], len(times) // 2))
    starts: list[int] = []
    found: list[tuple[int, int]] = []
    for time, is_open in zip(times.tolist(), opens.tolist(), strict=False):
        if is_open:
            starts.append(time)
        elif starts:
            begin = starts.pop()
            found.append((begin, time - begin))
    found.sort()
    start, duration = (np.array(column, np.int64) for column in zip(*(found or [(0, 5)]), strict=True))
    return start - start[0], duration


def one_track(folder: Path, start: Any, duration: Any) -> Index:
    turn = np.arange(len(start)) % 3
    operation = np.array(["kernel", "memset", "event-record"])[turn].tolist()
    return index_of(folder / "t.parquet", kernel_launches(start, duration, operation=operation))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.one_of(st.integers(1, 90), st.integers(1500, 60_000)),
    shape=st.sampled_from(SHAPES),
    pixels=st.integers(1, 3000),
    windows=st.lists(
        st.tuples(st.floats(-0.2, 1.1), st.floats(0, 1.3, exclude_min=True)), min_size=1, max_size=4
    ),
)
@example(seed=0, count=7253, shape="endless", pixels=3, windows=[(0.0, 1.125)])
@example(seed=0, count=3607, shape="endless", pixels=2165, windows=[(1.0, 1.0)])
def test_what_is_shown_is_what_is_there(
    seed: int, count: int, shape: str, pixels: int, windows: list[tuple[float, float]]
) -> None:
    start, duration = drawn(seed, count, shape)
    with TemporaryDirectory() as folder:
        index = one_track(Path(folder), start, duration)

    for where, width in windows:
        begin = int(where * SPAN)
        window = Window(begin, begin + max(1, int(width**3 * SPAN)), pixels)
        check(index, window, Seen(start, duration, window))


def check(index: Index, window: Window, seen: Seen) -> None:
    answer = visible(index, index.lanes, window)
    track = answer.lanes[0].tracks[0]
    shown = np.zeros(len(seen.start), np.bool_)
    shown[track.number] = True
    hidden = seen.touching & ~shown

    assert index.base_ns == BASE_NS
    assert answer.items <= MAX_ITEMS
    assert (track.start == seen.start[track.number]).all()
    assert (track.duration == seen.duration[track.number]).all()
    assert not (shown & ~seen.touching).any()
    width = window.width * answer.factor
    if hidden.any() and (longest := seen.duration[hidden].max()) >= window.width:
        # Only where more rows are so long than an answer holds, and then the longest of them are shown.
        assert np.count_nonzero(seen.touching & (seen.duration >= longest)) > MAX_ITEMS // 2
        assert (seen.duration[shown] > longest).all()
        return
    assert track.count.sum() == np.count_nonzero(hidden)
    if overlap(seen, hidden) > 1:
        assert (track.busy <= 1).all()
        return
    got = dust_busy(track, window, answer.factor)
    for column in range(0, len(got), max(1, len(got) // 7)):
        until = window.begin + (column + 1) * width
        # What a block of rows holds is spread over the time from its first begin to its last end.
        assert got[column] == pytest.approx(seen.busy(hidden, until), abs=2.01 * width + 1)


def overlap(seen: Seen, chosen: Any) -> int:
    """How many of the chosen rows are under way at once at most."""
    if not chosen.any():
        return 0
    times = np.concatenate((seen.start[chosen], (seen.start + np.maximum(seen.duration, 1))[chosen]))
    change = np.repeat([1, -1], int(chosen.sum()))
    order = np.lexsort((change, times))
    return int(np.cumsum(change[order]).max())


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 400), shape=st.sampled_from(SHAPES))
def test_depth(seed: int, count: int, shape: str) -> None:
    start, duration = drawn(seed, count, shape)
    with TemporaryDirectory() as folder:
        index = one_track(Path(folder), start, duration)
    (track,) = index.lanes[0].tracks
    depth = np.zeros(len(start), np.int64) if track.depth is None else track.depth.astype(np.int64)
    end = start + np.maximum(duration, 1)

    assert track.lines == depth.max() + 1
    for line in range(7):  # what lies deeper than there are lines shares the last one
        own = np.flatnonzero(depth == line)
        own = own[np.argsort(start[own], kind="stable")]
        assert (start[own][1:] >= end[own][:-1]).all()
    if shape == "nested":
        around = [(start < one) & (end > one) for one in start]
        assert depth.tolist() == [min(int(mask.sum()), 7) for mask in around]


def test_what_begins_together_lies_in_the_longer_one(tmp_path: Path) -> None:
    start, duration = np.array([0, 0, 0, 50]), np.array([10, 100, 50, 20])

    (track,) = one_track(tmp_path, start, duration).lanes[0].tracks

    assert track.depth is not None
    assert track.depth.tolist() == [2, 0, 1, 1]


def test_a_long_row_that_began_before_is_shown(tmp_path: Path) -> None:
    count = 150_000
    start = np.concatenate(([0], np.arange(1, count) * 10))
    duration = np.concatenate(([2 * count * 10], np.full(count - 1, 5)))
    index = one_track(tmp_path, start, duration)
    late = (count - 1000) * 10

    track = visible(index, index.lanes, Window(late, late + 500, 100)).lanes[0].tracks[0]

    assert track.number[0] == 0
    assert track.depth.tolist() == [0, *[1] * 50]


@pytest.mark.parametrize("duration", [2**32 - 2, 2**32 - 1, 2**32, 10**12])
def test_durations_beyond_four_seconds_are_exact(tmp_path: Path, duration: int) -> None:
    start = np.arange(90_000) * 10**5
    durations = np.full(90_000, 10)
    durations[[3, 100, 65_600, 70_000]] = duration + np.array([7, 9, 5, 0])
    index = one_track(tmp_path, start, durations)

    track = visible(index, index.lanes, Window(0, 10**10, 1000)).lanes[0].tracks[0]

    assert set(track.duration.tolist()) >= {duration, duration + 5, duration + 7, duration + 9}
    assert index.end == 70_000 * 10**5 + duration


def test_the_most_time_decides_the_tone_of_dust(tmp_path: Path) -> None:
    start = np.arange(6000) * 100
    operation = np.where(np.arange(6000) % 3 == 0, "memset", "kernel").tolist()
    duration = np.where(np.arange(6000) % 3 == 0, np.where(start < 300_000, 90, 10), 30)
    index = index_of(tmp_path / "t", kernel_launches(start, duration, operation=operation))

    track = visible(index, index.lanes, Window(0, 600_000, 100)).lanes[0].tracks[0]

    assert track.pixel.tolist() == list(range(100))
    assert track.dust_tone.tolist() == [5] * 50 + [0] * 50
    assert track.busy[:45] == pytest.approx(0.5, abs=0.02)
    assert track.busy[55:] == pytest.approx(0.7 / 3, abs=0.02)
