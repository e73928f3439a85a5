"""What one recording says about its server: the result of `cctrace summary`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from cctrace.analyzers.copies import CopyBucket, copies_of
from cctrace.analyzers.gpu import GpuBusy, busy_of
from cctrace.analyzers.graphs import Graphs, graphs_of
from cctrace.analyzers.loading import Process, Recording, load
from cctrace.analyzers.provenance import Provenance, provenance_of
from cctrace.analyzers.results import RESULT_FORMAT_VERSION, Result, about, microseconds, value
from cctrace.analyzers.scope import Scope, scope_of
from cctrace.analyzers.sentences import count_text, percent, plural, time_text
from cctrace.analyzers.spread import Spread, spread
from cctrace.analyzers.stalls import Stalls, stalls_of
from cctrace.analyzers.startup import StartUp, start_up_of
from cctrace.analyzers.steady import EXCLUSIONS, HICCUP
from cctrace.analyzers.steps import NoSteps, Steps
from cctrace.analyzers.submissions import Submissions, submissions_of
from cctrace.analyzers.window import nothing_recorded
from cctrace.trace import open_trace

OTHER_THREAD_SHARE: Final = 0.05
"""Another thread that waits this part of the step for the GPU is what the step can hang on, and is named.
Less is a copy worker that finds its work done."""


@dataclass(frozen=True, kw_only=True)
class ClassSummary(Result):
    """The steps of one class: those that may be compared."""

    name: str = value("the engine's label, or what the steps look like")
    phase: str = value("decode, prefill, mixed, other or unknown")
    phase_source: str = value("label: the engine said it; structure: taken from the most frequent structure")
    main: bool = value("whether the details of the process are about this class")
    steps: int = value("steps of the class")
    steady_steps: int = value("of them, steps that count; the others are warm-up, pauses, hiccups or set-up")
    period: Spread | None = field(metadata=about("length of a steady step; null if there is none"))


@dataclass(frozen=True, kw_only=True)
class StepsSummary(Result):
    """How the steps of a process were found, and what one of them does."""

    origin: str = value("marks, or inferred from the structure of the calls")
    anchor: str = value("what begins a step")
    confidence: float | None = value("part of the inferred steps that repeat a recent one; null for marks")
    self_shift: float | None = value("part of the calls equal to the call one period earlier; null for marks")
    steps: int = value("all steps")
    excluded: dict[str, int] = field(metadata=about("why steps do not count -> how many"))
    hiccup_factor: float | None = value(
        "how many times longer than in steady steps the calls of hiccups took, median; null without hiccups"
    )
    other_loops: int = value("further threads with steps of their own, left out here")
    classes: tuple[ClassSummary, ...] = value("classes by total time")
    submissions: Submissions = field(metadata=about("host calls per steady step of the main class"))
    stalls: Stalls = field(metadata=about("waiting per steady step of the main class"))
    outside_calls_us_per_step: float = value(
        "time per step that the submitting thread spends outside of driver calls", "µs"
    )
    graphs: Graphs = field(metadata=about("graph launches per steady step of the main class"))
    copies: tuple[CopyBucket, ...] = value("copies per steady step of the main class")
    gpu: GpuBusy = field(metadata=about("how busy the GPU was in the steady steps of the main class"))


@dataclass(frozen=True, kw_only=True)
class ProcessSummary(Result):
    """One process that hands work to the GPU."""

    pid: int = value("process")
    name: str | None = value("what ran")
    work_submissions: int = value("kernels, graphs, copies and memsets in the whole recording", "submissions")
    start_up: StartUp = field(metadata=about("from the start of the process to its first step"))
    steps: StepsSummary | None = field(metadata=about("its steps; null if none were found"))
    no_steps_because: str | None = value("why no steps were found")


@dataclass(frozen=True, kw_only=True)
class Summary(Result):
    """What one recording says about its server."""

    format_version: int = value("version of this JSON")
    headline: str = value("the sentence that matters")
    provenance: Provenance = field(metadata=about("what was recorded, and how"))
    processes: tuple[ProcessSummary, ...] = value("processes that hand work to the GPU; the busiest first")
    idle_processes: int = value("recorded processes that hand no work to the GPU")
    notes: tuple[str, ...] = value("what a reader should know")


def summarize(recording: Recording) -> Summary:
    """The summary of a recording."""
    found = recording.processes
    working = [process for process in found if process.calls.work_count or len(process.marks)]
    summaries = [_process(process, recording) for process in working]
    summaries.sort(key=lambda one: (one.steps is None, -one.work_submissions))
    return Summary(
        format_version=RESULT_FORMAT_VERSION,
        headline=_headline(recording, summaries, len(found)),
        provenance=provenance_of(recording),
        processes=tuple(summaries),
        idle_processes=len(found) - len(working),
        notes=_notes(recording, summaries),
    )


def _process(process: Process, recording: Recording) -> ProcessSummary:
    steps = process.steps
    return ProcessSummary(
        pid=process.pid,
        name=process.name,
        work_submissions=process.calls.work_count,
        start_up=start_up_of(process.calls, steps, process.image_start_ns),
        steps=None if isinstance(steps, NoSteps) else _steps(process, steps, recording),
        no_steps_because=steps.reason if isinstance(steps, NoSteps) else None,
    )


def _steps(process: Process, steps: Steps, recording: Recording) -> StepsSummary:
    scope = scope_of(process.calls, steps, steps.main_class)
    excluded = np.bincount(steps.exclusion, minlength=len(EXCLUSIONS))
    return StepsSummary(
        origin=steps.origin,
        anchor=steps.anchor,
        confidence=steps.confidence,
        self_shift=steps.self_shift,
        steps=len(steps),
        excluded={
            word: int(excluded[index]) for index, word in enumerate(EXCLUSIONS) if index and excluded[index]
        },
        hiccup_factor=_hiccup_factor(steps),
        other_loops=len(steps.other_loops),
        classes=class_summaries(steps),
        submissions=submissions_of(scope, distorted=recording.distorted),
        stalls=stalls_of(scope),
        outside_calls_us_per_step=outside_calls_us(scope),
        graphs=graphs_of(scope),
        copies=copies_of(scope),
        gpu=gpu_busy(recording, process, scope),
    )


def _hiccup_factor(steps: Steps) -> float | None:
    factors = steps.hiccup_factors()
    factors = factors[np.isfinite(factors)]
    return float(np.median(factors)) if len(factors) else None


def gpu_busy(recording: Recording, process: Process, scope: Scope) -> GpuBusy:
    """How busy the GPU was in the steps of a scope."""
    collector = recording.metadata.collector
    return busy_of(process.gpu, scope.start_ns, scope.end_ns, collector, distorted=recording.distorted)


def class_summaries(steps: Steps) -> tuple[ClassSummary, ...]:
    """The classes of steps, by total time."""
    period = steps.period_ns
    return tuple(
        ClassSummary(
            name=steps.classes[number].name,
            phase=steps.classes[number].phase,
            phase_source=steps.classes[number].phase_source,
            main=number == steps.main_class,
            steps=int((steps.class_of == number).sum()),
            steady_steps=int(steps.steady_of(number).sum()),
            period=spread(period[steps.steady_of(number)]),
        )
        for number in steps.classes_by_time
    )


def outside_calls_us(scope: Scope) -> float:
    """Microseconds per step of the submitting thread outside of driver calls: the program's own code."""
    inside = float(np.sum(scope.calls.duration_ns, where=scope.on_step_thread, dtype=np.int64))
    return microseconds(scope.per_step(float(scope.period_ns.sum()) - inside))


