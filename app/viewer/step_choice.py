"""What the page of steps shows: the steps of each arm, which of them, and by which numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.arms import same_work
from cctrace.analyzers.columns import BoolArray, FloatArray
from cctrace.analyzers.step_series import (
    METRICS,
    Metric,
    ProcessSeries,
    StepSeries,
    main_process,
    step_series,
)
from cctrace.app.terminal import safe
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.jobs import Pending
from cctrace.app.viewer.view import OFF, ON, Run, View

EVERYTHING: Final = "all"
"""Key of the group of all steps."""
BY_STEP, BY_TIME = "step", "time"
FROM_ZERO, FITTED, LOGARITHMIC = "zero", "fit", "log"
LEFT_OUT_HIDDEN: Final = "no"
USUAL_METRICS: Final = ("period", "submissions", "stall", "gpu")
"""Shown unless the address asks for others."""


@dataclass(frozen=True, eq=False)
class ArmSteps:
    """The steps of one arm.

    Attributes:
        arm: "on", "off" or "one".
        run: the recording.
        process: the process that is shown.
        others: all processes of the recording that have steps.
    """

    arm: str
    run: Run
    process: ProcessSeries
    others: tuple[ProcessSeries, ...]

    @property
    def prefix(self) -> str:
        """What names of the arm's lines begin with: nothing if there is one arm."""
        return f"{self.arm}: " if self.arm in (ON, OFF) else ""

    def seconds(self) -> FloatArray:
        """When each step begins, from the first one on."""
        start = self.process.start_ns
        return np.asarray((start - start[0]) / 1e9, np.float64)


@dataclass(frozen=True)
class Group:
    """Steps that can be chosen: all, those of a phase, or those of a class.

    Attributes:
        key: its name in addresses.
        title: its name for people.
        kind: "all", "phase" or "class".
        classes: for each arm that has any, the numbers of its classes.
    """

    key: str
    title: str
    kind: str
    classes: Mapping[str, tuple[int, ...]]

    def mask(self, steps: ArmSteps) -> BoolArray:
        """Which steps of an arm are in it."""
        chosen = np.zeros(len(steps.process.classes), np.bool_)
        chosen[list(self.classes.get(steps.arm, ()))] = True
        mask: BoolArray = chosen[steps.process.class_of]
        return mask


@dataclass(frozen=True)
class Choice:
    """What an address asks for.

    Attributes:
        metrics: drawn over time, in the order of METRICS.
        metric: whose distribution is shown.
        x: BY_STEP or BY_TIME.
        y: FROM_ZERO, FITTED or LOGARITHMIC.
        left_out: whether steps that do not count are drawn.
        group: the chosen steps.
        span: begin and end of what is shown, in the unit of x; None for all.
    """

    metrics: tuple[Metric, ...]
    metric: Metric
    x: str
    y: str
    left_out: bool
    group: Group
    span: tuple[float, float] | None


def arms_of(view: View, state: Address, *, wait: bool = False) -> tuple[list[ArmSteps], list[str]]:
    """The steps of each arm of a view, and a line for each arm that has none.

    Raises:
        Pending: they are being computed, and `wait` is not set.
        UnusableInputError: a recording cannot be read.
    """
    found: list[ArmSteps] = []
    reasons: list[str] = []
    pending: Pending | None = None
    for arm in view.arms:
        run = view.run_of(arm, state)
        try:
            series = view.of_run(step_series, run, wait=wait)
        except Pending as waits:
            # The other arm's begins meanwhile.
            pending = waits
        else:
            shown = main_process(series, state.integer(f"pid_{arm.name}"))
            if shown is None:
                reasons.append(f"{safe(run.name)}: cannot tell the steps, because {series.no_steps_because}.")
            else:
                found.append(ArmSteps(arm.name, run, shown, _with_steps(series)))
    if pending is not None:
        raise pending
    return found, reasons


def _with_steps(series: StepSeries) -> tuple[ProcessSeries, ...]:
    return tuple(one for one in series.processes if len(one))


