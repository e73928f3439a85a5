"""Step classes: steps that hold the same calls, and may therefore be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.calls import COPY_KIND, OPERATION, Calls
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray
from cctrace.trace.schema import COPY_KINDS

SAME_STRUCTURE: Final = 0.9
"""Two steps are of one class if this part of their calls is the same: an event or copy more in a step of 30
calls is, a prefill is not."""
SAME_PHASE: Final = 0.7
"""A class that shares this part of its calls with the most frequent one is a variant of it (a step that also
extends a block table), not another phase."""
MAX_CLASSES: Final = 48
"""Structures told apart; what is left after so many is one class of leftovers."""
MAX_STREAM: Final = 62
"""Streams told apart; programs that use more are alike in the rest."""
NO_BATCH: Final = -1


@dataclass(frozen=True, eq=False)
class Structure:
    """What the calls of each step look like.

    Attributes:
        cluster: structure of each step, numbered from 0 by frequency; −1 for leftovers.
        likeness: per structure, the part (0–1) of calls it shares with structure 0.
        batch: what tells batch sizes apart, per step: bit length of the bytes read back, or the number of the
            step's only graph; NO_BATCH if neither is known.
        batch_known_by: "read-back", "graph" or "": numbers of graphs say nothing between two recordings.
    """

    cluster: IntArray
    likeness: FloatArray
    batch: IntArray
    batch_known_by: str


def step_of(calls: Calls, start_ns: IntArray, end_ns: IntArray) -> IntArray:
    """Index of the step in which each call begins, −1 outside; steps are sorted and do not overlap."""
    step = np.full(len(calls), -1, np.int64)
    rows, of_row = rows_within(calls, start_ns, end_ns)
    step[rows] = of_row
    return step


def rows_within(calls: Calls, start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Positions of the calls that begin within steps, and the step of each; order of the calls is kept."""
    numbers = np.arange(len(start_ns))
    found: list[IntArray] = [np.zeros(0, np.int64)]
    steps: list[IntArray] = [np.zeros(0, np.int64)]
    for _, _, rows in calls.threads:
        # Calls of a thread are sorted, so a step is a stretch of them: cheaper than a search for every call.
        first = np.searchsorted(calls.start_ns[rows], start_ns)
        length = np.maximum(np.searchsorted(calls.start_ns[rows], end_ns), first) - first
        before = np.cumsum(length) - length
        found.append(np.repeat(first - before + rows.start, length) + np.arange(int(length.sum())))
        steps.append(np.repeat(numbers, length))
    return np.concatenate(found), np.concatenate(steps)


def structure_of(calls: Calls, step: IntArray, steps: int) -> Structure:
    """Groups steps by the calls of one thread.

    Args:
        calls: submissions and waits of the thread that submits most; queries are left out, as their number is
            chance.
        step: step of each call, −1 outside.
        steps: number of steps.
    """
    counts = _counts(calls, step, steps)
    cluster, representatives = _clusters(counts)
    first = representatives[0] if len(representatives) else np.zeros(counts.shape[1], np.int64)
    likeness = np.array([_alike(row[None, :], first)[0] for row in representatives], np.float64)
    return Structure(cluster, likeness, *_batch(calls, step, steps))


def _counts(calls: Calls, step: IntArray, steps: int) -> IntArray:
    """Calls per step (rows) and per operation, direction and stream (columns)."""
    directions = len(COPY_KINDS) + 1
    operation = (calls.operation.astype(np.int32) + 1) * directions + calls.copy_kind + 1
    key = operation * (MAX_STREAM + 1) + np.minimum(calls.stream + 1, MAX_STREAM)
    used = (step >= 0) & ~calls.is_operation("query")
    if not used.all():
        key, step = key[used], step[used]
    occurs = np.bincount(key) > 0
    columns = max(int(occurs.sum()), 1)
    column = (np.cumsum(occurs) - 1)[key]
    return np.bincount(step * columns + column, minlength=steps * columns).reshape(steps, columns)


def _clusters(counts: IntArray) -> tuple[IntArray, list[IntArray]]:
    # Rows are told apart by a hash: sorting numbers is much cheaper than sorting rows.
    weights = np.random.default_rng(0).integers(1, 1 << 62, counts.shape[1])
    _, first, pattern_of_step, frequency = np.unique(
        (counts * weights).sum(axis=1), return_index=True, return_inverse=True, return_counts=True
    )
    patterns = counts[first]
    cluster_of_pattern = np.full(len(patterns), -1, np.int64)
    weight = frequency.astype(np.int64)
    representatives: list[IntArray] = []
    while len(representatives) < MAX_CLASSES and (weight > 0).any():
        representative = patterns[int(np.argmax(weight))]
        alike = (weight > 0) & (_alike(patterns, representative) >= SAME_STRUCTURE)
        alike[int(np.argmax(weight))] = True
        cluster_of_pattern[alike] = len(representatives)
        weight = np.where(alike, 0, weight)
        representatives.append(representative)
    return _by_frequency(cluster_of_pattern[pattern_of_step], representatives)


def _by_frequency(cluster: IntArray, representatives: list[IntArray]) -> tuple[IntArray, list[IntArray]]:
    sizes = np.bincount(cluster[cluster >= 0], minlength=len(representatives))
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty(len(order) + 1, np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    return rank[cluster], [representatives[index] for index in order]


def _alike(patterns: IntArray, representative: IntArray) -> FloatArray:
    common = np.minimum(patterns, representative).sum(axis=1)
    larger = np.maximum(patterns.sum(axis=1), representative.sum())
    # Two steps without a call are alike.
    return np.where(larger == 0, 1.0, common / np.maximum(larger, 1)).astype(np.float64)


def _batch(calls: Calls, step: IntArray, steps: int) -> tuple[IntArray, str]:
    read_back = (step >= 0) & calls.is_copy & (calls.copy_kind == COPY_KIND["d2h"])
    size = np.bincount(step[read_back], weights=np.maximum(calls.bytes[read_back], 0), minlength=steps)
    if (size > 0).any():
        return np.where(size > 0, np.log2(np.maximum(size, 1)).astype(np.int64), NO_BATCH), "read-back"
    graphs = (step >= 0) & calls.is_work & (calls.operation == OPERATION["graph"])
    only_one: BoolArray = np.bincount(step[graphs], minlength=steps) == 1
    number = np.bincount(step[graphs], weights=calls.graph_id[graphs], minlength=steps).astype(np.int64)
    return np.where(only_one, number, NO_BATCH), "graph" if only_one.any() else ""
