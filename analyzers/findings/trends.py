"""What a sweep of pairs says that no single pair can: where the loss goes with concurrency or input length.

The diagnoses are those of the published sweeps: a loss that rises with concurrency while the GPU gets less
busy is the read-back; one that falls with it is a fixed toll per step; one that rises with input length while
NVLink's share grows is encrypted NVLink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.result import Attribution
from cctrace.analyzers.results import Result, value
from cctrace.analyzers.sentences import percent
from cctrace.trace import Metadata

MIN_POINTS: Final = 3
"""Two points always lie on a line."""
MIN_CHANGE_PCT: Final = 2.0
"""Change of the loss over the sweep, in points, that is a trend: single runs of the published sweeps differ
by as much."""
MIN_AGREEMENT: Final = 0.6
"""Kendall's tau of a trend: at least four of five pairs of points go its way."""
MIN_BUSY_DROP_PCT: Final = 5.0
"""Points of GPU utilization that the on arm must lie below the off arm: NVML's counter is coarse. The
published case has 74 against 57 %."""
CONCURRENCY, INPUT_LENGTH = "concurrency", "input length"


@dataclass(frozen=True, kw_only=True)
class SweepPoint(Result):
    """One pair of a sweep; null is not known."""

    concurrency: float | None = value("requests in flight", "requests")
    input_len: float | None = value("length of the inputs", "tokens")
    loss_pct: float = value("throughput loss: 1 − on ÷ off; denominator: the off arm's throughput", "%")
    off_utilization_pct: float | None = value("GPU utilization of the off arm", "%")
    on_utilization_pct: float | None = value("GPU utilization of the on arm", "%")
    nvlink_pct: float | None = value("NVLink's share of the difference, of the off arm's step", "%")
    overlap_pct: float | None = value("lost overlap's share of the difference, of the off arm's step", "%")


@dataclass(frozen=True, kw_only=True)
class Trend(Result):
    """What one axis of a sweep says."""

    axis: str = value("concurrency or input length")
    points: int = value("points of the sweep that know it", "points")
    change_pct: float | None = value("loss at the largest value − loss at the smallest", "%")
    agreement: float | None = value("Kendall's tau of the loss: 1 rises throughout, −1 falls throughout")
    diagnosis: str = value("read-back, fixed toll, nvlink, no trend, unexplained, or cannot tell")
    text: str = value("what it means, one sentence")
    remedy: str | None = value("what to change; null if there is nothing")


def sweep_point(attribution: Attribution, off: Metadata, on: Metadata) -> SweepPoint:
    """The point of a sweep that one pair makes; throughput by the load client, else from the steps."""
    load, shares = off.acceptance.load, attribution.shares
    first, second = off.acceptance.results, on.acceptance.results
    loss = 1 - attribution.off_step_us / attribution.on_step_us
    if first.output_throughput and second.output_throughput:
        loss = 1 - second.output_throughput / first.output_throughput
    nvlink = shares.nvlink if shares else None
    return SweepPoint(
        concurrency=load.concurrency,
        input_len=load.input_len if isinstance(load.input_len, int) else None,
        loss_pct=100 * loss,
        off_utilization_pct=first.utilization,
        on_utilization_pct=second.utilization,
        nvlink_pct=nvlink.share_pct_of_off if nvlink else None,
        overlap_pct=shares.overlap.share_pct_of_off if shares else None,
    )


def trends_of(points: Sequence[SweepPoint]) -> tuple[Trend, ...]:
    """What a sweep says, for each axis along which its points differ."""
    axes: tuple[tuple[str, Callable[[SweepPoint], float | None]], ...] = (
        (CONCURRENCY, lambda one: one.concurrency),
        (INPUT_LENGTH, lambda one: one.input_len),
    )
    found = []
    for axis, of in axes:
        known = [(position, one) for one in points if (position := of(one)) is not None]
        if len({position for position, _ in known}) > 1:
            known.sort(key=lambda item: item[0])
            found.append(_trend(axis, [position for position, _ in known], [one for _, one in known]))
    return tuple(found)


