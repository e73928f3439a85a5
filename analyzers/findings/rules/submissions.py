"""Rules about what the host hands over: too many pieces, too many questions, launches that stand still."""

from __future__ import annotations

from typing import Final

import numpy as np

from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.findings.places import evidence, seen_outside
from cctrace.analyzers.findings.rule import CannotTell, Remedy, Rule, Seen
from cctrace.analyzers.findings.savings import bound, of_submissions, rows_of, time_us
from cctrace.analyzers.findings.view import StepView
from cctrace.analyzers.results import microseconds
from cctrace.analyzers.scope import Scope
from cctrace.analyzers.sentences import percent, plural, time_text

MANY: Final = 60
"""Single submissions a step from which on they are many: 60 × 12.25 µs are 0.7 ms. Full graphs of real
engines leave up to 34; eager steps of the smallest served models hold more than 200."""
LEFT_OF_GRAPHS: Final = 10.0
"""Submissions that a full graph leaves: the published step of one graph has 11."""
MANY_QUERIES: Final = 10
"""Queries a step from which on they are polling: engines ask two or three times to free buffers."""
MIN_QUERY_SHARE: Final = 0.01
"""Polling that takes less of the step is not worth a change."""
RARE_STALL_NS: Final = 1_000_000
"""A launch this long stands still: with CC on one takes 5 to 20 µs, and a full queue rarely holds it for 1
ms."""
RARE: Final = 0.1
"""Launches that stand still in more of the steps are the rule, not rare."""
MIN_RARE_SHARE: Final = 0.005
"""Rare stalls that take less of the steps' time are not worth a word: preemption of the host takes as
much."""
PREFILL_REMEDY: Final = (
    "Run prefill and mixed batches as piecewise graphs, with few pieces: their shapes rarely fit one graph"
)
_PIECES: Final = ("kernel", "graph", "memset", "copy d2d")


def _many_submissions(view: StepView) -> Seen | None:
    rows = rows_of(view, ("kernel", "memset", "copy d2d"))
    count = view.scope.per_step(len(rows))
    if count < MANY or view.graphs.execution == "fragmented":
        return None
    return _pieces(view, left=LEFT_OF_GRAPHS)


def _split_graphs(view: StepView) -> Seen | None:
    if view.graphs.execution != "fragmented":
        return None
    return _pieces(view, left=LEFT_OF_GRAPHS)


def _pieces(view: StepView, *, left: float) -> Seen:
    found = [evidence(view, rows) for name in _PIECES if len(rows := rows_of(view, (name,)))]
    remedy = PREFILL_REMEDY if view.phase in ("prefill", "mixed") else ""
    return Seen(
        evidence=sorted(found, key=lambda one: -(one.us_per_step or 0.0)),
        saving=of_submissions(view, _PIECES, left),
        measured=view.seen.pays("launch"),
        remedy=remedy,
    )


def _polled_events(view: StepView) -> Seen | None:
    rows = rows_of(view, ("query",), own_thread=False)
    us = time_us(view, rows)
    if view.scope.per_step(len(rows)) < MANY_QUERIES or us < MIN_QUERY_SHARE * view.step_us:
        return None
    own = time_us(view, rows[view.scope.on_step_thread[rows]])
    basis = "time of these calls on the submitting thread; what polling keeps others from is not in it"
    return Seen([evidence(view, rows)], bound(view, 0.0, own, basis), measured=True)


def _rare_stalls(view: StepView) -> Seen | CannotTell | None:
    if not view.seen.has_cc:
        return None
    if view.seen.recording.distorted:
        return CannotTell("CUPTI distorts how long launches take")
    stall_us, steps, worst_us = _stalls(view)
    share = stall_us / view.step_us
    if not steps or steps > RARE or share < MIN_RARE_SHARE:
        return None
    off_us = _stalls(view.off)[0] if view.off else 0.0
    if view.off and stall_us < 2 * off_us:
        return None
    text = (
        f"launches stood still for {time_text(worst_us)} at most, in {percent(steps)} of the steps; "
        f"in the mean {time_text(stall_us)} a step"
    )
    scope = view.with_hiccups()
    found = [evidence(view, _stalled(scope), text, scope)]
    if view.seen.rotations:
        rotated = f"{plural(view.seen.rotations, 'key rotation')} happened in the recording"
        found.append(seen_outside(rotated, view.seen.rotations))
    return Seen(found, bound(view, 0.0, stall_us - off_us, "all time in these launches"), measured=True)


def _stalls(view: StepView) -> tuple[float, float, float]:
    """Of launches that stand still: µs per step, part of the steps, longest in µs."""
    scope = view.with_hiccups()
    rows = _stalled(scope)
    duration = scope.calls.duration_ns[rows]
    if not len(rows):
        return 0.0, 0.0, 0.0
    steps = len(np.unique(scope.step[rows])) / scope.steps
    return microseconds(scope.per_step(float(duration.sum()))), steps, microseconds(float(duration.max()))


def _stalled(scope: Scope) -> IntArray:
    """Launches of the submitting thread that stand still; copies wait for other reasons."""
    launches = scope.on_step_thread & scope.calls.is_work & ~scope.calls.is_copy
    return np.flatnonzero(launches & (scope.calls.duration_ns >= RARE_STALL_NS))


MANY_SUBMISSIONS: Final = Rule(
    name="many-submissions",
    looks_for="steps of many single submissions",
    title="Many host submissions a step",
    cause="launch",
    remedy=Remedy(
        "Capture the step in a full CUDA graph, and what stays outside in as few calls as possible: every "
        "submission pays the toll, one graph pays it once",
        ("published step of 181 kernels: eager 2.41 times longer with CC, one graph 1.04 times",),
    ),
    of_steps=_many_submissions,
)
SPLIT_GRAPHS: Final = Rule(
    name="split-graphs",
    looks_for="graphs that are cut into many pieces",
    title="A step's graph is cut into many pieces",
    cause="launch",
    remedy=Remedy(
        "Use a full graph for decode steps (an attention backend that can be captured), or fewer and larger "
        "pieces: what counts is the number of submissions, not the name of the setting",
        ("a graph cut at each attention layer left about 185 submissions a step in a published run",),
    ),
    of_steps=_split_graphs,
)
POLLED_EVENTS: Final = Rule(
    name="polled-events",
    looks_for="events or streams that are asked again and again whether they are done",
    title="Events are polled",
    cause=None,
    remedy=Remedy(
        "Wait for the event once, on a thread that has nothing else to do, instead of asking for it in a "
        "loop",
        (),
    ),
    of_steps=_polled_events,
)
RARE_STALLS: Final = Rule(
    name="rare-stalls",
    looks_for="launches that rarely stand still for a millisecond or more, with CC on",
    title="Launches rarely stand still",
    cause=None,
    remedy=Remedy(
        "Compare with an off arm of the same length. The rotation of keys blocks channels until they are "
        "drained and looks so; a host that was preempted does, too. Give the threads CPUs of their own to "
        "tell them apart",
        ("key rotation in the open kernel modules of the driver",),
    ),
    of_steps=_rare_stalls,
)
