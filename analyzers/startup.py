"""Start-up of a process, apart from its steps: weights cross the bus once and must not blur the steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cctrace.analyzers.calls import COPY_KIND, OPERATION, Calls
from cctrace.analyzers.forms import BLOCK
from cctrace.analyzers.results import Result, microseconds, value
from cctrace.analyzers.steps import NoSteps, Steps
from cctrace.trace.schema import SUBMISSION_OPERATIONS

MIN_SERVING_STEPS = 5
"""A class with fewer steps does not say that serving has begun: warm-up requests run a step or two."""


@dataclass(frozen=True)
class StartUp(Result):
    """From the start of a process to its first step."""

    image_to_first_submission_s: float | None = value("from exec or fork to the first submission", "s")
    image_to_first_step_s: float | None = value("from exec or fork to the first step", "s")
    submission_to_first_step_s: float | None = value("from the first submission to the first step", "s")
    h2d_copies: int = value("copies from host to device before the first step", "copies")
    h2d_bytes: int = value("bytes of these copies", "bytes")
    h2d_in_call_s: float = value("host time in these copies", "s")
    graphs_captured: int = value("graph captures before the first step")
    other_in_call_s: float = value("host time in all other driver calls before the first step", "s")
    cannot_tell_because: str | None = value("why there is no time from the start of the process")


def start_up_of(calls: Calls, steps: Steps | NoSteps, image_start_ns: int | None) -> StartUp:
    """The start-up of one process.

    Args:
        calls: all host calls of the process, not empty.
        steps: its steps; without steps everything it did counts as start-up.
        image_start_ns: when the process image was loaded or forked, CLOCK_MONOTONIC; None if not known.
    """
    first_submission = _first_submission_ns(calls)
    first_step = None if isinstance(steps, NoSteps) else first_step_ns(steps)
    before = calls if first_step is None else calls.pick(calls.start_ns < first_step)
    h2d = before.is_copy & (before.copy_kind == COPY_KIND["h2d"])
    inside = before.duration_ns
    return StartUp(
        image_to_first_submission_s=_seconds(image_start_ns, first_submission),
        image_to_first_step_s=_seconds(image_start_ns, first_step),
        submission_to_first_step_s=_seconds(first_submission, first_step),
        h2d_copies=int(h2d.sum()),
        h2d_bytes=int(np.maximum(before.bytes[h2d], 0).sum()),
        h2d_in_call_s=microseconds(float(inside[h2d].sum())) / 1e6,
        graphs_captured=int((before.operation == OPERATION["capture-end"]).sum()),
        other_in_call_s=microseconds(float(inside[~h2d].sum())) / 1e6,
        cannot_tell_because=_why(image_start_ns, first_step),
    )


def _first_submission_ns(calls: Calls) -> int | None:
    """Begin of the first submission; of each thread, whose calls are sorted, only its first is looked for."""
    submits, found = calls.forms.submits(*SUBMISSION_OPERATIONS), []
    for _, _, rows in calls.threads:
        for begin in range(rows.start, rows.stop, BLOCK):
            own = np.flatnonzero(submits[calls.form[begin : min(begin + BLOCK, rows.stop)]])
            if len(own):
                found.append(int(calls.start_ns[begin + own[0]]))
                break
    return min(found, default=None)


def first_step_ns(steps: Steps) -> int | None:
    """When serving began: begin of the first step of a class that has at least MIN_SERVING_STEPS steps."""
    frequent = np.bincount(steps.class_of, minlength=len(steps.classes)) >= MIN_SERVING_STEPS
    serving = frequent[steps.class_of]
    return int(steps.start_ns[serving][0]) if serving.any() else None


def _seconds(begin_ns: int | None, end_ns: int | None) -> float | None:
    return None if begin_ns is None or end_ns is None else (end_ns - begin_ns) / 1e9


def _why(image_start_ns: int | None, first_step_ns_: int | None) -> str | None:
    if image_start_ns is None:
        return "the recording does not say when the process started"
    return None if first_step_ns_ is not None else "no step was found"
