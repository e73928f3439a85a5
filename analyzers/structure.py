"""Step classes: steps that hold the same calls, and may therefore be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.calls import ALLOC, CAPTURE, COPY_KIND, Calls
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray
from cctrace.analyzers.forms import BLOCK
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
STRETCHES: Final = 1 << 13
"""Stretches of calls that are summed up together: a few hundred thousand calls."""


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
    step = np.empty(len(calls), np.int32)
    # Before, between and behind the steps lie stretches that are none.
    numbers = np.full(2 * len(start_ns) + 1, -1, np.int32)
    numbers[1::2] = np.arange(len(start_ns))
    for rows, first, last in _stretches(calls, start_ns, end_ns):
        edges = np.stack((first, last), axis=1).reshape(-1)
        lengths = np.diff(edges, prepend=0, append=rows.stop - rows.start)
        step[rows] = np.repeat(numbers, lengths)
    return step


def rows_within(calls: Calls, start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Positions of the calls that begin within steps, and the step of each; order of the calls is kept."""
    stretches = list(_stretches(calls, start_ns, end_ns))
    count = sum(int((last - first).sum()) for _, first, last in stretches)
    found, steps = np.empty(count, np.int32), np.empty(count, np.int32)
    numbers = np.arange(len(start_ns), dtype=np.int32)
    end = 0
    for rows, first, last in stretches:
        length = last - first
        begin, end = end, end + int(length.sum())
        # A call's place among all calls, less its place among those that are found, is one per step.
        ahead = (rows.start + first - (np.cumsum(length) - length)).astype(np.int32)
        np.add(np.repeat(ahead, length), np.arange(end - begin, dtype=np.int32), out=found[begin:end])
        steps[begin:end] = np.repeat(numbers, length)
    return found, steps


def _stretches(
    calls: Calls, start_ns: IntArray, end_ns: IntArray
) -> Iterator[tuple[slice, IntArray, IntArray]]:
    """For each thread its calls, and the stretch [first, last) of them that begins within each step.

    Calls of a thread are sorted, so a step is a stretch of them: cheaper than a search for every call.
    """
    for _, _, rows in calls.threads:
        first = np.searchsorted(calls.start_ns[rows], start_ns)
        # Most steps end where the next one begins.
        last = np.append(first[1:], 0)
        apart = np.flatnonzero(end_ns != np.append(start_ns[1:], -1))
        last[apart] = np.searchsorted(calls.start_ns[rows], end_ns[apart])
        yield rows, first, np.maximum(last, first)


def per_step(step: IntArray, values: IntArray | BoolArray, steps: int) -> IntArray:
    """The sum of the values of each step.

    Args:
        step: step of each value, −1 for those of none; neighbours mostly have the same.
        values: integers, or True for 1.
        steps: number of steps.
    """
    if not len(step):
        return np.zeros(steps, np.int64)
    begins = np.concatenate(([0], np.flatnonzero(step[1:] != step[:-1]) + 1))
    of_step = step[begins]
    sums = np.concatenate(
        [
            # In parts: numpy widens all values that it gets.
            np.add.reduceat(values[part[0] : end], part - part[0], dtype=np.int64)
            for part, end in _parts(begins, len(values))
        ]
    )
    inside = of_step >= 0
    total = np.zeros(steps, np.int64)
    np.add.at(total, of_step[inside], sums[inside])
    return total


def _parts(begins: IntArray, end: int) -> Iterator[tuple[IntArray, int]]:
    """Begins of stretches some thousand at a time, and where the last of them ends."""
    for first in range(0, len(begins), STRETCHES):
        following = first + STRETCHES
        yield begins[first:following], int(begins[following]) if following < len(begins) else end


def set_up_steps(calls: Calls, step: IntArray, steps: int) -> tuple[BoolArray, BoolArray]:
    """Which steps hold an allocation, and which a graph capture: (allocates, captures)."""
    allocates, captures = (
        _steps_with(calls, step, steps, calls.forms.kind == kind) for kind in (ALLOC, CAPTURE)
    )
    return allocates, captures


def _steps_with(calls: Calls, step: IntArray, steps: int, wanted: BoolArray) -> BoolArray:
    """Which steps hold a call of a wanted form."""
    if not (wanted & calls.occurs).any():
        return np.zeros(steps, np.bool_)
    found = step[np.flatnonzero(calls.each(wanted))]
    holds = np.zeros(steps, np.bool_)
    holds[found[found >= 0]] = True
    return holds


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
    forms = calls.forms
    operation = (forms.operation.astype(np.int32) + 1) * directions + forms.copy_kind + 1
    key = operation * (MAX_STREAM + 1) + np.minimum(forms.stream + 1, MAX_STREAM)
    counted = np.flatnonzero(calls.occurs & ~forms.is_operation("query"))
    keys, column = np.unique(key[counted], return_inverse=True)
    # Queries get a column that is emptied again: to leave them out before takes longer.
    queries = len(keys)
    column_of_form = np.full(len(forms), queries, np.int64)
    column_of_form[counted] = column.reshape(-1)
    counts = np.zeros((steps, queries + 1), np.int64)
    for begin in range(0, len(calls), BLOCK):
        of_step, form = step[begin : begin + BLOCK], calls.form[begin : begin + BLOCK]
        inside = of_step >= 0
        if not inside.all():
            of_step, form = of_step[inside], form[inside]
        if len(of_step):
            first, last = int(of_step.min()), int(of_step.max()) + 1
            cell = (of_step - first) * np.int64(queries + 1) + column_of_form[form]
            found = np.bincount(cell, minlength=(last - first) * (queries + 1))
            counts[first:last] += found.reshape(-1, queries + 1)
    counts[:, queries] = 0
    used = counts.any(axis=0)
    return counts[:, used] if used.any() else counts[:, :1]


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
    forms = calls.forms
    read_back = np.flatnonzero(calls.each(forms.is_copy & (forms.copy_kind == COPY_KIND["d2h"])))
    size = per_step(step[read_back], np.maximum(forms.bytes, 0)[calls.form[read_back]], steps)
    if (size > 0).any():
        return np.where(size > 0, np.log2(np.maximum(size, 1)).astype(np.int64), NO_BATCH), "read-back"
    graphs = calls.each(forms.submits("graph"))
    only_one: BoolArray = per_step(step, graphs, steps) == 1
    graphs = np.flatnonzero(graphs)
    number = per_step(step[graphs], forms.graph_id[calls.form[graphs]], steps)
    return np.where(only_one, number, NO_BATCH), "graph" if only_one.any() else ""