def _trend(axis: str, positions: Sequence[float], points: Sequence[SweepPoint]) -> Trend:
    losses = [one.loss_pct for one in points]
    change, agreement = _ends(positions, losses), _kendall(positions, losses)
    if len(set(positions)) < MIN_POINTS:
        diagnosis, text, remedy = "cannot tell", f"{len(set(positions))} points of {axis} show no trend", None
    elif abs(change) < MIN_CHANGE_PCT or abs(agreement) < MIN_AGREEMENT:
        diagnosis, remedy = "no trend", None
        text = f"the loss does not follow the {axis}: it changes by {_points(change)} over the sweep"
    else:
        verb = "rises" if change > 0 else "falls"
        along = f"the loss {verb} with the {axis}, by {_points(change)} over the sweep"
        explain = _by_concurrency if axis == CONCURRENCY else _by_input_length
        diagnosis, why, remedy = explain(positions, points, rises=change > 0)
        text = f"{along}: {why}"
    return Trend(
        axis=axis,
        points=len(points),
        change_pct=change,
        agreement=agreement,
        diagnosis=diagnosis,
        text=text,
        remedy=remedy,
    )


Diagnosis = tuple[str, str, str | None]


def _by_concurrency(positions: Sequence[float], points: Sequence[SweepPoint], *, rises: bool) -> Diagnosis:
    if not rises:
        remedy = "Larger batches carry it better; fewer submissions and copies a step make it smaller"
        return "fixed toll", "a toll per step that larger batches share", remedy
    drops = [
        one.off_utilization_pct - one.on_utilization_pct
        for one in points
        if one.off_utilization_pct is not None and one.on_utilization_pct is not None
    ]
    overlap = _grows(positions, [one.overlap_pct for one in points])
    remedy = "Let a thread of its own copy the tokens back (asynchronous D2H worker)"
    if drops and max(drops) >= MIN_BUSY_DROP_PCT:
        why = f"the GPU is up to {_points(max(drops))} less busy: the read-back holds the scheduler up"
        return "read-back", why, remedy
    if overlap:
        return (
            "read-back",
            "the share of lost overlap grows with it, so the read-back holds the scheduler up",
            remedy,
        )
    if not drops and overlap is None:
        return "cannot tell", "neither the GPUs' utilization nor shares are known", None
    return "unexplained", "but the GPU is as busy as without CC, so it is not the read-back", None


def _by_input_length(positions: Sequence[float], points: Sequence[SweepPoint], *, rises: bool) -> Diagnosis:
    if not rises:
        return "fixed toll", "a toll per step or request that longer inputs share", None
    nvlink = _grows(positions, [one.nvlink_pct for one in points])
    if nvlink is None:
        return "cannot tell", "NVLink's share is not known", None
    if not nvlink:
        return "unexplained", "but NVLink's share does not grow with it", None
    remedy = "Size tensor parallelism to the model; use expert or data parallelism instead"
    return "nvlink", "NVLink's share grows with it, as more bytes are exchanged", remedy


def _grows(positions: Sequence[float], shares: Sequence[float | None]) -> bool | None:
    """Whether a share follows the axis upwards; None if too few points know it."""
    known = [
        (position, share) for position, share in zip(positions, shares, strict=True) if share is not None
    ]
    if len({position for position, _ in known}) < MIN_POINTS:
        return None
    where, values = [position for position, _ in known], [share for _, share in known]
    return _kendall(where, values) >= MIN_AGREEMENT and _ends(where, values) >= MIN_CHANGE_PCT / 2


def _ends(positions: Sequence[float], values: Sequence[float]) -> float:
    """Mean of the values at the largest position − mean of those at the smallest."""
    where, what = np.asarray(positions, np.float64), np.asarray(values, np.float64)
    return float(what[where == where.max()].mean() - what[where == where.min()].mean())


def _kendall(positions: Sequence[float], values: Sequence[float]) -> float:
    """Kendall's tau: pairs that go up − pairs that go down, of all pairs at different positions."""
    where, what = np.asarray(positions, np.float64), np.asarray(values, np.float64)
    first, second = np.triu_indices(len(where), 1)
    apart = np.sign(where[second] - where[first])
    moved = np.sign(what[second] - what[first])
    pairs = int(np.count_nonzero(apart))
    return float((apart * moved).sum() / pairs) if pairs else 0.0


def _points(change: float) -> str:
    return percent(abs(change) / 100).replace(" %", " points")
