"""What rules see of a recording: one process, its classes of steps, and the off arm beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from cctrace.analyzers.arms import Arm, pair_classes
from cctrace.analyzers.attribution.result import Attribution, ClassBreakdown
from cctrace.analyzers.calls import Calls
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.findings.order import Order, order_of
from cctrace.analyzers.gpu import GpuBusy
from cctrace.analyzers.graphs import Graphs, graphs_of
from cctrace.analyzers.loading import Process, Recording, load
from cctrace.analyzers.results import microseconds
from cctrace.analyzers.scope import Scope, scope_of_steps, typical_scope_of
from cctrace.analyzers.stalls import Stalls, stalls_of
from cctrace.analyzers.steady import HICCUP, SET_UP, STEADY, WARM_UP
from cctrace.analyzers.steps import NoSteps, Steps
from cctrace.analyzers.structure import rows_within
from cctrace.analyzers.submissions import Submissions, submissions_of
from cctrace.analyzers.summary import gpu_busy
from cctrace.analyzers.tolls import Account, account_of
from cctrace.trace import Metadata, Trace
from cctrace.trace.acceptance import CC_ON

MIN_STEPS: Final = 3
"""A class with fewer steady steps says nothing on what its steps do."""
MIN_TIME_SHARE: Final = 0.05
"""A class that takes less of the steps' time is not worth a change, whatever a step of it costs."""


@dataclass(frozen=True, eq=False)
class Observation:
    """One recording: the process whose steps are examined, and its calls."""

    trace: Trace
    recording: Recording
    process: Process | None
    steps: Steps | None
    no_steps_because: str | None
    other_processes: int

    @property
    def metadata(self) -> Metadata:
        """The recording's metadata."""
        return self.recording.metadata

    def pays(self, cause: str) -> bool:
        """Whether calls of the recording paid for a cause: CC was on, or the cause was emulated."""
        emulation = self.metadata.emulation
        emulated = emulation is not None and cause in emulation.causes
        return emulated or self.metadata.acceptance.security.cc_mode in CC_ON

    @property
    def has_cc(self) -> bool:
        """Whether CC was on or emulated."""
        return self.metadata.emulation is not None or self.metadata.acceptance.security.cc_mode in CC_ON

    @cached_property
    def roles(self) -> Mapping[int, str]:
        """Thread → its role, where the recording knows one."""
        pid = self.process.pid if self.process else None
        return {
            lane.tid: lane.role
            for lane in self.metadata.lanes
            if lane.pid == pid and lane.tid is not None and lane.role
        }

    def thread_name(self, tid: int) -> str:
        """`scheduler 1519`, or `thread 1519` where no role is known."""
        return f"{self.roles.get(tid, 'thread')} {tid}"

    @cached_property
    def outside_steps(self) -> Calls:
        """Calls of the process that are no part of serving: before the steps, or in steps that set up."""
        if self.process is None or self.steps is None:
            return self.process.calls if self.process else self.recording.calls
        calls, steps = self.process.calls, self.steps
        serving = np.flatnonzero(~np.isin(steps.exclusion, (WARM_UP, SET_UP)))
        inside, _ = rows_within(calls, steps.start_ns[serving], steps.end_ns[serving])
        # The step after the last mark has no end, and is left out.
        outside = calls.start_ns < steps.end_ns[-1]
        outside[inside] = False
        return calls.pick(outside)

    @cached_property
    def rotations(self) -> int:
        """Key rotations that the recording knows of: CUPTI records them, where it is allowed to."""
        return int(self.trace.table(("start_ns",), kinds="crypto").num_rows)

    @property
    def arm(self) -> Arm | None:
        """The recording as an arm of a comparison."""
        if self.process is None or self.steps is None:
            return None
        return Arm(self.recording, self.process, self.steps, self.other_processes)


def observe(trace: Trace, recording: Recording | None = None) -> Observation:
    """Looks at the process of a recording that spends most time in steady steps.

    Args:
        trace: the file.
        recording: its rows, if they have been loaded already.
    """
    recording = recording or load(trace)
    working = [process for process in recording.processes if process.calls.work_count]
    found = [(process, process.steps) for process in working]
    if not found:
        return Observation(trace, recording, None, None, "no process handed work to the GPU", 0)
    process, steps = max(found, key=lambda one: _steady_ns(one[1]))
    others = len(found) - 1
    if isinstance(steps, NoSteps):
        return Observation(trace, recording, process, None, steps.reason, others)
    return Observation(trace, recording, process, steps, None, others)


def _steady_ns(steps: Steps | NoSteps) -> int:
    """Time in steady steps; −1 without steps."""
    return -1 if isinstance(steps, NoSteps) else int(steps.period_ns[steps.exclusion == STEADY].sum())


