"""What the on arm pays more per call, category by category: count × difference of own cost.

The time line of the submitting thread adds up exactly: a step is host code outside of calls, plus for every
call its own cost, its excess over own cost, or its wait. The difference of two steps is therefore the sum of
raw tolls, of waiting, and of the parts that `Unexplained` lists; nothing is left over but rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cctrace.analyzers.categories import CATEGORIES, CATEGORY, COPY_CATEGORIES, ORDER, WORK, group_of
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.copies import size_bucket
from cctrace.analyzers.results import Result, about, microseconds, value
from cctrace.analyzers.scope import Scope
from cctrace.analyzers.submissions import own_cost_ns
from cctrace.trace.schema import MEMORY_KINDS

_COPY_NUMBERS = tuple(CATEGORY[word] for word in COPY_CATEGORIES)


@dataclass(frozen=True, kw_only=True)
class Toll(Result):
    """One category of submissions in both arms."""

    category: str = value("kernel, graph, copy h2d, copy d2h, memset, event-record …")
    off_per_step: float = value("submissions per step in the off arm, all threads", "calls")
    on_per_step: float = value("the same in the on arm", "calls")
    off_own_cost_us: float | None = value("median time of a call that did not wait, off arm", "µs")
    on_own_cost_us: float | None = value("the same in the on arm", "µs")
    toll_us: float | None = value("what CC adds to one call: difference of own cost, copies by size", "µs")
    counted_per_step: float = value(
        "the count behind raw_toll_us_per_step: calls that both arms make without waiting, submitting thread",
        "calls",
    )
    raw_toll_us_per_step: float = value(
        "count × toll on the submitting thread, calls that waited in either arm left out", "µs"
    )
    other_threads_counted_per_step: float = value("the same count on other threads", "calls")
    other_threads_raw_toll_us_per_step: float = value(
        "the same on other threads: not on the step's time line", "µs"
    )
    cannot_tell_because: str | None = value("why there is no toll")


@dataclass(frozen=True, kw_only=True)
class WaitDifference(Result):
    """Waiting of one category of calls in both arms."""

    category: str = value("event-sync, stream-sync, copy h2d, copy d2h …")
    thread: str = value("step: the thread that submits most; other: any other")
    off_per_step: float = value("waiting calls per step in the off arm", "calls")
    on_per_step: float = value("the same in the on arm", "calls")
    off_us_per_step: float = value("waiting per step in the off arm", "µs")
    on_us_per_step: float = value("the same in the on arm", "µs")
    difference_us_per_step: float = value("on − off", "µs")


@dataclass(frozen=True, kw_only=True)
class Unexplained(Result):
    """What neither tolls nor waiting explain, and where on the submitting thread it lies."""

    total_us_per_step: float = value("delta − raw tolls − difference of waiting", "µs")
    outside_calls_us_per_step: float = value("host code outside driver calls", "µs")
    dearer_calls_us_per_step: float = value(
        "submissions above their own cost (full queue, lost CPU, encryption of larger copies)", "µs"
    )
    other_counts_us_per_step: float = value(
        "calls without a counterpart (made, or waiting, in one arm only), at their own cost", "µs"
    )
    other_calls_us_per_step: float = value("queries, allocations, captures", "µs")


@dataclass(frozen=True, kw_only=True)
class Account(Result):
    """The difference of two steps, taken apart on the submitting thread's time line."""

    tolls: tuple[Toll, ...] = value("every category of submissions, dearest first")
    toll_us_per_step: float = value("raw tolls on the submitting thread", "µs")
    waits: tuple[WaitDifference, ...] = value("waiting by category, largest difference first")
    wait_us_per_step: float = value("difference of waiting on the submitting thread", "µs")
    unexplained: Unexplained = field(metadata=about("what is left"))


@dataclass(frozen=True, eq=False)
class _Own:
    """Calls of one kind (category, copies by size) in one arm: those that did not wait."""

    calls: int
    own_thread_calls: int
    cost_ns: float | None
    own_thread_ns: float


