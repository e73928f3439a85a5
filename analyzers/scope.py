"""The part of a process that a question is about: the calls within the steady steps of one class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from cctrace.analyzers.calls import Calls
from cctrace.analyzers.categories import CATEGORIES, category_of
from cctrace.analyzers.columns import BoolArray, IntArray
from cctrace.analyzers.forms import counted
from cctrace.analyzers.sampling import spread_out
from cctrace.analyzers.steps import Steps
from cctrace.analyzers.structure import rows_within
from cctrace.analyzers.waiting import waited_in_effect

TYPICAL_PERCENTILES: Final = (10, 90)
"""Steps whose period lies between these percentiles are typical."""
MAX_TYPICAL_STEPS: Final = 4000
"""Typical steps that are looked at, spread over the run: their mean is known to 0.1 % even if single
ones vary by 6 %, and a day of decoding takes no longer to analyse than a minute of it."""


@dataclass(frozen=True, eq=False)
class Scope:
    """Calls of one process that begin within chosen steps, on all its threads.

    Attributes:
        calls: the calls.
        category: category of each call, position in CATEGORIES.
        waited: calls that kept the host waiting for the GPU: synchronizations, blocking copies, copies that
            blocked in effect.
        on_step_thread: calls of the thread that submits most; only they lie on the step's own time line.
        step: position in `start_ns` of the step in which each call begins.
        start_ns: begin of each chosen step.
        end_ns: end of each chosen step.
    """

    calls: Calls
    category: IntArray
    waited: BoolArray
    on_step_thread: BoolArray
    step: IntArray
    start_ns: IntArray
    end_ns: IntArray

    @property
    def steps(self) -> int:
        """Number of chosen steps."""
        return len(self.start_ns)

    @property
    def period_ns(self) -> IntArray:
        """Length of each chosen step."""
        return self.end_ns - self.start_ns

    @cached_property
    def categories(self) -> list[int]:
        """Numbers of the categories that occur."""
        found: list[int] = np.flatnonzero(counted(self.category, len(CATEGORIES))).tolist()
        return found

    @cached_property
    def rows_of(self) -> dict[int, IntArray]:
        """Category number → positions of its calls, for the categories that occur."""
        return {number: np.flatnonzero(self.category == number) for number in self.categories}

    def per_step(self, amount: float) -> float:
        """An amount over all chosen steps, per step; 0 without steps."""
        return float(amount) / self.steps if self.steps else 0.0


def scope_of(calls: Calls, steps: Steps, number: int) -> Scope:
    """The calls within the steady steps of class `number`."""
    return scope_of_steps(calls, steps, np.flatnonzero(steps.steady_of(number)))


def typical_scope_of(calls: Calls, steps: Steps, number: int) -> Scope:
    """The calls within the typical steady steps of a class: those between two percentiles of the period.

    Means over them add up, which medians do not, and hiccups of the host do not move them.
    """
    steady = np.flatnonzero(steps.steady_of(number))
    period = steps.period_ns[steady]
    if len(steady):
        low, high = np.percentile(period, TYPICAL_PERCENTILES)
        steady = steady[(period >= low) & (period <= high)]
    return scope_of_steps(calls, steps, steady[spread_out(len(steady), MAX_TYPICAL_STEPS)])


def scope_of_steps(calls: Calls, steps: Steps, chosen: IntArray) -> Scope:
    """The calls within chosen steps (sorted positions)."""
    start_ns, end_ns = steps.start_ns[chosen], steps.end_ns[chosen]
    rows, step = rows_within(calls, start_ns, end_ns)
    if steps.other_loops:
        own = ~np.isin(calls.tid[rows], steps.other_loops)
        rows, step = rows[own], step[own]
    picked = calls.pick(rows)
    del rows
    return Scope(
        calls=picked,
        category=category_of(picked),
        waited=waited_in_effect(picked),
        on_step_thread=picked.each(picked.forms.tid == steps.submitting_tid),
        step=step,
        start_ns=start_ns,
        end_ns=end_ns,
    )
