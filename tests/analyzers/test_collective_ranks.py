"""Ranks joined: the time on the wire and the wait for the latest rank, from the times of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collective_traces import (
    DECODE_BYTES,
    FIRST_PID,
    LOGIT_BYTES,
    PREFILL_BYTES,
    TOKEN_BYTES,
    Tp,
    wire_us,
    written,
)

from cctrace.analyzers.collective_ranks import JoinedRanks, joined_ranks
from cctrace.analyzers.collective_table import CollectiveTable, collective_table

SIZES = {
    "all-reduce": DECODE_BYTES,
    "all-gather": LOGIT_BYTES,
    "all-to-all": TOKEN_BYTES,
}


def table_for(folder: Path, name: str = "tp", pid: int | None = None, **values: Any) -> CollectiveTable:
    return collective_table(written(folder / f"{name}.parquet", Tp(**values), pid=pid))


def by_size(joined: JoinedRanks) -> dict[tuple[str, int | None], Any]:
    return {(operation, smallest): row for (operation, _, _, smallest), row in joined.rows.items()}


@pytest.mark.parametrize(("ranks", "late_us"), [(2, 0.0), (2, 40.0), (4, 40.0)])
def test_the_wire_time_holds_no_waiting(tmp_path: Path, ranks: int, late_us: float) -> None:
    table = table_for(tmp_path, ranks=ranks, late_us=late_us)
    joined = joined_ranks([table])
    rows = by_size(joined)

    assert joined.cannot_tell_because is None
    assert len(joined.pids) == ranks
    for operation, size in (*SIZES.items(), ("all-reduce", PREFILL_BYTES)):
        row = rows[operation, size]
        assert row.ranks == ranks
        assert row.wire_median_us == pytest.approx(wire_us(size), rel=0.02)
        assert row.skew_median_us <= late_us
        (of_table,) = (one for one in table.rows if one.operation == operation and one.bytes == size)
        assert row.runs == pytest.approx(of_table.runs / ranks, abs=2)
        assert of_table.gpu_median_us is not None
        assert row.wire_median_us <= of_table.gpu_median_us
    if late_us:
        # Uniform between 0 and late_us: the range of two values is a third of it in the mean, of four 3 ÷ 5.
        expected = late_us * (ranks - 1) / (ranks + 1)
        assert rows["all-reduce", DECODE_BYTES].skew_median_us == pytest.approx(expected, rel=0.3)


def test_ranks_in_files_of_their_own_are_joined_as_in_one(tmp_path: Path) -> None:
    whole = joined_ranks([table_for(tmp_path)])
    apart = joined_ranks([table_for(tmp_path, f"rank{n}", pid=FIRST_PID + 10 * n) for n in range(2)])

    assert apart.pids == whole.pids
    assert apart.rows == whole.rows


def test_the_rank_that_comes_last_is_named(tmp_path: Path) -> None:
    table = table_for(tmp_path, late_us=0.0)
    first, second = table.samples
    late = replace(second, start_ns=second.start_ns + 2000)
    row = by_size(joined_ranks([replace(table, samples=(first, late))]))["all-reduce", DECODE_BYTES]

    assert (row.late_pid, row.late_share) == (second.pid, 1.0)
    assert row.skew_median_us == pytest.approx(2.0)


def test_one_rank_alone_cannot_tell(tmp_path: Path) -> None:
    one = joined_ranks([table_for(tmp_path, pid=FIRST_PID)])
    none = joined_ranks([table_for(tmp_path, gpu="none")])

    assert (one.rows, one.cannot_tell_because) == ({}, "GPU times of one rank only are known here")
    assert none.cannot_tell_because == "GPU times of no rank are known here"


def test_repeats_are_no_ranks(tmp_path: Path) -> None:
    table = table_for(tmp_path, pid=FIRST_PID)
    (sample,) = table.samples
    hour = 3600 * 10**9
    later = replace(sample, start_ns=sample.start_ns + hour, end_ns=sample.end_ns + hour)

    assert "do not run at the same time" in str(
        joined_ranks([table, replace(table, samples=(later,))]).cannot_tell_because
    )


def test_hosts_have_clocks_of_their_own(tmp_path: Path) -> None:
    table = table_for(tmp_path)

    assert "clocks differ" in str(joined_ranks([table, replace(table, host="node8")]).cannot_tell_because)


def test_replicas_that_run_other_collectives_are_left_out(tmp_path: Path) -> None:
    table = table_for(tmp_path)
    # A third process of another group: the same operations, at times of its own.
    stranger = replace(
        table.samples[0],
        pid=9999,
        start_ns=table.samples[0].start_ns + 400_000,
        end_ns=table.samples[0].end_ns + 400_000,
    )
    joined = joined_ranks([replace(table, samples=(*table.samples, stranger))])

    assert joined.pids == (FIRST_PID, FIRST_PID + 10)


def test_a_rank_that_lost_some_runs_is_joined_by_the_rest(tmp_path: Path) -> None:
    table = table_for(tmp_path)
    first, second = table.samples
    kept = np.arange(len(second)) % 5 != 0
    partial = replace(
        second, what=second.what[kept], start_ns=second.start_ns[kept], end_ns=second.end_ns[kept]
    )
    whole, joined = joined_ranks([table]), joined_ranks([replace(table, samples=(first, partial))])

    assert joined.pids == whole.pids
    key = next(key for key in joined.rows if key[3] == DECODE_BYTES)
    assert joined.rows[key].runs == pytest.approx(0.8 * whole.rows[key].runs, rel=0.02)
    assert joined.rows[key].wire_median_us == pytest.approx(whole.rows[key].wire_median_us, rel=0.02)
