"""Recordings that went wrong in known ways."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from simulator.recording import SimulatedTrace

GPU_KINDS: Final = ("kernel", "graph", "copy", "memset")


def lose_rows(trace: SimulatedTrace, kind: str, share: float, seed: int = 1) -> SimulatedTrace:
    """A recording that lacks a share of the rows of one kind."""
    chosen = np.random.default_rng(seed).random(trace.table.num_rows) < share
    return trace.with_table(trace.table.filter(pa.array(~(_is_kind(trace, kind) & chosen))))


def coarse_clock(trace: SimulatedTrace, resolution_ns: int) -> SimulatedTrace:
    """A recording whose clock only shows multiples of a time."""
    start = trace.table["start_ns"].to_numpy()
    end = start + trace.table["duration_ns"].to_numpy()
    start, end = (np.round(time / resolution_ns).astype(np.int64) * resolution_ns for time in (start, end))
    return trace.with_table(_with_times(trace.table, start, end - start))


def spoil_durations(trace: SimulatedTrace, durations_ns: tuple[int, ...], seed: int = 1) -> SimulatedTrace:
    """A recording in which some rows of the GPU have durations that cannot be, one row for each given."""
    rows = np.flatnonzero(_is_kind(trace, *GPU_KINDS))
    chosen = np.random.default_rng(seed).choice(rows, len(durations_ns), replace=False)
    duration = trace.table["duration_ns"].to_numpy().copy()
    duration[chosen] = durations_ns
    return trace.with_table(_with_times(trace.table, trace.table["start_ns"].to_numpy(), duration))


def lose_lane(trace: SimulatedTrace, role: str) -> SimulatedTrace:
    """A recording without the threads of one role."""
    keep = pc.fill_null(pc.not_equal(trace.table["role"].cast(pa.string()), role), True)
    return trace.with_table(trace.table.filter(keep))


def _is_kind(trace: SimulatedTrace, *kinds: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    chosen = pc.is_in(trace.table["kind"].cast(pa.string()), pa.array(kinds))
    mask: np.ndarray[tuple[int], np.dtype[np.bool_]] = chosen.to_numpy(zero_copy_only=False)
    return mask


def _with_times(
    table: pa.Table,
    start_ns: np.ndarray[tuple[int], np.dtype[np.int64]],
    duration_ns: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> pa.Table:
    for name, values in (("start_ns", start_ns), ("duration_ns", duration_ns)):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, pa.int64()))
    return table