@dataclass(frozen=True, eq=False)
class StepView:
    """One class of steps of the examined recording; of a pair also the same class in the off arm.

    Attributes:
        seen: the recording.
        steps: its steps.
        process: its process.
        number: the class.
        scope: calls of its typical steps.
        weight: part of the steady steps' time that the class takes, 0–1.
        off: the off arm's view of the class; None without one.
        breakdown: what the attribution says about the class; None without one.
    """

    seen: Observation
    steps: Steps
    process: Process
    number: int
    scope: Scope
    weight: float
    off: StepView | None = field(default=None, compare=False)
    breakdown: ClassBreakdown | None = None

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.steps.classes[self.number].name

    @property
    def phase(self) -> str:
        """Phase of the class."""
        return self.steps.classes[self.number].phase

    @property
    def step_us(self) -> float:
        """Mean length of a typical step."""
        return microseconds(float(self.scope.period_ns.mean()))

    @property
    def thread(self) -> str:
        """Name of the thread that submits most."""
        return self.seen.thread_name(self.steps.submitting_tid)

    @cached_property
    def submissions(self) -> Submissions:
        """Calls per step."""
        return submissions_of(self.scope, distorted=self.seen.recording.distorted)

    @cached_property
    def stalls(self) -> Stalls:
        """Waiting per step."""
        return stalls_of(self.scope)

    @cached_property
    def graphs(self) -> Graphs:
        """Graph launches per step."""
        return graphs_of(self.scope)

    @cached_property
    def gpu(self) -> GpuBusy:
        """How busy the GPU is."""
        return gpu_busy(self.seen.recording, self.process, self.scope)

    @property
    def busy_us(self) -> float | None:
        """Time per step that the GPU is busy at least; None if that is not known."""
        return None if self.gpu.upper_bound or self.seen.recording.distorted else self.gpu.busy_us_per_step

    @property
    def slack_us(self) -> float:
        """Time per step that the submitting thread waits for the GPU."""
        return self.stalls.step_thread_us_per_step

    @cached_property
    def order(self) -> Order | None:
        """What the submitting thread awaits, and when; None if the recording does not say."""
        steady = np.flatnonzero(self.steps.steady_of(self.number))
        return order_of(self.seen.trace, self.steps, steady)

    @cached_property
    def positions(self) -> IntArray:
        """Number of each call of the scope within its step, on its thread, from 0."""
        return positions_in(self.scope)

    @cached_property
    def account(self) -> Account | None:
        """The difference to the off arm, taken apart; None without one, or if host times are distorted."""
        if self.off is None or self.seen.recording.distorted or self.off.seen.recording.distorted:
            return None
        return account_of(self.off.scope, self.scope)

    def with_hiccups(self) -> Scope:
        """All steady steps of the class, and those that a slow call made long: nearly all calls of a run."""
        chosen = (self.steps.class_of == self.number) & np.isin(self.steps.exclusion, (STEADY, HICCUP))
        return scope_of_steps(self.process.calls, self.steps, np.flatnonzero(chosen))


def positions_in(scope: Scope) -> IntArray:
    """Number of each call of a scope within its step, on its thread, from 0."""
    tid, step = scope.calls.tid, scope.step
    changes = np.zeros(len(tid), np.bool_)
    # Calls come by thread, and on a thread by step.
    changes[1:] = (np.diff(tid) != 0) | (np.diff(step) != 0)
    number = np.arange(len(tid))
    return number - np.maximum.accumulate(np.where(changes, number, 0))


def views_of(
    seen: Observation, off: Observation | None = None, attribution: Attribution | None = None
) -> tuple[StepView, ...]:
    """The classes of steps that are worth examining, most time first.

    Args:
        seen: the recording to examine: of a pair the on arm.
        off: the off arm.
        attribution: what its replay says.
    """
    steps, process = seen.steps, seen.process
    if steps is None or process is None:
        return ()
    total = float(steps.period_ns[steps.exclusion == STEADY].sum())
    partners = _partners(seen, off)
    views = []
    for number in range(len(steps.classes)):
        steady = steps.steady_of(number)
        weight = float(steps.period_ns[steady].sum()) / total if total else 0.0
        if int(steady.sum()) < MIN_STEPS or (weight < MIN_TIME_SHARE and number != steps.main_class):
            continue
        scope = typical_scope_of(process.calls, steps, number)
        breakdown = _breakdown(attribution, steps.classes[number].name)
        views.append(StepView(seen, steps, process, number, scope, weight, partners.get(number), breakdown))
    return tuple(sorted(views, key=lambda view: -view.weight))


def _partners(seen: Observation, off: Observation | None) -> dict[int, StepView]:
    """Class of the on arm → the off arm's view of the same class."""
    on_arm, off_arm = seen.arm, off.arm if off else None
    if off is None or on_arm is None or off_arm is None:
        return {}
    return {
        pair.on: StepView(off, off_arm.steps, off_arm.process, pair.off, pair.off_scope, 0.0)
        for pair in pair_classes(off_arm, on_arm, least=MIN_STEPS)
    }


def _breakdown(attribution: Attribution | None, name: str) -> ClassBreakdown | None:
    """What the attribution says about a class, if it has shares."""
    classes = attribution.classes if attribution else ()
    return next((one for one in classes if one.on_class == name and one.shares is not None), None)
