"""The two arms of a comparison, and which of their steps are compared with each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.categories import CATEGORIES
from cctrace.analyzers.columns import FloatArray
from cctrace.analyzers.loading import Process, Recording
from cctrace.analyzers.scope import Scope, typical_scope_of
from cctrace.analyzers.steps import NoSteps, StepClass, Steps
from cctrace.errors import UnusableInputError

MIN_CLASS_STEPS: Final = 5
"""A class with fewer steady steps is not compared."""
MIN_LIKENESS: Final = 0.5
"""Classes that share less than this part of their calls are different work, and not compared without a
warning."""


@dataclass(frozen=True, eq=False)
class Arm:
    """One recording of a comparison: the process whose steps are compared."""

    recording: Recording
    process: Process
    steps: Steps
    other_processes: int


@dataclass(frozen=True, eq=False)
class ClassPair:
    """A class of the off arm and the class of the on arm that does the same work."""

    off: int
    on: int
    off_scope: Scope
    on_scope: Scope
    likeness: float


def arm_of(recording: Recording) -> Arm:
    """The process of a recording that spends most time in steady steps.

    Raises:
        UnusableInputError: the recording has no steps to compare.
    """
    reasons: list[str] = []
    arms: list[tuple[int, Process, Steps]] = []
    for process in recording.processes:
        if not process.calls.work_count:
            continue
        steps = process.steps
        if isinstance(steps, NoSteps):
            reasons.append(steps.reason)
            continue
        steady = int(steps.period_ns[steps.steady_of(steps.main_class)].sum())
        if steady:
            arms.append((steady, process, steps))
        else:
            reasons.append("none of its steps is steady")
    if not arms:
        why = reasons[0] if reasons else "no process handed work to the GPU"
        raise UnusableInputError(
            f"{recording.path}: cannot tell the steps, because {why}; record a longer run, or mark its steps"
        )
    _, process, steps = max(arms, key=lambda one: one[0])
    return Arm(recording, process, steps, len(arms) - 1)


def pair_classes(off: Arm, on: Arm, *, least: int = MIN_CLASS_STEPS) -> list[ClassPair]:
    """Classes of the two arms that do the same work; the first pair is the one that stands for the runs.

    Classes with a label are paired by it; others by the calls they hold and by the batch, where both are
    known. Those with fewer than `least` steady steps are left out.
    """
    pairs: list[ClassPair] = []
    taken: set[int] = set()
    off_scopes, on_scopes = _scopes(off, least), _scopes(on, least)
    for number, scope in sorted(off_scopes.items(), key=lambda item: -_steady_ns(off, item[0])):
        candidates = [
            (_likeness(off.steps.classes[number], scope, on.steps.classes[other], on_scopes[other]), other)
            for other in on_scopes
            if other not in taken
        ]
        likeness, best = max(candidates, default=(0.0, -1))
        if likeness >= MIN_LIKENESS:
            taken.add(best)
            pairs.append(ClassPair(number, best, scope, on_scopes[best], likeness))
    pairs.sort(key=lambda pair: (pair.off != off.steps.main_class, pair.on != on.steps.main_class))
    return pairs


def _steady_ns(arm: Arm, number: int) -> int:
    """Time of an arm's steady steps of a class."""
    return int(arm.steps.period_ns[arm.steps.steady_of(number)].sum())


def stands_for(pair: ClassPair, off: Arm, on: Arm) -> bool:
    """Whether a pair holds the main class of an arm; if not, the arms' main classes do different work."""
    return pair.off == off.steps.main_class or pair.on == on.steps.main_class


def main_pair(off: Arm, on: Arm) -> ClassPair:
    """The main classes of both arms, whatever they hold: for arms that do not do the same work."""
    off_scope = typical_scope_of(off.process.calls, off.steps, off.steps.main_class)
    on_scope = typical_scope_of(on.process.calls, on.steps, on.steps.main_class)
    likeness = _alike(calls_per_step(off_scope), calls_per_step(on_scope))
    return ClassPair(off.steps.main_class, on.steps.main_class, off_scope, on_scope, likeness)


def _scopes(arm: Arm, least: int) -> dict[int, Scope]:
    numbers = range(len(arm.steps.classes))
    enough = [number for number in numbers if int(arm.steps.steady_of(number).sum()) >= least]
    return {number: typical_scope_of(arm.process.calls, arm.steps, number) for number in enough}


def _likeness(first: StepClass, scope: Scope, second: StepClass, other_scope: Scope) -> float:
    if first.phase_source == "label" and second.phase_source == "label":
        return 1.0 if first.name == second.name else 0.0
    if first.phase != second.phase:
        return 0.0
    if first.batch_known_by == second.batch_known_by == "read-back" and first.batch != second.batch:
        return 0.0
    return _alike(calls_per_step(scope), calls_per_step(other_scope))


def calls_per_step(scope: Scope) -> FloatArray:
    """Mean calls per step by category, queries left out: how often a program asks is chance."""
    counts = np.bincount(scope.category, minlength=len(CATEGORIES)) / max(scope.steps, 1)
    counts[CATEGORIES.index("query")] = 0
    return np.asarray(counts, np.float64)


def _alike(first: FloatArray, second: FloatArray) -> float:
    larger = max(float(first.sum()), float(second.sum()))
    return float(np.minimum(first, second).sum()) / larger if larger else 1.0
