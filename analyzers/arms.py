"""The two arms of a comparison, and which of their steps are compared with each other."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, eq=False)
class ClassTraits:
    """What tells whether a class does the same work as a class of another recording.

    Attributes:
        number: its position in the list that it comes from.
        step_class: its name, phase and batch.
        calls_per_step: mean calls per typical step, by category; see `calls_per_step`.
        steady_ns: time of its steady steps.
    """

    number: int
    step_class: StepClass
    calls_per_step: FloatArray
    steady_ns: int


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
    # As steps are listed: of equal ones the one with more steps.
    _, process, steps = max(arms, key=lambda one: (one[0], len(one[2])))
    return Arm(recording, process, steps, len(arms) - 1)


def pair_classes(off: Arm, on: Arm, *, least: int = MIN_CLASS_STEPS) -> list[ClassPair]:
    """Classes of the two arms that do the same work; the first pair is the one that stands for the runs.

    Those with fewer than `least` steady steps are left out.
    """
    off_scopes, on_scopes = _scopes(off, least), _scopes(on, least)
    pairs = [
        ClassPair(first, second, off_scopes[first], on_scopes[second], likeness)
        for first, second, likeness in same_work(_traits(off, off_scopes), _traits(on, on_scopes))
    ]
    pairs.sort(key=lambda pair: (pair.off != off.steps.main_class, pair.on != on.steps.main_class))
    return pairs


def same_work(off: Sequence[ClassTraits], on: Sequence[ClassTraits]) -> list[tuple[int, int, float]]:
    """Classes of two recordings that do the same work: (number in off, number in on, likeness 0–1).

    Classes with a label are paired by it; others by the calls they hold and by the batch, where both are
    known. The class with most steady time chooses first.
    """
    pairs: list[tuple[int, int, float]] = []
    left = list(on)
    for traits in sorted(off, key=lambda one: -one.steady_ns):
        candidates = [(_likeness(traits, other), other.number, other) for other in left]
        likeness, _, best = max(candidates, key=lambda one: one[:2], default=(0.0, -1, traits))
        if likeness >= MIN_LIKENESS:
            left.remove(best)
            pairs.append((traits.number, best.number, likeness))
    return pairs


def _traits(arm: Arm, scopes: dict[int, Scope]) -> list[ClassTraits]:
    return [class_traits(arm.steps, number, scope) for number, scope in scopes.items()]


def class_traits(steps: Steps, number: int, scope: Scope) -> ClassTraits:
    """The traits of a class; `scope` holds its typical steps."""
    steady_ns = int(steps.period_ns[steps.steady_of(number)].sum())
    return ClassTraits(number, steps.classes[number], calls_per_step(scope), steady_ns)


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


def _likeness(one: ClassTraits, other: ClassTraits) -> float:
    first, second = one.step_class, other.step_class
    if first.phase_source == "label" and second.phase_source == "label":
        return 1.0 if first.name == second.name else 0.0
    if first.phase != second.phase:
        return 0.0
    if first.batch_known_by == second.batch_known_by == "read-back" and first.batch != second.batch:
        return 0.0
    return _alike(one.calls_per_step, other.calls_per_step)


def calls_per_step(scope: Scope) -> FloatArray:
    """Mean calls per step by category, queries left out: how often a program asks is chance."""
    counts = np.bincount(scope.category, minlength=len(CATEGORIES)) / max(scope.steps, 1)
    counts[CATEGORIES.index("query")] = 0
    return np.asarray(counts, np.float64)


def _alike(first: FloatArray, second: FloatArray) -> float:
    larger = max(float(first.sum()), float(second.sum()))
    return float(np.minimum(first, second).sum()) / larger if larger else 1.0
