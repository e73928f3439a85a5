"""Where the host stands still: copies and synchronizations that keep it waiting for the GPU.

The stall of a call is its whole duration. What such a call would cost without waiting is not known from the
call itself; it is at most a few microseconds, and an own cost is never counted for it a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cctrace.analyzers.categories import CATEGORIES
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.results import Result, about, microseconds, value
from cctrace.analyzers.scope import Scope
from cctrace.analyzers.spread import Spread, spread

CONTRACT, IN_EFFECT = "contract", "in effect"


@dataclass(frozen=True, kw_only=True)
class Stall(Result):
    """Calls of one category that waited, on one kind of thread."""

    category: str = value("event-sync, stream-sync, context-sync, copy h2d, copy d2h …")
    why: str = value("contract: the call is defined to wait; in effect: an asynchronous copy that blocked")
    thread: str = value("step: the thread that submits most; other: any other thread of the process")
    per_step: float = value("such calls per step", "calls")
    us_per_step: float = value("time in them per step", "µs")
    spread: Spread = field(metadata=about("how long one call waits"))


@dataclass(frozen=True)
class Stalls(Result):
    """All waiting within the steps."""

    step_thread_us_per_step: float = value("time per step that the submitting thread waits for the GPU", "µs")
    other_thread_us_per_step: float = value("waiting per step of the other thread that waits most", "µs")
    other_thread_category: str | None = value("what that thread mostly waits in; null if no other one waits")
    copies_in_effect_per_step: float = value("asynchronous copies per step that blocked the host", "calls")
    lines: tuple[Stall, ...] = value("longest first")


def stalls_of(scope: Scope) -> Stalls:
    """The calls of a scope that waited for the GPU."""
    waited = np.flatnonzero(scope.waited)
    forms = scope.calls.forms
    in_effect = (forms.is_copy & ~forms.blocking)[scope.calls.form[waited]]
    on_step_thread = scope.on_step_thread[waited]
    kind = (scope.category[waited] * 2 + in_effect) * 2 + on_step_thread
    lines = [_line(scope, waited[kind == number], int(number)) for number in np.unique(kind)]
    lines.sort(key=lambda line: -line.us_per_step)
    other_us, other_category = _other_thread(scope, waited[~on_step_thread])
    return Stalls(
        step_thread_us_per_step=sum(line.us_per_step for line in lines if line.thread == "step"),
        other_thread_us_per_step=other_us,
        other_thread_category=other_category,
        copies_in_effect_per_step=sum(line.per_step for line in lines if line.why == IN_EFFECT),
        lines=tuple(lines),
    )


def _other_thread(scope: Scope, rows: IntArray) -> tuple[float, str | None]:
    """Waiting per step of the thread that waits most in these rows, and the category it mostly waits in."""
    if not len(rows):
        return 0.0, None
    threads, thread = np.unique(scope.calls.tid[rows], return_inverse=True)
    duration = scope.calls.duration_ns[rows].astype(np.float64)
    waiting = np.bincount(thread.reshape(-1), weights=duration, minlength=len(threads))
    most = thread.reshape(-1) == int(np.argmax(waiting))
    category = np.bincount(scope.category[rows[most]], weights=duration[most], minlength=len(CATEGORIES))
    return microseconds(scope.per_step(float(waiting.max()))), CATEGORIES[int(np.argmax(category))]


def _line(scope: Scope, rows: IntArray, kind: int) -> Stall:
    duration = scope.calls.duration_ns[rows]
    spread_of_calls = spread(duration)
    assert spread_of_calls is not None, "np.unique gives kinds that occur"  # noqa: S101 - for the type checker
    return Stall(
        category=CATEGORIES[kind // 4],
        why=IN_EFFECT if kind // 2 % 2 else CONTRACT,
        thread="step" if kind % 2 else "other",
        per_step=scope.per_step(len(rows)),
        us_per_step=microseconds(scope.per_step(float(duration.sum()))),
        spread=spread_of_calls,
    )