def groups_of(arms: Sequence[ArmSteps]) -> tuple[Group, ...]:
    """What can be chosen: everything, each phase, each class.

    Classes of two arms that do the same work are one.
    """
    everything = {one.arm: tuple(range(len(one.process.classes))) for one in arms}
    phases = dict.fromkeys(known.phase for one in arms for known in one.process.classes)
    of_phases = [
        Group(
            phase_key(phase),
            phase,
            "phase",
            {
                one.arm: tuple(
                    number for number, known in enumerate(one.process.classes) if known.phase == phase
                )
                for one in arms
            },
        )
        for phase in phases
    ]
    return (Group(EVERYTHING, "all steps", "all", everything), *of_phases, *_classes(arms))


def _classes(arms: Sequence[ArmSteps]) -> list[Group]:
    """Classes, most time first."""
    members: list[dict[str, int]] = []
    by_arm = {one.arm: one for one in arms}
    if set(by_arm) == {ON, OFF}:
        pairs = same_work(by_arm[OFF].process.traits, by_arm[ON].process.traits)
        members = [{ON: on, OFF: off} for off, on, _ in pairs]
        members += _same_names(by_arm[OFF], by_arm[ON], members)
    for one in arms:
        taken = {pair[one.arm] for pair in members if one.arm in pair}
        members += [{one.arm: number} for number in range(len(one.process.classes)) if number not in taken]
    members.sort(key=lambda pair: -sum(_time_ns(by_arm[arm], number) for arm, number in pair.items()))
    return [
        Group(
            f"class-{position}",
            safe(_title(by_arm, pair)),
            "class",
            {arm: (number,) for arm, number in pair.items()},
        )
        for position, pair in enumerate(members)
    ]


def _same_names(off: ArmSteps, on: ArmSteps, paired: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
    """Further classes with equal names: those without steady steps have nothing else to be paired by."""
    taken_off, taken_on = ({pair[arm] for pair in paired} for arm in (OFF, ON))
    left = {one.name: number for number, one in enumerate(on.process.classes) if number not in taken_on}
    return [
        {ON: left.pop(one.name), OFF: number}
        for number, one in enumerate(off.process.classes)
        if number not in taken_off and one.name in left
    ]


def _time_ns(steps: ArmSteps, number: int) -> int:
    return int(steps.process.period_ns[steps.process.class_of == number].sum())


def _title(by_arm: Mapping[str, ArmSteps], pair: Mapping[str, int]) -> str:
    names = {arm: by_arm[arm].process.classes[number].name for arm, number in pair.items()}
    if len(set(names.values())) == 1:
        (name,) = set(names.values())
        return name if len(names) == len(by_arm) else f"{name} (only {next(iter(names))})"
    return " | ".join(f"{arm}: {names[arm]}" for arm in (OFF, ON))


def known_metrics(arms: Sequence[ArmSteps]) -> tuple[Metric, ...]:
    """Metrics that at least one arm has numbers of."""
    return tuple(
        metric
        for metric in METRICS
        if metric.key != "gpu" or any(one.process.gpu_unknown_because is None for one in arms)
    )


def usual_group(arms: Sequence[ArmSteps]) -> str:
    """Key of the group that is shown unless the address asks for another: the phase that stands for a run."""
    process = arms[0].process
    return phase_key(process.classes[process.main_class].phase)


def phase_key(phase: str) -> str:
    """Key of the group of a phase."""
    return f"phase-{phase}"


def choice_of(state: Address, arms: Sequence[ArmSteps], groups: Sequence[Group]) -> Choice:
    """What an address asks for, of what there is; what makes no sense is as if it were not there."""
    known = known_metrics(arms)
    asked = state.get("metrics").split(",")
    metrics = tuple(one for one in known if one.key in asked)
    usual = tuple(one for one in known if one.key in USUAL_METRICS)
    by_key = {one.key: one for one in known}
    by_group = {one.key: one for one in groups}
    first, last = state.number("x0"), state.number("x1")
    return Choice(
        metrics=metrics or usual,
        metric=by_key[state.choice("metric", tuple(by_key))],
        x=state.choice("x", (BY_STEP, BY_TIME)),
        y=state.choice("y", (FROM_ZERO, FITTED, LOGARITHMIC)),
        left_out=state.get("left_out") != LEFT_OUT_HIDDEN,
        group=by_group.get(state.get("steps"), by_group[usual_group(arms)]),
        span=(first, last) if first is not None and last is not None and first < last else None,
    )
