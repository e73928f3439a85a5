"""Corrects the mapping of a GPU's clock where readings were disturbed: by launches of its runs, and waits."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.clock_bounds import NOISE_NS, Bounds, correct
from cctrace.collectors.spool.gpu_clock import ClockMap, are_sane
from cctrace.collectors.spool.spoolfile import Records, take
from cctrace.collectors.spool.stamps import Pairs
from cctrace.collectors.spool.waits import waited_for

TRUSTED_GAP_NS: Final = 60_000
"""A reading of an idle H200 takes 20 to 30 µs. One that took twice as long was disturbed, and the mapping is
checked against launches and waits instead."""

EXCEPTIONS: Final = 0.01
"""Share of runs that may contradict a mapping that is kept: some belong to a stretch where the clocks drifted
apart and back."""


def corrected(
    clock: ClockMap, runs: Pairs, launches: Records, readings: Records, waits: Records, *, one_device: bool
) -> ClockMap | None:
    """The mapping without the error of disturbed readings; None if there is nothing to correct.

    Args:
        clock: the mapping by the readings.
        runs: runs of graphs in GPU time.
        launches: the launch of each run.
        readings: clock readings of the device.
        waits: waits of the host and records of events, by start.
        one_device: the process used no other GPU.
    """
    if not len(runs):
        return None
    readings = take(readings, are_sane(readings["start_ns"], readings["object"], readings["bytes"]))
    begin, end = _on_host(clock, runs.begin_ns), _on_host(clock, runs.end_ns)
    after = Bounds(clock.since_origin(runs.begin_ns), _float(launches["start_ns"].astype(np.int64) - begin))
    order = np.argsort(launches["start_ns"], kind="stable")
    wait, run = waited_for(waits, take(launches, order), one_device=one_device)
    run = order[run]
    before = Bounds(
        clock.since_origin(runs.end_ns[run]), _float(waits["end_ns"][wait].astype(np.int64) - end[run])
    )
    if _plausible(readings, after, before):
        return None
    earliest, latest = _of_readings(clock, readings)
    correction = correct(after, before, earliest, latest)
    return None if correction is None else clock.corrected(correction)


def _on_host(clock: ClockMap, gpu_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return clock.to_monotonic(gpu_ns.astype(np.uint64))


def _float(values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return values.astype(np.float64)


def _plausible(readings: Records, after: Bounds, before: Bounds) -> bool:
    """Whether the readings were undisturbed, and what they say is possible within their own error."""
    gap = float(readings["bytes"].max(initial=0))
    if gap > TRUSTED_GAP_NS:
        return False
    early = np.quantile(after.limit, 1 - EXCEPTIONS)
    late = -np.quantile(before.limit, EXCEPTIONS) if len(before) else 0.0
    return bool(max(early, late) <= gap / 2 + NOISE_NS)


def _of_readings(clock: ClockMap, readings: Records) -> tuple[Bounds, Bounds]:
    """The correction that each reading allows: the GPU was read between the two readings of the host."""
    gpu, host = readings["object"].astype(np.int64), readings["start_ns"].astype(np.int64)
    at, off = clock.since_origin(gpu), _float(host - _on_host(clock, gpu))
    half = readings["bytes"].astype(np.float64) / 2
    return Bounds(at, off - half), Bounds(at, off + half)