def _headline(recording: Recording, summaries: list[ProcessSummary], processes: int) -> str:
    if not processes:
        return nothing_recorded(recording.metadata.recording)
    if not summaries:
        return "No process of the recording handed work to the GPU."
    first = summaries[0]
    if first.steps is None:
        return f"Cannot tell the steps, because {first.no_steps_because}."
    main = next(one for one in first.steps.classes if one.main)
    if main.period is None:
        return f"Cannot tell the step period: none of {plural(first.steps.steps, 'step')} is steady."
    return step_sentence(first.steps)


def step_sentence(steps: StepsSummary) -> str:
    """What a typical step of the main class does, in one sentence."""
    main = next(one for one in steps.classes if one.main)
    period = main.period
    if period is None:
        return "None of its steps is steady."
    word = {"decode": "decode step", "prefill": "prefill step", "mixed": "mixed step"}.get(main.phase, "step")
    work = count_text(steps.submissions.work_per_step)
    submissions = "submission" if work == "1" else "submissions"
    parts = [f"A {word} takes {time_text(period.median_us)}: {work} {submissions}"]
    if steps.graphs.execution == "fragmented":
        parts.append(f"{count_text(steps.graphs.per_step)} graph launches (fragmented)")
    elif steps.graphs.execution == "graph":
        parts.append(plural_graphs(steps.graphs.per_step))
    else:
        parts.append("no graph")
    parts.append(_waiting_text(steps.stalls, period.mean_us))
    return ", ".join(parts) + "."


def _waiting_text(stalls: Stalls, period_us: float) -> str:
    """How long the host waits: also on another thread, if that one waits longer."""

    def share(us: float) -> str:
        return f"{time_text(us)} ({percent(us / period_us if period_us else 0.0)})"

    own, other = stalls.step_thread_us_per_step, stalls.other_thread_us_per_step
    if other <= max(own, OTHER_THREAD_SHARE * period_us):
        return f"the host waits {share(own)}"
    return (
        f"the submitting thread waits {share(own)} for the GPU, another thread {share(other)}, "
        f"in {stalls.other_thread_category}"
    )


def plural_graphs(per_step: float) -> str:
    """`1 graph launch`, `2 graph launches`."""
    text = count_text(per_step)
    return f"{text} graph launch" if text == "1" else f"{text} graph launches"


def _hiccup_note(process: ProcessSummary) -> list[str]:
    if process.steps is None or process.steps.hiccup_factor is None:
        return []
    word = EXCLUSIONS[HICCUP]
    return [
        f"{plural(process.steps.excluded[word], word)} of process {process.pid}: driver calls took "
        f"{process.steps.hiccup_factor:.1f} times longer than in steady steps; the load did not pause"
    ]


def _notes(recording: Recording, summaries: list[ProcessSummary]) -> tuple[str, ...]:
    notes = list(recording.metadata.collector.notes)
    if recording.distorted:
        notes.append("CUPTI distorted this recording's host times: own costs cannot be told from it")
    lost = sum(sum(process.lost.values()) for process in recording.metadata.collector.processes)
    if lost:
        notes.append(f"{plural(lost, 'record')} were lost while recording: counts are too low by so many")
    notes.extend(note for one in summaries for note in _hiccup_note(one))
    notes.extend(
        f"process {one.pid} marks steps on {one.steps.other_loops + 1} threads; one of them is shown"
        for one in summaries
        if one.steps is not None and one.steps.other_loops
    )
    return tuple(notes)


def summary_of(path: Path) -> Summary:
    """The summary of a recording in a file. Raises UnusableInputError."""
    return summarize(load(open_trace(path)))
