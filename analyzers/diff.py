"""Calls and waiting of two recordings compared: what can be told of them without a replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cctrace.analyzers.arms import Arm, ClassPair, arm_of, main_pair, pair_classes, stands_for
from cctrace.analyzers.differences import (
    CallDifferences,
    FieldDifference,
    call_differences,
    field_differences,
)
from cctrace.analyzers.gpu import GpuBusy
from cctrace.analyzers.graphs import Graphs, graphs_of
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.noise import noise_of
from cctrace.analyzers.provenance import Provenance, provenance_of
from cctrace.analyzers.results import Result, about, microseconds, value
from cctrace.analyzers.scope import Scope
from cctrace.analyzers.spread import Spread, spread
from cctrace.analyzers.stalls import stalls_of
from cctrace.analyzers.state import StateComparison, compare_states
from cctrace.analyzers.statements import statements_of
from cctrace.analyzers.submissions import submissions_of
from cctrace.analyzers.summary import gpu_busy, outside_calls_us
from cctrace.analyzers.tolls import Account, account_of
from cctrace.analyzers.verdicts import comparison_warnings, headline_of


@dataclass(frozen=True, kw_only=True)
class ArmResult(Result):
    """The compared steps of one arm."""

    provenance: Provenance = field(metadata=about("what was recorded, and how"))
    pid: int = value("process whose steps are compared")
    process: str | None = value("what ran")
    other_processes: int = value("further processes with steady steps, not compared")
    origin: str = value("marks, or inferred")
    anchor: str = value("what begins a step")
    confidence: float | None = value("part of the inferred steps that repeat a recent one; null for marks")
    class_name: str = value("the engine's label, or what the steps look like")
    phase: str = value("decode, prefill, mixed, other or unknown")
    steady_steps: int = value("steady steps of the class")
    typical_steps: int = value(
        "of them, steps between the 10th and 90th percentile: all means are over these"
    )
    period: Spread | None = field(metadata=about("length of all steady steps"))
    period_us: float = value("mean length of a typical step", "µs")
    work_per_step: float = value("kernels + graphs + copies + memsets per step", "submissions")
    order_per_step: float = value("event records, stream waits and other submissions per step", "submissions")
    graphs: Graphs = field(metadata=about("graph launches per step"))
    wait_us_per_step: float = value("time per step that the submitting thread waits for the GPU", "µs")
    other_thread_wait_us_per_step: float = value(
        "time per step that the other thread which waits most waits for the GPU", "µs"
    )
    other_thread_wait_category: str | None = value("what it mostly waits in; null if no other thread waits")
    outside_calls_us_per_step: float = value(
        "time per step of the submitting thread outside driver calls", "µs"
    )
    gpu: GpuBusy = field(metadata=about("how busy the GPU was"))


@dataclass(frozen=True, kw_only=True)
class ClassComparison(Result):
    """One class of steps in both arms."""

    off_class: str = value("name in the off arm")
    on_class: str = value("name in the on arm")
    phase: str = value("decode, prefill, mixed, other or unknown")
    main: bool = value("whether tolls and waits are about this class")
    off_steps: int = value("typical steps in the off arm")
    on_steps: int = value("typical steps in the on arm")
    off_us: float = value("mean length of a typical step, off arm", "µs")
    on_us: float = value("mean length of a typical step, on arm", "µs")
    step_growth: float = value("on ÷ off − 1, of step time")


@dataclass(frozen=True, kw_only=True)
class Diff(Result):
    """Two recordings compared by typical steps of one class: toll per call, waiting, what else differs."""

    headline: str = value("how much longer a typical step takes")
    warnings: tuple[str, ...] = value("reasons to doubt the comparison; read before the numbers")
    off: ArmResult = field(metadata=about("the arm without confidential computing"))
    on: ArmResult = field(metadata=about("the arm with confidential computing"))
    delta_us_per_step: float = value("on − off, of typical steps", "µs")
    ratio: float = value("on ÷ off, of step time")
    step_growth: float = value("on ÷ off − 1, of step time; denominator: the off arm's step")
    throughput_loss: float = value(
        "1 − off ÷ on, of step time, at equal batch; denominator: the off arm's throughput"
    )
    within_noise: bool = value("whether the difference is less than one pair of runs can show")
    noise_because: str | None = value("why it is within noise: below 2 %, or the steps move both ways")
    account: Account | None = field(
        metadata=about("the difference taken apart; null if host times are distorted")
    )
    no_account_because: str | None = value("why there is no account")
    statements: tuple[str, ...] = value("what the numbers say, in words")
    classes: tuple[ClassComparison, ...] = value("all classes that both arms have")
    field_differences: tuple[FieldDifference, ...] = value("what else differs in the metadata")
    state: StateComparison = field(metadata=about("the state of the GPUs before both recordings"))
    call_differences: CallDifferences = field(metadata=about("what else differs in the steps' structure"))


def compare(on: Recording, off: Recording) -> Diff:
    """Compares a recording with confidential computing on (or emulated) with one where it is off.

    Raises:
        UnusableInputError: one of them has no steps.
    """
    on_arm, off_arm = arm_of(on), arm_of(off)
    return compare_arms(on_arm, off_arm, pair_classes(off_arm, on_arm))


def compare_arms(on_arm: Arm, off_arm: Arm, pairs: Sequence[ClassPair]) -> Diff:
    """As `compare`, of recordings whose steps are known; `pairs` are their classes that do the same work."""
    off, on = off_arm.recording, on_arm.recording
    same_work = bool(pairs) and stands_for(pairs[0], off_arm, on_arm)
    main = pairs[0] if same_work else main_pair(off_arm, on_arm)
    off_us, on_us = _period_us(main.off_scope), _period_us(main.on_scope)
    distorted = [arm.recording.path for arm in (off_arm, on_arm) if arm.recording.distorted]
    account = None if distorted else account_of(main.off_scope, main.on_scope)
    off_result, on_result = _arm(off_arm, main.off, main.off_scope), _arm(on_arm, main.on, main.on_scope)
    growth = on_us / off_us - 1
    structure = call_differences(main.off_scope, main.on_scope)
    noise = noise_of(off_result, on_result)
    state = compare_states(off.metadata.state_check, on.metadata.state_check)
    doubts = comparison_warnings(off_result, on_result, paired=same_work, structure=structure)
    return Diff(
        headline=headline_of(off_result, on_result, within_noise=noise is not None),
        warnings=(*state.not_same, *doubts),
        off=off_result,
        on=on_result,
        delta_us_per_step=on_us - off_us,
        ratio=on_us / off_us,
        step_growth=growth,
        throughput_loss=1 - off_us / on_us,
        within_noise=noise is not None,
        noise_because=noise,
        account=account,
        no_account_because=_why_no_account(distorted),
        statements=statements_of(
            off_result,
            on_result,
            account,
            within_noise=noise is not None,
            events_charged=_charges_events(on),
        ),
        classes=tuple(_class(off_arm, on_arm, pair, main) for pair in pairs),
        field_differences=field_differences(off, on),
        state=state,
        call_differences=structure,
    )


def _period_us(scope: Scope) -> float:
    return microseconds(float(scope.period_ns.mean()))


def _charges_events(recording: Recording) -> bool:
    """Whether events can cost more in a recording: an emulation says what it charges for them."""
    emulation = recording.metadata.emulation
    return emulation is None or bool(emulation.values.get("event_us", 0.0))


def _why_no_account(distorted: list[str]) -> str | None:
    if not distorted:
        return None
    return f"CUPTI distorted the host times of {' and '.join(distorted)}: record with --gpu stamps for tolls"


def _arm(arm: Arm, number: int, scope: Scope) -> ArmResult:
    steps, step_class = arm.steps, arm.steps.classes[number]
    steady = steps.steady_of(number)
    submissions = submissions_of(scope, distorted=arm.recording.distorted)
    stalls = stalls_of(scope)
    return ArmResult(
        provenance=provenance_of(arm.recording),
        pid=arm.process.pid,
        process=arm.process.name,
        other_processes=arm.other_processes,
        origin=steps.origin,
        anchor=steps.anchor,
        confidence=steps.confidence,
        class_name=step_class.name,
        phase=step_class.phase,
        steady_steps=int(steady.sum()),
        typical_steps=scope.steps,
        period=spread(steps.period_ns[steady]),
        period_us=_period_us(scope),
        work_per_step=submissions.work_per_step,
        order_per_step=submissions.order_per_step,
        graphs=graphs_of(scope),
        wait_us_per_step=stalls.step_thread_us_per_step,
        other_thread_wait_us_per_step=stalls.other_thread_us_per_step,
        other_thread_wait_category=stalls.other_thread_category,
        outside_calls_us_per_step=outside_calls_us(scope),
        gpu=gpu_busy(arm.recording, arm.process, scope),
    )


def _class(off: Arm, on: Arm, pair: ClassPair, main: ClassPair) -> ClassComparison:
    off_us, on_us = _period_us(pair.off_scope), _period_us(pair.on_scope)
    return ClassComparison(
        off_class=off.steps.classes[pair.off].name,
        on_class=on.steps.classes[pair.on].name,
        phase=off.steps.classes[pair.off].phase,
        main=pair is main,
        off_steps=pair.off_scope.steps,
        on_steps=pair.on_scope.steps,
        off_us=off_us,
        on_us=on_us,
        step_growth=on_us / off_us - 1,
    )
