"""Lanes, tracks and tones of a trace, in whatever order its rows lie."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from drawn_rows import BASE_NS, PID, index_of, kernel_launches, rows, write
from hypothesis import given, settings
from hypothesis import strategies as st

from cctrace.analyzers.viewport import TONES, Index, Window, build_index, row_details, visible
from cctrace.errors import UnusableInputError
from cctrace.trace import Lane, Metadata, open_trace
from cctrace.trace.schema import KINDS, REQUIRED_COLUMNS, SOURCES

EVERY_100 = np.arange(20) * 100
WHOLE = Window(-10, 10_000, 100)
LANES = (
    Lane(lane=0, kind="counter", name="counters of GPU 0"),
    Lane(lane=1, pid=PID, kind="thread", tid=77, role="copy-worker"),
    Lane(lane=2, pid=PID, kind="thread", tid=78, role="scheduler"),
    Lane(lane=3, pid=PID, kind="stream", device=0, stream=7, name="stream 7"),
    Lane(lane=4, pid=PID, kind="stream", device=0, stream=8, name="stream 8"),
)


def server(folder: Path) -> Index:
    return index_of(
        folder / "t.parquet",
        rows(EVERY_100 - 5000, EVERY_100 * 0, lane=0, kind="counter", pid=0, name="power"),
        kernel_launches(EVERY_100[:3], EVERY_100[:3] + 5, lane=1),
        rows(EVERY_100, EVERY_100 * 0 + 90, lane=2, kind=["step", "submit"] * 10, operation="graph"),
        rows(EVERY_100, EVERY_100 * 0 + 10, lane=3, kind="graph"),
        rows(EVERY_100, EVERY_100 * 0 + 70, lane=4, kind="copy", copy_kind="h2d", name=None),
        metadata=Metadata(lanes=LANES),
    )


def test_threads_come_first_then_streams_then_counters(tmp_path: Path) -> None:
    index = server(tmp_path)

    assert [(lane.number, lane.kind, lane.title, lane.role) for lane in index.lanes] == [
        (2, "thread", "scheduler 78", "scheduler"),
        (1, "thread", "copy-worker 77", "copy-worker"),
        (4, "stream", "GPU 0, stream 8", None),
        (3, "stream", "GPU 0, stream 7", None),
        (0, "counter", "counters of GPU 0", None),
    ]
    assert [[track.name for track in lane.tracks] for lane in index.lanes] == [
        ["ranges", "calls"],
        ["calls"],
        ["gpu"],
        ["gpu"],
        [],
    ]
    assert [lane.submissions for lane in index.lanes] == [10, 3, 0, 0, 0]
    assert index.rows == 83


def test_times_count_from_the_first_row_that_is_drawn(tmp_path: Path) -> None:
    index = server(tmp_path)

    assert index.base_ns == BASE_NS
    assert index.end == 1990


def test_rows_keep_their_numbers_in_either_track(tmp_path: Path) -> None:
    index = server(tmp_path)

    ranges, calls = visible(index, index.lanes[:1], WHOLE).lanes[0].tracks

    assert ranges.number.tolist() == list(range(23, 43, 2))
    assert calls.number.tolist() == list(range(24, 44, 2))
    for track in (ranges, calls):
        for position, number in enumerate(track.number.tolist()):
            assert track.track.places.position(number) == position
        assert [track.track.places.position(number) for number in (0, 22, 43, 82)] == [None] * 4


def test_several_processes_are_told_apart(tmp_path: Path) -> None:
    lanes = tuple(Lane(lane=lane, pid=lane + 7, kind="thread", tid=5) for lane in range(2))
    index = index_of(
        tmp_path / "t",
        *(kernel_launches(EVERY_100, EVERY_100 * 0 + 1, lane=lane, pid=lane + 7) for lane in range(2)),
        metadata=Metadata(lanes=lanes),
    )

    assert [lane.title for lane in index.lanes] == ["thread 5, process 7", "thread 5, process 8"]


def test_a_file_that_knows_nothing_of_its_lanes(tmp_path: Path) -> None:
    index = index_of(
        tmp_path / "t",
        rows(EVERY_100, EVERY_100 * 0 + 5, lane=8, kind="kernel"),
        kernel_launches(EVERY_100, EVERY_100 * 0 + 5, lane=9),
    )

    assert [(lane.number, lane.kind, lane.title) for lane in index.lanes] == [
        (9, "thread", "lane 9"),
        (8, "stream", "lane 8"),
    ]


@pytest.mark.parametrize(
    ("columns", "tone"),
    [
        ({"kind": "submit", "operation": "kernel"}, "launch"),
        ({"kind": "submit", "operation": "graph"}, "launch"),
        ({"kind": "submit", "operation": "copy", "copy_kind": "h2d"}, "pcie"),
        ({"kind": "submit", "operation": "copy", "copy_kind": "d2h"}, "pcie"),
        ({"kind": "submit", "operation": "copy"}, "pcie"),
        ({"kind": "submit", "operation": "copy", "copy_kind": "d2d"}, "copy"),
        ({"kind": "submit", "operation": "copy", "copy_kind": "p2p"}, "copy"),
        ({"kind": "submit", "operation": "memset"}, "memset"),
        ({"kind": "submit", "operation": "event-record"}, "event"),
        ({"kind": "wait", "operation": "stream-sync"}, "overlap"),
        ({"kind": "wait", "operation": "query"}, "query"),
        ({"kind": "collective", "name": "ncclAllReduce"}, "nvlink"),
        ({"kind": "kernel", "name": "ncclDevKernel_AllReduce"}, "nvlink"),
        ({"kind": "kernel", "name": "gemm"}, "gpu-kernel"),
        ({"kind": "capture", "operation": "kernel"}, "capture"),
        ({"kind": "range", "source": "nvtx"}, "range"),
        ({"kind": "range", "source": "stamps"}, "gpu-range"),
        ({"kind": "crypto"}, "crypto"),
    ],
)
def test_tones(tmp_path: Path, columns: dict[str, str], tone: str) -> None:
    index = index_of(tmp_path / "t", rows(EVERY_100, EVERY_100 * 0 + 9, **columns))

    (track,) = visible(index, index.lanes, WHOLE).lanes[0].tracks

    assert {TONES[number].key for number in track.tone} == {tone}


def test_every_kind_is_drawn_or_left_out_on_purpose(tmp_path: Path) -> None:
    tables = [
        rows(EVERY_100, EVERY_100 * 0 + 9, lane=lane, kind=kind, source=source)
        for lane, (kind, source) in enumerate((kind, source) for kind in KINDS for source in SOURCES)
    ]
    index = index_of(tmp_path / "t", *tables)

    left_out = {lane.number // len(SOURCES) for lane in index.lanes if not lane.tracks}
    assert [list(KINDS)[number] for number in sorted(left_out)] == ["counter", "clock"]


def test_labels(tmp_path: Path) -> None:
    table = rows(
        EVERY_100[:4],
        EVERY_100[:4] * 0 + 9,
        kind=["submit", "submit", "copy", "sync"],
        operation=["kernel", "copy", None, "stream-sync"],
        name=["cuLaunchKernel", "cuMemcpyAsync", None, ""],
        kernel=["gemm", None, None, None],
        copy_kind=[None, "d2h", "d2h", None],
    )
    index = index_of(tmp_path / "t", table)

    assert sorted(index.forms.label.to_pylist()) == ["copy d2h", "cuMemcpyAsync", "gemm", "stream-sync"]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 4), st.booleans())
def test_rows_in_any_order_give_the_same_picture(seed: int, count: int, lanes: int, mixed: bool) -> None:
    chance = np.random.default_rng(seed)
    lane = np.sort(chance.integers(0, lanes, count))
    start = chance.integers(0, 4000, count)
    start = start[np.lexsort((start, lane))]
    kind = chance.choice(["submit", "range", "kernel"] if mixed else ["submit"], count)
    duration = chance.choice([0, 3, 90, 2**33, 2**34], count)
    table = rows(
        start,
        duration,
        kind=kind.tolist(),
        bytes=np.arange(count),
        operation="copy",
        lane=lane,
    )
    shuffled = chance.permutation(count)
    with TemporaryDirectory() as folder:
        first = index_of(Path(folder) / "a", table)
        trace = open_trace(write(Path(folder) / "b", table.take(pa.array(shuffled)), group_rows=64))
        second = build_index(trace)
        for one, other in zip(first.lanes, second.lanes, strict=True):
            assert (one.number, one.rows) == (other.number, other.rows)
            for mine, theirs in zip(one.tracks, other.tracks, strict=True):
                positions = np.arange(len(mine))
                numbers = theirs.places.numbers(positions)
                assert (mine.rows.start == theirs.rows.start).all()
                assert (duration[mine.places.numbers(positions)] == mine.rows.duration(positions)).all()
                assert (duration[shuffled[numbers]] == theirs.rows.duration(positions)).all()
                # Rows that begin together may have changed places.
                key = [sorted(zip(mine.rows.start, mine.places.numbers(positions), strict=True))]
                assert key == [sorted(zip(theirs.rows.start, shuffled[numbers], strict=True))]
                number = int(numbers[-1])
                details = row_details(second, trace, number)
                assert details is not None
                values = {value.name: value.value for value in details.values}
                assert values["bytes"] == str(shuffled[number])
                assert (details.lane, details.start) == (one.number, int(mine.rows.start[-1]))


def test_more_forms_than_sixteen_bits_count(tmp_path: Path) -> None:
    count = 300_000
    index = index_of(
        tmp_path / "t",
        kernel_launches(np.arange(count), np.ones(count, np.int64), bytes=np.arange(count)),
        group_rows=150_000,
    )

    (track,) = index.lanes[0].tracks

    assert len(index.forms.tone) == count
    assert track.counts.tolist() == [1] * count


@pytest.mark.parametrize("kind", [None, "counter"])
def test_nothing_to_draw(tmp_path: Path, kind: str | None) -> None:
    none = EVERY_100[:0] if kind is None else EVERY_100
    index = index_of(tmp_path / "t", rows(none, none, kind=kind or "submit"))

    assert (index.end, index.rows) == (0, len(none))
    assert visible(index, index.lanes, WHOLE).items == 0


def test_a_table_with_required_columns_only(tmp_path: Path) -> None:
    table = kernel_launches(EVERY_100, EVERY_100 * 0 + 5, tid=1).select(list(REQUIRED_COLUMNS))
    trace = open_trace(write(tmp_path / "t", table))
    index = build_index(trace)

    assert visible(index, index.lanes, WHOLE).marks == 20
    assert row_details(index, trace, 3) is not None


def test_times_of_years_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInputError, match="104 days"):
        index_of(tmp_path / "t", kernel_launches(np.array([0, 2**60]), np.array([1, 1])))


def test_negative_durations_are_instants(tmp_path: Path) -> None:
    index = index_of(tmp_path / "t", kernel_launches(EVERY_100, EVERY_100 - 500))

    (track,) = visible(index, index.lanes, WHOLE).lanes[0].tracks

    assert track.duration.tolist() == [*[0] * 6, *range(100, 1500, 100)]


def test_texts_that_are_none_are_damage(tmp_path: Path) -> None:
    table = kernel_launches(EVERY_100, EVERY_100)
    broken = pa.DictionaryArray.from_arrays(
        pa.array([0] * 20, pa.int32()), pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())
    )
    table = table.set_column(table.schema.get_field_index("name"), "name", broken)

    with pytest.raises(UnusableInputError, match="damaged"):
        index_of(tmp_path / "t", table)


def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    path = write(tmp_path / "t", kernel_launches(np.arange(5000), np.ones(5000, np.int64)), group_rows=900)
    seen: list[float] = []

    build_index(open_trace(path), seen.append)

    assert seen == sorted(seen)
    assert len(seen) > 5
    assert seen[-1] == 1
