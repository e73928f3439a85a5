"""Collectives by operation and size: what the calls say, what ran, how long, and what is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from collective_traces import (
    CUSTOM,
    DECODE_BYTES,
    GATHER,
    LOGIT_BYTES,
    NVLS,
    PREFILL_BYTES,
    RING_LL,
    TOKEN_BYTES,
    Tp,
    rows_of,
    wire_us,
    written,
)
from trace_builder import Load, build, table_of

from cctrace.analyzers.collective_table import (
    MAX_SAMPLED,
    CollectiveRow,
    CollectiveTable,
    bandwidth,
    bus_factor,
    collective_table,
)
from cctrace.trace import Collector, Emulation, Metadata

WriteTrace = Callable[..., Path]


def table_for(folder: Path, **values: Any) -> CollectiveTable:
    return collective_table(written(folder / "tp.parquet", Tp(**values)))


def row_of(table: CollectiveTable, operation: str, size: int | None) -> CollectiveRow:
    (row,) = (row for row in table.rows if (row.operation, row.bytes) == (operation, size))
    return row


def call(at: int, name: str, size: int | None, ranks: int = 4, us: int = 1, **more: Any) -> dict[str, Any]:
    """A call of NCCL at `at` µs."""
    return {
        "kind": "collective",
        "name": name,
        "source": "interposer",
        "start_ns": 10**12 + at * 1000,
        "duration_ns": us * 1000,
        "pid": 7,
        "tid": 7,
        "lane": 0,
        "stream": 1,
        "bytes": size,
        "result": 0,
        "attributes": f'{{"ranks": {ranks}, "sequence": 0, "datatype": "float16"}}',
        **more,
    }


def launch(at: int, symbol: str, correlation: int, **more: Any) -> dict[str, Any]:
    base = call(at, "cuLaunchKernelEx", None, kind="submit", operation="kernel", attributes=None)
    return {**base, "kernel": symbol, "correlation": correlation, **more}


def run(at: int, us: float, symbol: str, correlation: int, **more: Any) -> dict[str, Any]:
    base = call(at, symbol, None, kind="kernel", source="cupti", tid=None, lane=1, result=None)
    changes = {"duration_ns": round(us * 1000), "attributes": None, "correlation": correlation}
    return {**base, **changes, **more}


def of_rows(write_trace: WriteTrace, *rows: dict[str, Any], **metadata: Any) -> CollectiveTable:
    ordered = sorted(rows, key=lambda row: (row["lane"], row["start_ns"], row["kind"] != "collective"))
    return collective_table(write_trace("rows", table_of(ordered), **metadata))


# ---- a whole server


def test_everything_is_counted_per_step_and_rank(tmp_path: Path) -> None:
    table = table_for(tmp_path, steps=61, layers=12)

    # Of 60 steps with an end, each tenth prefills.
    assert row_of(table, "all-reduce", DECODE_BYTES).per_step == pytest.approx(12 * 54 / 60)
    assert row_of(table, "all-reduce", PREFILL_BYTES).per_step == pytest.approx(12 * 6 / 60, rel=0.2)
    assert row_of(table, "all-gather", LOGIT_BYTES).per_step == pytest.approx(54 / 60)
    experts = row_of(table, "all-to-all", TOKEN_BYTES)
    assert (experts.per_step, experts.bytes_per_step) == (1.0, TOKEN_BYTES)
    assert table.processes == 2
    assert {row.ranks for row in table.rows} == {2}
    assert {row.datatypes for row in table.rows} == {("bfloat16",)}


@pytest.mark.parametrize("ranks", [2, 4])
def test_gpu_times_are_those_of_the_kernels_of_each_call(tmp_path: Path, ranks: int) -> None:
    table = table_for(tmp_path, ranks=ranks, late_us=0.0)

    for operation, size in [
        ("all-reduce", DECODE_BYTES),
        ("all-reduce", PREFILL_BYTES),
        ("all-gather", LOGIT_BYTES),
        ("all-to-all", TOKEN_BYTES),
    ]:
        row = row_of(table, operation, size)
        assert row.timed == row.runs
        assert row.gpu_median_us == pytest.approx(wire_us(size), rel=0.02)
        assert row.gpu_p95_us is not None
        assert row.gpu_p95_us > row.gpu_median_us
    assert row_of(table, "all-reduce", DECODE_BYTES).kernels == (RING_LL,)
    assert table.kernels == {RING_LL, NVLS, GATHER, *row_of(table, "all-to-all", TOKEN_BYTES).kernels}


@pytest.mark.parametrize(("gpu", "reason"), [("stamps", "stamps time whole graphs"), ("none", "--gpu none")])
def test_without_kernel_times_collectives_are_counted_all_the_same(
    tmp_path: Path, gpu: str, reason: str
) -> None:
    table, seen = table_for(tmp_path, gpu=gpu), table_for(tmp_path)

    def counts(one: CollectiveTable) -> dict[tuple[str, int | None], float | None]:
        return {(row.operation, row.bytes): row.per_step for row in one.rows}

    assert counts(table) == counts(seen)
    assert not any(row.timed or row.gpu_median_us for row in table.rows)
    assert reason in str(table.no_times_because)
    # A node of a graph is called by no host.
    assert row_of(table, "all-reduce", DECODE_BYTES).call_median_us is None
    assert row_of(table, "all-gather", LOGIT_BYTES).call_median_us == pytest.approx(10.0)


def test_without_the_capture_a_node_is_known_by_its_symbol_alone(tmp_path: Path) -> None:
    table = table_for(tmp_path, captures=False)
    row = row_of(table, "all-reduce", None)

    assert (row.of_nccl, row.ranks, row.per_step) == (False, None, pytest.approx(12 * 54 / 59))
    assert row.gpu_median_us is not None
    assert "not recorded" in str(bandwidth(row, row.gpu_median_us).cannot_tell_because)


def test_kernels_outside_of_nccl_are_rows_of_their_own(tmp_path: Path) -> None:
    table = table_for(tmp_path, custom=True)
    (row,) = (row for row in table.rows if row.kernels == (CUSTOM,))

    assert row.operation == "all-reduce (vllm::cross_device_reduce_1stage)"
    assert (row.of_nccl, row.bytes, row.per_step) == (False, None, 1.0)
    # Nor do they take the calls of others.
    assert row_of(table, "all-to-all", TOKEN_BYTES).per_step == 1.0


def test_a_replay_that_lost_a_row_tells_no_bytes(tmp_path: Path, write_trace: WriteTrace) -> None:
    rows = rows_of(Tp()).to_pylist()
    nodes = [index for index, row in enumerate(rows) if row["node_id"] == 5]
    lost = set(nodes[:10])
    table = collective_table(
        write_trace("lost", table_of([row for index, row in enumerate(rows) if index not in lost]))
    )
    whole, rest = row_of(table, "all-reduce", DECODE_BYTES), row_of(table, "all-reduce", None)

    assert rest.runs == 11 * len(lost)
    assert whole.runs == 12 * (2 * 54 - len(lost))
    assert not rest.of_nccl


# ---- which calls a launch carries out


def test_a_group_of_one_operation_is_one_exchange(write_trace: WriteTrace) -> None:
    calls = [call(10 + n, "ncclAllReduce", 1000) for n in range(3)]
    table = of_rows(write_trace, *calls, launch(20, RING_LL, 1), run(30, 50, RING_LL, 1))
    (row,) = table.rows

    assert (row.operation, row.bytes, row.runs, row.timed) == ("all-reduce", 3000, 1, 1)
    assert row.call_median_us == 3.0


def test_sends_and_receives_with_one_peer_are_no_all_to_all(write_trace: WriteTrace) -> None:
    group = [call(10, "ncclSend", 4000), call(12, "ncclRecv", 1000)]
    table = of_rows(write_trace, *group, launch(20, "ncclDevKernel_SendRecv", 1))
    (row,) = table.rows

    assert (row.operation, row.bytes) == ("send/receive", 4000)
    assert bus_factor(row.operation, row.ranks) == 1.0


def test_a_group_of_several_operations_has_no_bus_bandwidth(write_trace: WriteTrace) -> None:
    group = [call(10, "ncclAllReduce", 4000), call(12, "ncclAllGather", 1000)]
    table = of_rows(write_trace, *group, launch(20, RING_LL, 1), run(30, 5, RING_LL, 1))
    (row,) = table.rows
    found = bandwidth(row, row.gpu_median_us)

    assert (row.operation, row.bytes) == ("group of several operations", 5000)
    assert found.algorithm_gb_per_s == pytest.approx(1.0)
    assert (found.bus_gb_per_s, found.cannot_tell_because) == (
        None,
        "no bus bandwidth: the operation has none",
    )


def test_a_group_of_several_kernels_does_not_say_whose_the_bytes_are(write_trace: WriteTrace) -> None:
    group = [call(10, "ncclAllReduce", 4000), call(12, "ncclAllReduce", 1000)]
    table = of_rows(write_trace, *group, launch(20, RING_LL, 1), launch(25, RING_LL, 2))

    assert [row.bytes for row in table.rows] == [None, None]
    assert "is not known" in str(bandwidth(table.rows[0], 5.0).cannot_tell_because)


def test_calls_belong_to_launches_of_their_stream_and_thread(write_trace: WriteTrace) -> None:
    table = of_rows(
        write_trace,
        call(10, "ncclAllReduce", 4000, us=5),
        call(11, "ncclAllGather", 800, stream=2, us=5),
        launch(12, GATHER, 1, stream=2),
        launch(13, RING_LL, 2),
        call(12, "ncclBroadcast", 64, tid=8, lane=2),
    )

    assert {(row.operation, row.bytes, row.kernels) for row in table.rows} == {
        ("all-reduce", 4000, (RING_LL,)),
        ("all-gather", 800, (GATHER,)),
    }


def test_calls_that_failed_moved_nothing(write_trace: WriteTrace) -> None:
    table = of_rows(
        write_trace,
        call(10, "ncclAllReduce", 4000, result=5),
        call(20, "ncclAllReduce", 8000),
        launch(21, RING_LL, 1),
    )

    assert [row.bytes for row in table.rows] == [8000]


@pytest.mark.parametrize(
    "attributes", [None, "", "{", "[]", '{"ranks": "many"}', '{"ranks": 99999999999999999999}', "ranks\x00"]
)
def test_attributes_that_make_no_sense_are_not_known(write_trace: WriteTrace, attributes: str | None) -> None:
    table = of_rows(
        write_trace,
        call(10, "ncclAllReduce", 4000, attributes=attributes),
        launch(11, RING_LL, 1),
        run(12, 4, RING_LL, 1),
    )
    (row,) = table.rows

    assert (row.ranks, row.datatypes, row.bytes) == (None, (), 4000)
    found = bandwidth(row, row.gpu_median_us)
    assert found.algorithm_gb_per_s == pytest.approx(1.0)
    assert found.cannot_tell_because == "no bus bandwidth: the number of ranks is not known"


def test_a_function_that_this_version_does_not_know(write_trace: WriteTrace) -> None:
    table = of_rows(write_trace, call(10, "ncclFutureThing", 64), launch(11, "ncclDevKernel_Future", 1))

    assert [row.operation for row in table.rows] == ["unknown operation"]


def test_sizes_of_one_bucket_are_one_row(write_trace: WriteTrace) -> None:
    rows = []
    for index, size in enumerate((4096, 5000, 8191, 8192)):
        rows += [call(100 * index, "ncclAllReduce", size), launch(100 * index, RING_LL, index)]
    table = of_rows(write_trace, *rows)

    assert {(row.from_bytes, row.below_bytes, row.bytes, row.runs) for row in table.rows} == {
        (4096, 8192, 5000, 3),
        (8192, 16384, 8192, 1),
    }


# ---- bandwidths


@pytest.mark.parametrize(
    ("operation", "ranks", "factor"),
    [
        ("all-reduce", 2, 1.0),
        ("all-reduce", 8, 1.75),
        ("all-gather", 4, 0.75),
        ("reduce-scatter", 4, 0.75),
        ("all-to-all", 8, 0.875),
        ("gather", 4, 0.75),
        ("broadcast", 4, 1.0),
        ("reduce", None, 1.0),
        ("send/receive", 4, 1.0),
        ("all-reduce", None, None),
        ("all-reduce", 1, None),
        ("group of several operations", 4, None),
        ("all-reduce (mine)", 4, None),
    ],
)
def test_factors_of_the_bus(operation: str, ranks: int | None, factor: float | None) -> None:
    assert bus_factor(operation, ranks) == factor


def test_the_published_all_reduce_is_found_again(tmp_path: Path) -> None:
    row = row_of(table_for(tmp_path, ranks=4), "all-reduce", PREFILL_BYTES)
    # 185 GB/s of bus bandwidth with 4 ranks.
    us = PREFILL_BYTES * 1.5 / 185e3
    found = bandwidth(row, us)

    assert found.bus_gb_per_s == pytest.approx(185)
    assert found.algorithm_gb_per_s == pytest.approx(185 / 1.5)
    assert found.cannot_tell_because is None
    assert bandwidth(row, None).cannot_tell_because == "no GPU time is known"


# ---- what there is to say


def test_a_server_on_one_gpu_has_none(write_trace: WriteTrace) -> None:
    built = build(Load(steps=20)).table
    table = collective_table(write_trace("one", built))
    known = Metadata().with_value("hardware.gpus", "1")
    on_one = collective_table(write_trace("known", built, metadata=known))

    assert table.rows == ()
    assert "a program on one GPU has none" in str(table.none_because)
    assert "made on one GPU" in str(on_one.none_because)
    assert table.no_times_because is not None


def test_an_empty_recording(write_trace: WriteTrace) -> None:
    table = collective_table(write_trace("empty", table_of([])))

    assert (table.rows, table.samples, table.steps) == ((), (), 0)
    assert table.none_because


def test_without_steps_everything_counts(write_trace: WriteTrace) -> None:
    table = of_rows(write_trace, call(10, "ncclAllReduce", 4000), launch(11, RING_LL, 1))
    (row,) = table.rows

    assert (row.runs, row.per_step, row.bytes_per_step) == (1, None, None)
    assert table.no_steps_because


def test_states_of_the_recording_are_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    rows = rows_of(Tp(steps=12))
    emulated = Metadata(emulation=Emulation("b200-tdx", ("nvlink",), {}, None), collector=Collector())
    table = collective_table(write_trace("emulated", rows, metadata=emulated))
    launch_only = replace(emulated, emulation=Emulation("b200-tdx", ("launch",), {}, None))

    assert (table.emulated, table.distorted) == (True, True)
    assert not collective_table(write_trace("launch", rows, metadata=launch_only)).emulated


def test_what_is_kept_for_other_ranks_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cctrace.analyzers.collective_table.MAX_SAMPLED", 500)
    table = table_for(tmp_path)
    kept = [len(sample) for sample in table.samples]

    assert MAX_SAMPLED > 500 >= sum(kept) > 0
    # Both ranks keep the same stretches of time.
    assert max(kept) <= min(kept) + 3
