"""The steps one by one: the result of `cctrace steps`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cctrace.analyzers.calls import Calls
from cctrace.analyzers.loading import Process, Recording
from cctrace.analyzers.provenance import Provenance, provenance_of
from cctrace.analyzers.results import RESULT_FORMAT_VERSION, Result, about, microseconds, value
from cctrace.analyzers.sentences import plural, time_text
from cctrace.analyzers.steady import EXCLUSIONS, HICCUP, STEADY
from cctrace.analyzers.step_counts import counts_of
from cctrace.analyzers.steps import NoSteps, Steps
from cctrace.analyzers.summary import ClassSummary, class_summaries
from cctrace.analyzers.window import nothing_recorded


@dataclass(frozen=True, kw_only=True)
class StepRow(Result):
    """One step."""

    step: int = value("number of the step in its process, from 0")
    start_s: float = value("begin, from the first host call of the recording", "s")
    period_us: float = value("until the next step begins", "µs")
    step_class: int = value("class of the step, position in classes")
    counts: bool = value("whether the step is steady")
    excluded_because: str | None = value("why it does not count; null if it does")
    work_submissions: int = value("kernels + graphs + copies + memsets, all threads", "submissions")
    graph_launches: int = value("of them, graphs", "launches")
    waiting_us: float = value("time that the submitting thread waits for the GPU", "µs")
    in_calls_us: float = value(
        "time that the submitting thread spends in driver calls, waiting included", "µs"
    )


@dataclass(frozen=True, kw_only=True)
class ProcessSteps(Result):
    """The steps of one process."""

    pid: int = value("process")
    name: str | None = value("what ran")
    origin: str | None = value("marks, or inferred from the structure of the calls; null without steps")
    anchor: str | None = value("what begins a step; null without steps")
    confidence: float | None = value("part of the inferred steps that repeat a recent one; null for marks")
    no_steps_because: str | None = value("why no steps were found")
    total_steps: int = value("steps found, listed or not")
    classes: tuple[ClassSummary, ...] = value("classes, by total time")
    steps: tuple[StepRow, ...] = value("the listed steps, in order of time")


@dataclass(frozen=True, kw_only=True)
class StepList(Result):
    """The steps of a recording, one by one."""

    format_version: int = value("version of this JSON")
    headline: str = value("the sentence that matters")
    provenance: Provenance = field(metadata=about("what was recorded, and how"))
    processes: tuple[ProcessSteps, ...] = value("processes that hand work to the GPU; most steps first")


def list_steps(recording: Recording, limit: int | None) -> StepList:
    """The steps of every process that hands work to the GPU, the first `limit` of each (None: all)."""
    processes = [
        _of_process(process, limit, _origin_ns(recording.calls))
        for process in recording.processes
        if process.calls.work_count or len(process.marks)
    ]
    processes.sort(key=lambda one: -one.total_steps)
    return StepList(
        format_version=RESULT_FORMAT_VERSION,
        headline=_headline(recording, processes),
        provenance=provenance_of(recording),
        processes=tuple(processes),
    )


def _origin_ns(calls: Calls) -> int:
    return int(calls.start_ns.min()) if len(calls) else 0


def _of_process(process: Process, limit: int | None, origin_ns: int) -> ProcessSteps:
    steps = process.steps
    if isinstance(steps, NoSteps):
        return ProcessSteps(
            pid=process.pid,
            name=process.name,
            origin=None,
            anchor=None,
            confidence=None,
            no_steps_because=steps.reason,
            total_steps=0,
            classes=(),
            steps=(),
        )
    return ProcessSteps(
        pid=process.pid,
        name=process.name,
        origin=steps.origin,
        anchor=steps.anchor,
        confidence=steps.confidence,
        no_steps_because=None,
        total_steps=len(steps),
        classes=class_summaries(steps),
        steps=_rows(process.calls, steps, len(steps) if limit is None else min(limit, len(steps)), origin_ns),
    )


def _rows(calls: Calls, steps: Steps, listed: int, origin_ns: int) -> tuple[StepRow, ...]:
    counts = counts_of(calls, steps)
    rank = {number: position for position, number in enumerate(steps.classes_by_time)}
    factors = steps.hiccup_factors()
    return tuple(
        StepRow(
            step=index,
            start_s=(int(steps.start_ns[index]) - origin_ns) / 1e9,
            period_us=microseconds(int(steps.period_ns[index])),
            step_class=rank[int(steps.class_of[index])],
            counts=bool(steps.exclusion[index] == STEADY),
            excluded_because=_why_excluded(int(steps.exclusion[index]), float(factors[index])),
            work_submissions=int(counts.work[index]),
            graph_launches=int(counts.graphs[index]),
            waiting_us=microseconds(int(counts.waiting_ns[index])),
            in_calls_us=microseconds(int(steps.inside_ns[index])),
        )
        for index in range(listed)
    )


def _why_excluded(reason: int, factor: float) -> str | None:
    if reason == STEADY:
        return None
    if reason == HICCUP and np.isfinite(factor):
        return f"{EXCLUSIONS[reason]}: its calls took {factor:.1f} times longer"
    return EXCLUSIONS[reason]


def _headline(recording: Recording, processes: list[ProcessSteps]) -> str:
    if not len(recording.calls) and not len(recording.marks):
        return nothing_recorded(recording.metadata.recording)
    if not processes:
        return "No process of the recording handed work to the GPU."
    first = processes[0]
    if not first.total_steps:
        return f"Cannot tell the steps, because {first.no_steps_because}."
    main = next(one for one in first.classes if one.main)
    how = "by marks" if first.origin == "marks" else f"inferred from {first.anchor}"
    if main.period is None:
        return f"{plural(first.total_steps, 'step')} {how}; none of them is steady."
    period = main.period
    spread_text = f"p10 {time_text(period.p10_us)}, p90 {time_text(period.p90_us)}"
    return f"{plural(first.total_steps, 'step')} {how}; median {time_text(period.median_us)} ({spread_text})."
