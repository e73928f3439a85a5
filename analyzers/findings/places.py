"""Places in the step: the n-th call of a kind on its thread, the same in every step; and their evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.categories import CATEGORIES
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.findings.result import Evidence, Example
from cctrace.analyzers.findings.savings import time_us
from cctrace.analyzers.findings.view import StepView, positions_in
from cctrace.analyzers.results import microseconds
from cctrace.analyzers.scope import Scope
from cctrace.analyzers.sentences import bytes_text, count_text, time_text
from cctrace.trace.schema import MEMORY_KINDS

MAX_PLACES: Final = 3
"""Places that a finding names; the others do the same."""
ONE_PLACE: Final = 1.5
"""Calls that come more often in a step are several places, and have no position in common."""


@dataclass(frozen=True, eq=False)
class Place:
    """Calls of one category, at one place of the step; rows are positions in the scope."""

    rows: IntArray
    blocked_share: float
    us_per_step: float


def places_of(view: StepView, rows: IntArray) -> list[Place]:
    """Groups calls by thread, category and how many of that category came before in the step.

    Returns:
        The places, most time first.
    """
    scope = view.scope
    tid, category = scope.calls.tid[rows].astype(np.int64), scope.category[rows]
    number = _number_within(tid, scope.step[rows], category)
    keys = np.stack([tid, category, number], axis=1)
    found, place = np.unique(keys, axis=0, return_inverse=True)
    place = place.reshape(-1)
    made = [_place(view, rows[place == index]) for index in range(len(found))]
    return sorted(made, key=lambda one: -one.us_per_step)


def _place(view: StepView, rows: IntArray) -> Place:
    return Place(rows, float(view.scope.waited[rows].mean()), time_us(view, rows))


def _number_within(*keys: IntArray) -> IntArray:
    """For each element how many elements with the same keys come before it."""
    order = np.lexsort(keys[::-1])
    changes = np.zeros(len(order), np.bool_)
    for key in keys:
        changes[1:] |= np.diff(key[order]) != 0
    first = np.maximum.accumulate(np.where(changes, np.arange(len(order)), 0))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order)) - first
    return number


def evidence(view: StepView, rows: IntArray, text: str | None = None, scope: Scope | None = None) -> Evidence:
    """What calls of one kind show.

    Args:
        view: the steps.
        rows: positions of the calls, at least one.
        text: what was seen; None: how many there are, and how long they take.
        scope: what the positions lie in; None: the typical steps.
    """
    scope = scope or view.scope
    calls = scope.calls.pick(rows)
    category = CATEGORIES[int(np.bincount(scope.category[rows]).argmax())]
    threads, counts = np.unique(calls.tid, return_counts=True)
    position = (view.positions if scope is view.scope else positions_in(scope))[rows]
    offset = microseconds(float(np.median(calls.start_ns - scope.start_ns[scope.step[rows]])))
    sizes = calls.bytes[calls.bytes >= 0]
    size = int(np.median(sizes)) if len(sizes) else None
    per_step, us = scope.per_step(len(rows)), microseconds(scope.per_step(float(calls.duration_ns.sum())))
    once = per_step <= ONE_PLACE
    return Evidence(
        text=text or _how_many(scope, rows, category, size),
        thread=view.seen.thread_name(int(threads[np.argmax(counts)])),
        call=category,
        position=int(np.median(position)) if once else None,
        offset_us=offset if once else None,
        per_step=per_step,
        count=len(rows),
        bytes=size,
        us_per_step=us,
        example=_example(view, rows, scope),
    )


def _example(view: StepView, rows: IntArray, scope: Scope) -> Example:
    """The call whose duration is nearest to the median: an odd one would show something else."""
    duration = scope.calls.duration_ns[rows]
    row = int(rows[np.argmin(np.abs(duration - np.median(duration)))])
    begin = int(scope.start_ns[scope.step[row]])
    return Example(
        step=int(np.searchsorted(view.steps.start_ns, begin)),
        begin_us=microseconds(int(scope.calls.start_ns[row]) - begin),
        duration_us=microseconds(int(scope.calls.duration_ns[row])),
    )


def _how_many(scope: Scope, rows: IntArray, category: str, size: int | None) -> str:
    us = microseconds(scope.per_step(float(scope.calls.duration_ns[rows].sum())))
    memory = memory_of(scope, rows)
    size_text = f" of {bytes_text(size)}" if size is not None else ""
    kind = f" ({memory})" if memory else ""
    return (
        f"{count_text(scope.per_step(len(rows)))} × {category}{size_text}{kind} a step take {time_text(us)}"
    )


def memory_of(scope: Scope, rows: IntArray) -> str:
    """Host memory of most of some copies; empty if they have none."""
    memory = scope.calls.host_memory[rows]
    memory = memory[memory >= 0]
    return f"{MEMORY_KINDS[int(np.bincount(memory).argmax())]} memory" if len(memory) else ""


def seen_outside(text: str, count: int, call: str | None = None, thread: str | None = None) -> Evidence:
    """Evidence that lies in no step."""
    return Evidence(
        text=text,
        thread=thread,
        call=call,
        position=None,
        offset_us=None,
        per_step=None,
        count=count,
        bytes=None,
        us_per_step=None,
        example=None,
    )