def account_of(off: Scope, on: Scope) -> Account:
    """Takes the difference of two scopes' mean steps apart."""
    names = [category for category in CATEGORIES if group_of(category) in (WORK, ORDER)]
    met = [name for name in names if CATEGORY[name] in off.rows_of or CATEGORY[name] in on.rows_of]
    sums = {name: _sums(CATEGORY[name], off, on) for name in met}
    tolls = [_toll(name, sums[name], off, on) for name in met]
    tolls.sort(key=lambda toll: (-abs(toll.raw_toll_us_per_step), -toll.on_per_step))
    waits = _waits(off, on)
    toll_us = sum(toll.raw_toll_us_per_step for toll in tolls)
    wait_us = sum(wait.difference_us_per_step for wait in waits if wait.thread == "step")
    other_counts_us = microseconds(sum(one.other_counts_ns for one in sums.values()))
    return Account(
        tolls=tuple(tolls),
        toll_us_per_step=toll_us,
        waits=tuple(waits),
        wait_us_per_step=wait_us,
        unexplained=_unexplained(off, on, toll_us, wait_us, other_counts_us),
    )


def _kinds(scope: Scope, category: int) -> dict[int, _Own]:
    """The calls of a category that did not wait, copies by power-of-two size and host memory."""
    rows = _rows(scope, category)
    rows = rows[~scope.waited[rows]]
    if category not in _COPY_NUMBERS:
        return {0: _own(scope, rows)} if len(rows) else {}
    memory = scope.calls.host_memory[rows].astype(np.int64) + 1
    kind = size_bucket(scope.calls.bytes[rows]) * (len(MEMORY_KINDS) + 1) + memory
    return {int(number): _own(scope, rows[kind == number]) for number in np.unique(kind)}


def _rows(scope: Scope, category: int) -> IntArray:
    return scope.rows_of.get(category, np.zeros(0, np.int64))


def _own(scope: Scope, rows: IntArray) -> _Own:
    duration, own_thread = scope.calls.duration_ns[rows], scope.on_step_thread[rows]
    cost = own_cost_ns(duration, np.zeros(len(rows), np.bool_))
    return _Own(len(rows), int(own_thread.sum()), cost, float(duration[own_thread].sum()))


@dataclass(frozen=True)
class _Waiting:
    """Waiting of one category on one kind of thread in one arm."""

    per_step: float
    us_per_step: float

    @classmethod
    def of(cls, scope: Scope, category: int, *, own: bool) -> _Waiting:
        rows = _rows(scope, category)
        rows = rows[scope.waited[rows] & (scope.on_step_thread[rows] == own)]
        waited_ns = float(scope.calls.duration_ns[rows].sum())
        return cls(scope.per_step(len(rows)), microseconds(scope.per_step(waited_ns)))


_NOTHING = _Own(0, 0, None, 0.0)


@dataclass
class _Sums:
    """One category, over its kinds of calls; times per step unless said otherwise."""

    own_calls: float = 0.0
    other_calls: float = 0.0
    own_ns: float = 0.0
    other_ns: float = 0.0
    common_calls: float = 0.0
    added_ns: float = 0.0
    other_counts_ns: float = 0.0


def _sums(category: int, off: Scope, on: Scope) -> _Sums:
    sums = _Sums()
    off_kinds, on_kinds = _kinds(off, category), _kinds(on, category)
    for kind in sorted(off_kinds.keys() | on_kinds.keys()):
        first, second = off_kinds.get(kind, _NOTHING), on_kinds.get(kind, _NOTHING)
        off_calls, on_calls = off.per_step(first.own_thread_calls), on.per_step(second.own_thread_calls)
        if first.cost_ns is None or second.cost_ns is None:
            sums.other_counts_ns += on.per_step(second.own_thread_ns) - off.per_step(first.own_thread_ns)
            continue
        difference, own_calls = second.cost_ns - first.cost_ns, min(off_calls, on_calls)
        calls = min(off.per_step(first.calls), on.per_step(second.calls))
        other_calls = min(off.per_step(_others(first)), on.per_step(_others(second)))
        sums.own_calls += own_calls
        sums.other_calls += other_calls
        sums.own_ns += own_calls * difference
        sums.other_ns += other_calls * difference
        sums.common_calls += calls
        sums.added_ns += calls * difference
        sums.other_counts_ns += (on_calls - own_calls) * second.cost_ns
        sums.other_counts_ns -= (off_calls - own_calls) * first.cost_ns
    return sums


