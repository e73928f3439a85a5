"""Copies as points: what each is, and few points of many copies that lose no extreme."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from trace_builder import Load, Tolls, build, table_of

from cctrace.analyzers.copy_points import MAX_POINTS, SLOWEST, CopyPoints, copy_points
from cctrace.analyzers.copy_rows import BLOCKING, CALL, GPU, MAX_THREADS, RETURNED, UNKNOWN, WAITED
from cctrace.analyzers.loading import load
from cctrace.analyzers.waiting import waited_in_effect
from cctrace.trace import SCHEMA, Collector, Lane, open_trace
from cctrace.trace.schema import COPY_KINDS, MEMORY_KINDS, METADATA_KEY

WriteTrace = Callable[..., Path]
SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
H2D, D2H, PINNED = COPY_KINDS.index("h2d"), COPY_KINDS.index("d2h"), MEMORY_KINDS.index("pinned")


def a_copy(at_us: float, us: float, size: int = 64, direction: str = "h2d", **more: Any) -> dict[str, Any]:
    source, target = ("device", "pinned") if direction == "d2h" else ("pinned", "device")
    return {
        "kind": "submit",
        "name": "cuMemcpyAsync",
        "operation": "copy",
        "source": "interposer",
        "start_ns": 10**12 + round(at_us * 1e3),
        "duration_ns": round(us * 1e3),
        "pid": 7,
        "tid": 7,
        "lane": 0,
        "bytes": size,
        "copy_kind": direction,
        "src_memory": source,
        "dst_memory": target,
        "blocking": False,
        "result": 0,
        **more,
    }


def many_copies(count: int, seed: int = 1) -> pa.Table:
    """H2D copies of random sizes and times, one slow and one quick one among them."""
    random = np.random.default_rng(seed)
    size = 1 << random.integers(6, 20, count)
    ns = (3500 * np.exp(random.normal(0, 0.3, count)) + size / 10).astype(np.int64)
    ns[count // 3], ns[count // 2] = 90_000_000, 7
    one = table_of([a_copy(0, 1)])
    columns = [
        one[name].combine_chunks().take(pa.array(np.zeros(count, np.int64))) for name in one.schema.names
    ]
    table = pa.table(columns, schema=SCHEMA)
    changed = {"bytes": size, "duration_ns": ns, "start_ns": 10**12 + np.cumsum(ns + 1000)}
    for name, values in changed.items():
        table = table.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), pa.array(values))
    return table


def of(points: CopyPoints, **wanted: int) -> Any:
    mask = np.ones(len(points), bool)
    for name, code in wanted.items():
        mask &= getattr(points, name) == code
    return mask


def test_rows_lead_to_the_copies_in_the_file(write_trace: WriteTrace) -> None:
    path = write_trace("server", build(Load(steps=20, prefill_every=5)).table)
    points = copy_points(path)
    table = open_trace(path).table()
    expected = pc.sum(pc.equal(table["operation"].cast(pa.string()), "copy")).as_py()

    assert len(points) == points.calls == expected
    assert sorted(points.row) == sorted(set(points.row))
    rows = table.take(pa.array(points.row)).to_pylist()
    assert [row["bytes"] for row in rows] == points.bytes.tolist()
    assert [row["duration_ns"] / 1e3 for row in rows] == points.us.tolist()
    assert [row["copy_kind"] for row in rows] == [COPY_KINDS[code] for code in points.direction]


def test_rows_in_any_order_are_the_same_copies(write_trace: WriteTrace, tmp_path: Path) -> None:
    table = build(Load(execution="graph", layers=40, steps=30, tolls=Tolls(blocking=True))).table
    order = np.random.default_rng(5).permutation(table.num_rows)
    shuffled = tmp_path / "shuffled.parquet"
    sorted_path = write_trace("sorted", table)
    document = {METADATA_KEY: open_trace(sorted_path).metadata.to_json().encode()}
    pq.write_table(table.take(pa.array(order)).replace_schema_metadata(document), shuffled)
    first, second = copy_points(sorted_path), copy_points(shuffled)

    def key(points: CopyPoints, position: Any) -> list[tuple[Any, ...]]:
        return sorted(zip(position[points.row], points.waiting, points.steady, points.us, strict=True))

    assert WAITED in first.waiting
    assert key(first, np.arange(table.num_rows)) == key(second, order)


def test_a_copy_waits_by_contract_or_in_effect_or_not_at_all(write_trace: WriteTrace) -> None:
    rows = [
        a_copy(0, 4),
        a_copy(100, 900),
        a_copy(2000, 5, blocking=True),
        a_copy(3000, 4, direction="d2d", src_memory="device"),
        a_copy(4000, 4, size=0),
        a_copy(5000, 4, direction="d2h", dst_memory="pageable"),
    ]
    points = copy_points(write_trace("few", table_of(rows)))

    assert dict(zip(points.row, points.waiting, strict=True)) == {
        0: RETURNED,
        1: WAITED,
        2: BLOCKING,
        3: RETURNED,
        5: RETURNED,
    }
    assert (points.calls, points.without_size) == (6, 1)
    memory = dict(zip(points.row.tolist(), points.memory.tolist(), strict=True))
    assert (memory[0], memory[3], memory[5]) == (PINNED, UNKNOWN, MEMORY_KINDS.index("pageable"))
    assert not points.steady.any()
    assert points.no_steps_because is not None
    assert points.per_step == ()


def test_copies_of_the_gpu_are_a_layer_of_their_own(write_trace: WriteTrace) -> None:
    on_gpu = a_copy(1, 1.5, kind="copy", operation=None, source="cupti", tid=None, lane=1, blocking=None)
    points = copy_points(write_trace("gpu", table_of([a_copy(0, 4), on_gpu])))

    assert points.layer.tolist() == [CALL, GPU]
    assert points.thread.tolist() == [0, UNKNOWN]
    assert points.us.tolist() == [4.0, 1.5]
    assert [(group.layer, group.copies) for group in points.groups] == [("calls", 1), ("gpu", 1)]
    assert points.distorted


def test_steady_steps_are_told_from_the_rest(write_trace: WriteTrace) -> None:
    points = copy_points(write_trace("start", build(Load(steps=60, start_up=True)).table))
    weights = points.bytes == 8 << 20

    assert weights.sum() == 40
    assert not points.steady[weights].any()
    assert points.steady[~weights].mean() > 0.9
    steady = {(group.direction, group.copies) for group in points.groups if group.scope == "steady"}
    assert steady == {
        ("h2d", int((points.steady & (points.direction == H2D)).sum())),
        ("d2h", int((points.steady & (points.direction == D2H)).sum())),
    }
    assert [(one.direction, one.per_step) for one in points.per_step] == [("h2d", 1.0)] * 3 + [("d2h", 1.0)]


@pytest.mark.parametrize("count", [MAX_POINTS - 10, 300_000])
def test_many_copies_are_few_points_and_all_are_counted(write_trace: WriteTrace, count: int) -> None:
    table = many_copies(count)
    points = copy_points(write_trace("many", table))
    ns, size = table["duration_ns"].to_numpy(), table["bytes"].to_numpy()

    assert points.count.sum() == count
    assert len(np.unique(points.row)) == len(points)
    for waiting in np.unique(points.waiting):
        assert of(points, waiting=waiting).sum() <= MAX_POINTS
    # Every point is a copy of the file, and stands for copies around it.
    assert (ns[points.row] / 1e3 == points.us).all()
    assert (size[points.row] == points.bytes).all()
    assert (points.low_us <= points.us).all()
    assert (points.us <= points.high_us).all()
    assert ((points.count > 1) | (points.low_us == points.high_us)).all()


def test_many_copies_keep_their_extremes(write_trace: WriteTrace) -> None:
    table = many_copies(200_000)
    path = write_trace("many", table)
    points = copy_points(path)
    ns, size = table["duration_ns"].to_numpy(), table["bytes"].to_numpy()
    waited = waited_in_effect(load(open_trace(path)).calls)
    alone = set(points.row[points.count == 1].tolist())

    for own in (np.flatnonzero(waited), np.flatnonzero(~waited)):
        assert set(own[np.argsort(ns[own])[-SLOWEST:]].tolist()) <= alone
    free = np.flatnonzero(~waited)
    for one in np.unique(size[free]):
        us = points.us[(points.waiting == RETURNED) & (points.bytes == one)]
        own = free[size[free] == one]
        assert (us.min(), us.max()) == (ns[own].min() / 1e3, ns[own].max() / 1e3)


def test_threads_have_names_and_the_rest_are_one(write_trace: WriteTrace) -> None:
    rows = [
        a_copy(10 * index, 4, tid=100 + thread, lane=thread)
        for thread in range(MAX_THREADS + 2)
        for index in range(20 - thread)
    ]
    lanes = (Lane(lane=0, pid=7, kind="thread", tid=100, role="copy-worker"),)
    points = copy_points(write_trace("threads", table_of(rows), lanes=lanes))

    names = [thread.name for thread in points.threads]
    assert names == ["copy-worker 100", *(f"thread {100 + n}" for n in range(1, MAX_THREADS))]
    assert np.bincount(points.thread + 1).tolist() == [
        sum(20 - n for n in (MAX_THREADS, MAX_THREADS + 1)),
        *(20 - n for n in range(MAX_THREADS)),
    ]


def test_two_processes_are_told_apart_in_the_names(write_trace: WriteTrace) -> None:
    rows = [a_copy(0, 4), a_copy(0, 4, pid=8, tid=8, lane=1)]
    points = copy_points(write_trace("two", table_of(rows)))

    assert {thread.name for thread in points.threads} == {"thread 7 of 7", "thread 8 of 8"}


def test_a_trace_without_copies_has_no_points(write_trace: WriteTrace) -> None:
    launch = {"operation": "kernel", "bytes": None, "copy_kind": None}
    for table in (table_of([]), table_of([a_copy(0, 4, **launch)])):
        points = copy_points(write_trace(f"none-{table.num_rows}", table))
        assert (len(points), points.calls, points.groups, points.threads) == (0, 0, (), ())


def test_the_law_of_each_kind_of_copy(write_trace: WriteTrace) -> None:
    rows = []
    for index in range(300):
        size = (64, 65536, 1 << 20, 1 << 23)[index % 4]
        rows.append(a_copy(index * 5000, 4 + size / 20e3, size))
        rows.append(a_copy(index * 5000 + 2000, 12, size, direction="d2h"))
    points = copy_points(write_trace("law", table_of(rows)))
    laws = {group.direction: group.fit.law for group in points.groups if group.scope == "all"}

    assert laws["h2d"] is not None
    assert laws["h2d"].fixed_us == pytest.approx(4, rel=0.02)
    assert laws["h2d"].gb_per_s == pytest.approx(20, rel=0.02)
    assert laws["d2h"] is not None
    assert laws["d2h"].gb_per_s is None


def test_the_shipped_recording_with_gpu_rows() -> None:
    points = copy_points(SAMPLES / "server-graph-overlap-nodes.parquet")

    assert points.distorted
    assert {"calls", "gpu"} == {group.layer for group in points.groups}
    assert points.count[points.layer == GPU].sum() == 810
    assert points.step_class == "decode bs=16"


def test_the_shipped_pair_shows_the_copy_that_blocks() -> None:
    off, on = (copy_points(SAMPLES / f"server-graph-overlap-{arm}.parquet") for arm in ("off", "emulated"))
    to_host = {"direction": D2H, "memory": PINNED, "waiting": WAITED}

    assert of(off, **to_host).sum() == 0
    assert of(on, **to_host).sum() > 0.9 * of(on, direction=D2H).sum()


def test_collectors_that_know_their_state_are_believed(write_trace: WriteTrace) -> None:
    table = table_of([a_copy(0, 4)])
    points = copy_points(write_trace("cupti", table, collector=Collector(timing="distorted")))

    assert points.distorted
    assert not copy_points(write_trace("plain", table)).distorted
    assert replace(Collector(), timing=None).timing is None
