"""What each step holds: its submissions, and how long its thread was in calls and waited."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cctrace.analyzers.calls import Calls
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.steps import Steps
from cctrace.analyzers.structure import per_step, step_of
from cctrace.analyzers.waiting import waited_in_effect
from cctrace.trace.schema import WORK_OPERATIONS


@dataclass(frozen=True, eq=False)
class StepCounts:
    """One number per step of a process, in order of time.

    Attributes:
        work: kernels, graphs, copies and memsets handed to the GPU, on all threads of the loop.
        graphs: of them, graph launches.
        waiting_ns: time that the submitting thread waits for the GPU.
    """

    work: IntArray
    graphs: IntArray
    waiting_ns: IntArray


def counts_of(calls: Calls, steps: Steps) -> StepCounts:
    """What the steps hold.

    Args:
        calls: all calls of the process.
        steps: its steps.
    """
    step = step_of(calls, steps.start_ns, steps.end_ns)
    inside = step >= 0
    if steps.other_loops:
        inside &= ~np.isin(calls.tid, steps.other_loops)
    if not inside.all():
        calls, step = calls.pick(inside), step[inside]
    waited = np.flatnonzero(waited_in_effect(calls))
    waited = waited[calls.forms.tid[calls.form[waited]] == steps.submitting_tid]
    count = len(steps)
    return StepCounts(
        work=per_step(step, calls.each(calls.forms.submits(*WORK_OPERATIONS)), count),
        graphs=per_step(step, calls.each(calls.forms.submits("graph")), count),
        waiting_ns=per_step(step[waited], calls.duration_ns[waited], count),
    )
