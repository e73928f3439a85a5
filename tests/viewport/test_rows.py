"""What one asks about single rows: how long a call waited, what is linked to it, where the next one is."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drawn_rows import index_of, kernel_launches, rows, write

from cctrace.analyzers.viewport import (
    Index,
    Links,
    Window,
    build_index,
    found_names,
    links_of,
    next_blocking_copy,
    next_by_name,
    row_details,
    visible,
)
from cctrace.trace import Trace, open_trace

US = 1000
COUNT = 40
TURNS = np.arange(COUNT) * 100 * US
WHOLE = Window(-US, 10_000 * US, 1000)


def copies(durations_us: list[int], *, lane: int = 0, **columns: Any) -> pa.Table:
    """Copies to the host, one each 100 µs."""
    duration = np.array(durations_us) * US
    start = np.arange(len(duration)) * 100 * US
    given = {
        "operation": "copy",
        "copy_kind": "d2h",
        "bytes": 64,
        "blocking": False,
        "name": "cuMemcpyDtoHAsync",
    }
    return kernel_launches(start, duration, lane=lane, **{**given, **columns})


def blocked_us(index: Index, lane: int) -> list[float]:
    (answer,) = visible(index, [one for one in index.lanes if one.number == lane], WHOLE).lanes
    return [round(waiting / US, 3) for track in answer.tracks for waiting in track.blocked.tolist()]


def test_a_copy_waits_for_what_it_takes_longer_than_those_that_do_not(tmp_path: Path) -> None:
    launches = kernel_launches(TURNS, TURNS * 0 + 5 * US, lane=1)
    index = index_of(tmp_path / "t", copies([8] * 10 + [90, 500]), launches)

    assert blocked_us(index, 0) == [0] * 10 + [82, 492]
    assert blocked_us(index, 1) == [0] * COUNT


def test_where_all_copies_wait_a_launch_tells_their_own_cost(tmp_path: Path) -> None:
    launches = kernel_launches(TURNS, TURNS * 0 + 6 * US, lane=1)
    trace = open_trace(write(tmp_path / "t", copies([400] * 20), launches))
    index = build_index(trace)

    details = row_details(index, trace, 3)

    assert blocked_us(index, 0) == [394] * 20
    assert details is not None
    assert details.values[-1].name == "waiting"
    assert details.values[-1].value == "394000"
    assert "6.00 µs" in details.values[-1].meaning
    assert "too few copies" in details.values[-1].meaning


def test_a_large_asynchronous_copy_takes_long_without_waiting(tmp_path: Path) -> None:
    index = index_of(tmp_path / "t", copies([8] * 10 + [500] * 5, bytes=[64] * 10 + [1 << 20] * 5))

    assert blocked_us(index, 0) == [0] * 15


def test_a_copy_that_blocks_by_contract_waits_if_it_takes_longer(tmp_path: Path) -> None:
    durations, contract = [8] * 10 + [9, 10, 30], [False] * 10 + [True] * 3
    index = index_of(tmp_path / "t", copies(durations, blocking=contract))

    assert blocked_us(index, 0) == [0] * 12 + [22]


def test_synchronizations_wait_and_queries_do_not(tmp_path: Path) -> None:
    syncs = rows(TURNS[:12], (np.arange(12) * 10 + 2) * US, kind="wait", operation="stream-sync", lane=0)
    queries = rows(TURNS[:12], TURNS[:12] // 10 + 2 * US, kind="wait", operation="query", lane=1)
    index = index_of(tmp_path / "t", syncs, queries)

    assert blocked_us(index, 0) == [0, *[turn * 10 + 2 - 5 for turn in range(1, 12)]]
    assert blocked_us(index, 1) == [0] * 12


def test_each_process_has_its_own_costs(tmp_path: Path) -> None:
    index = index_of(
        tmp_path / "t", copies([8] * 10 + [90], lane=0, pid=1), copies([40] * 10 + [490], lane=1, pid=2)
    )

    assert blocked_us(index, 0)[-1] == 82
    assert blocked_us(index, 1)[-1] == 450


def server(path: Path, lag_us: int = 30) -> tuple[Index, Trace]:
    """Two threads that launch kernels on two streams; every second launch has GPU rows, two of them."""
    numbers = np.arange(COUNT)
    correlation = [int(one) if one % 2 == 0 else None for one in numbers]
    tables = [
        kernel_launches(TURNS + lane, TURNS * 0 + 5 * US, lane=lane, correlation=correlation, pid=7 + lane)
        for lane in (0, 1)
    ]
    gpu = np.sort(np.concatenate((TURNS[::2], TURNS[::2] + 10 * US))) + lag_us * US
    tables += [
        rows(
            gpu,
            gpu * 0 + 5 * US,
            lane=lane,
            kind="kernel",
            correlation=np.repeat(numbers[::2], 2),
            pid=5 + lane,
        )
        for lane in (2, 3)
    ]
    trace = open_trace(write(path / "t", *tables, group_rows=50))
    return build_index(trace), trace


def links(index: Index, trace: Trace, window: Window) -> Links:
    return links_of(index, trace, visible(index, index.lanes, window))


def test_links_lead_from_submissions_to_the_first_row_of_their_work(tmp_path: Path) -> None:
    index, trace = server(tmp_path)

    found = links(index, trace, WHOLE)

    wanted = [
        (lane, lane * COUNT + turn, lane + 2, (lane + 2) * COUNT + turn)
        for lane in (0, 1)
        for turn in range(0, COUNT, 2)
    ]
    got = zip(
        found.from_lane.tolist(),
        found.from_row.tolist(),
        found.to_lane.tolist(),
        found.to_row.tolist(),
        strict=True,
    )
    assert sorted(got) == wanted
    assert (found.to_time - found.from_time == 25 * US - found.from_lane).all()


def test_a_link_leads_out_of_the_window(tmp_path: Path) -> None:
    index, trace = server(tmp_path, lag_us=2000)

    found = links(index, trace, Window(0, 50 * US, 100))

    assert found.from_row.tolist() == [0, COUNT]
    assert found.to_time.tolist() == [2000 * US] * 2


def test_many_submissions_are_not_linked(tmp_path: Path) -> None:
    start = np.arange(301) * 20 * US
    numbers = np.arange(301)
    gpu = rows(start, start * 0 + US, kind="kernel", lane=1, correlation=numbers)
    trace = open_trace(
        write(tmp_path / "t", kernel_launches(start, start * 0 + US, correlation=numbers), gpu)
    )
    index = build_index(trace)

    assert len(links(index, trace, Window(0, 301 * 20 * US, 1000))) == 0
    assert len(links(index, trace, Window(0, 300 * 20 * US, 1000))) == 300


@pytest.mark.parametrize(
    ("row", "linked"),
    [(4, [84, 85]), (5, []), (44, [124, 125]), (84, [4]), (85, [4]), (119, [38]), (120, [40])],
)
def test_what_is_linked_to_a_row(tmp_path: Path, row: int, linked: list[int]) -> None:
    index, trace = server(tmp_path)

    details = row_details(index, trace, row)

    assert details is not None
    assert [one.number for one in details.linked] == linked


def test_details_are_the_columns_of_the_row(tmp_path: Path) -> None:
    index, trace = server(tmp_path)

    details = row_details(index, trace, 4)

    assert details is not None
    values = {value.name: (value.value, value.unit) for value in details.values}
    assert (details.lane, details.start, details.duration) == (0, 400 * US, 5 * US)
    assert values["duration_ns"] == ("5000", "ns")
    assert values["correlation"] == ("4", "")
    assert "graph_id" not in values


@pytest.mark.parametrize("row", [-1, 4 * COUNT, 2**60])
def test_there_is_no_such_row(tmp_path: Path, row: int) -> None:
    index, trace = server(tmp_path)

    assert row_details(index, trace, row) is None


def mixed(path: Path) -> Index:
    waits = [8] * 10 + [90] + [8] * 10 + [500] + [8] * 5
    return index_of(
        path / "t",
        copies(waits, lane=0),
        kernel_launches(TURNS, TURNS * 0 + 5 * US, lane=1, kernel=["gemm_A", "softmax"] * (COUNT // 2)),
        copies([400], lane=2, operation="memset", copy_kind=None),
    )


@pytest.mark.parametrize(
    ("after_us", "forward", "row"),
    [
        (-1, True, 10),
        (999, True, 10),
        (1000, True, 21),
        (2100, True, None),
        (9999, False, 21),
        (2100, False, 10),
        (1000, False, None),
    ],
)
def test_the_next_blocking_copy(tmp_path: Path, after_us: int, forward: bool, row: int | None) -> None:
    index = mixed(tmp_path)

    found = next_blocking_copy(index, index.lanes, after_us * US, forward=forward)

    assert (found and found.number) == row
    assert next_blocking_copy(index, [lane for lane in index.lanes if lane.number], -1) is None


def test_the_next_row_of_a_name(tmp_path: Path) -> None:
    index = mixed(tmp_path)

    found = next_by_name(index, index.lanes, 250 * US, "GEMM")
    before = next_by_name(index, index.lanes, 250 * US, "GEMM", forward=False)

    assert found is not None
    assert before is not None
    assert (found.lane, found.start, found.name) == (1, 400 * US, "gemm_A")
    assert (before.lane, before.start) == (1, 200 * US)
    assert next_by_name(index, index.lanes, 0, "nothing like it") is None
    assert next_by_name(index, index.lanes, 0, ".*") is None


def test_the_nearest_row_of_a_name_may_lie_in_any_lane(tmp_path: Path) -> None:
    index = index_of(
        tmp_path / "t",
        *(
            kernel_launches(TURNS + shift, TURNS * 0 + US, lane=lane)
            for lane, shift in enumerate((30, 10, 20))
        ),
    )
    after, seen = -1.0, []
    for _ in range(4):
        found = next_by_name(index, index.lanes, after, "call")
        assert found is not None
        after, seen = found.start, [*seen, found.lane]
    assert seen == [1, 2, 0, 1]


def test_names_are_counted(tmp_path: Path) -> None:
    index = mixed(tmp_path)

    count, names = found_names(index, "cumem")
    everything, every_name = found_names(index, "")

    assert count == 28
    assert [(one.name, one.count) for one in names] == [("cuMemcpyDtoHAsync", 28)]
    assert everything == 27 + COUNT + 1
    assert [one.name for one in every_name] == ["cuMemcpyDtoHAsync", "gemm_A", "softmax"]


def test_an_api_name_finds_the_launches_that_show_a_kernel(tmp_path: Path) -> None:
    index = index_of(tmp_path / "t", kernel_launches(TURNS, TURNS * 0, name="cuLaunchKernel", kernel="gemm"))

    assert found_names(index, "culaunch")[0] == COUNT


def test_a_row_that_is_not_drawn_has_details(tmp_path: Path) -> None:
    trace = open_trace(
        write(tmp_path / "t", rows(TURNS, TURNS * 0, kind="counter", value=np.arange(COUNT) / 2))
    )
    index = build_index(trace)

    details = row_details(index, trace, 3)

    assert details is not None
    assert ("value", "1.5") in [(one.name, one.value) for one in details.values]
    assert details.linked == ()