def _toll(category: str, sums: _Sums, off: Scope, on: Scope) -> Toll:
    number = CATEGORY[category]
    off_rows, on_rows = _rows(off, number), _rows(on, number)
    return Toll(
        category=category,
        off_per_step=off.per_step(len(off_rows)),
        on_per_step=on.per_step(len(on_rows)),
        off_own_cost_us=_category_cost(off, off_rows),
        on_own_cost_us=_category_cost(on, on_rows),
        toll_us=microseconds(sums.added_ns / sums.common_calls) if sums.common_calls else None,
        counted_per_step=sums.own_calls,
        raw_toll_us_per_step=microseconds(sums.own_ns),
        other_threads_counted_per_step=sums.other_calls,
        other_threads_raw_toll_us_per_step=microseconds(sums.other_ns),
        cannot_tell_because=None if sums.common_calls else _why_no_toll(off, off_rows, on, on_rows),
    )


def _others(kind: _Own) -> int:
    return kind.calls - kind.own_thread_calls


def _category_cost(scope: Scope, rows: IntArray) -> float | None:
    cost = own_cost_ns(scope.calls.duration_ns[rows], scope.waited[rows])
    return None if cost is None else microseconds(cost)


def _why_no_toll(off: Scope, off_rows: IntArray, on: Scope, on_rows: IntArray) -> str:
    if not len(off_rows):
        return "only the on arm makes this call"
    if not len(on_rows):
        return "only the off arm makes this call"
    for scope, rows, arm in ((off, off_rows, "off"), (on, on_rows, "on")):
        if scope.waited[rows].all():
            return f"every such call waited in the {arm} arm"
    return "too few calls of the same size did not wait"


def _waits(off: Scope, on: Scope) -> list[WaitDifference]:
    lines = []
    for number in np.union1d(off.category[off.waited], on.category[on.waited]).tolist():
        for own in (True, False):
            off_side, on_side = _Waiting.of(off, number, own=own), _Waiting.of(on, number, own=own)
            if off_side.per_step or on_side.per_step:
                lines.append(_wait(CATEGORIES[number], "step" if own else "other", off_side, on_side))
    lines.sort(key=lambda one: -abs(one.difference_us_per_step))
    return lines


def _wait(category: str, thread: str, off: _Waiting, on: _Waiting) -> WaitDifference:
    return WaitDifference(
        category=category,
        thread=thread,
        off_per_step=off.per_step,
        on_per_step=on.per_step,
        off_us_per_step=off.us_per_step,
        on_us_per_step=on.us_per_step,
        difference_us_per_step=on.us_per_step - off.us_per_step,
    )


def _unexplained(off: Scope, on: Scope, toll_us: float, wait_us: float, other_counts: float) -> Unexplained:
    off_line, on_line = _time_line(off), _time_line(on)
    submitted = on_line.submitted_us - off_line.submitted_us
    return Unexplained(
        total_us_per_step=on_line.period_us - off_line.period_us - toll_us - wait_us,
        outside_calls_us_per_step=on_line.outside_us - off_line.outside_us,
        dearer_calls_us_per_step=submitted - toll_us - other_counts,
        other_counts_us_per_step=other_counts,
        other_calls_us_per_step=on_line.other_us - off_line.other_us,
    )


@dataclass(frozen=True)
class _TimeLine:
    """One mean step of the submitting thread; with its waits the parts add up to the period."""

    period_us: float
    submitted_us: float
    other_us: float
    outside_us: float


def _time_line(scope: Scope) -> _TimeLine:
    duration = scope.calls.duration_ns
    own = scope.on_step_thread
    submission = own & ~scope.waited & scope.calls.is_submission
    period = float(scope.period_ns.sum())
    submitted, waited = float(duration[submission].sum()), float(duration[own & scope.waited].sum())
    other = float(duration[own].sum()) - submitted - waited
    outside = period - submitted - waited - other
    return _TimeLine(*(microseconds(scope.per_step(part)) for part in (period, submitted, other, outside)))
