"""The steps of a recording as columns: what charts over time, and distributions, are drawn from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from cctrace.analyzers.arms import ClassTraits, class_traits
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray, SmallIntArray
from cctrace.analyzers.gpu import busy_steps
from cctrace.analyzers.loading import Process, Recording, load
from cctrace.analyzers.provenance import Provenance, provenance_of
from cctrace.analyzers.results import NANOSECONDS_PER_MICROSECOND
from cctrace.analyzers.scope import typical_scope_of
from cctrace.analyzers.steady import STEADY
from cctrace.analyzers.step_counts import counts_of
from cctrace.analyzers.steps import NoSteps, StepClass, Steps
from cctrace.analyzers.window import nothing_recorded
from cctrace.trace import open_trace


@dataclass(frozen=True)
class Metric:
    """Something that each step has one number of.

    Attributes:
        key: its name in addresses.
        title: its name for people.
        unit: of the numbers: "µs", or what is counted.
        meaning: what is counted, in a sentence part.
    """

    key: str
    title: str
    unit: str
    meaning: str


METRICS: Final = (
    Metric("period", "Period", "µs", "from the begin of a step to the begin of the next one"),
    Metric(
        "submissions",
        "Submissions",
        "submissions",
        "kernels, graphs, copies and memsets handed to the GPU in a step, by all threads of its loop",
    ),
    Metric("graphs", "Graph launches", "launches", "of the submissions, graphs"),
    Metric("stall", "Stall", "µs", "time in a step that the submitting thread waits for the GPU"),
    Metric(
        "calls",
        "In driver calls",
        "µs",
        "time in a step that the submitting thread spends in driver calls, waiting included",
    ),
    Metric("gpu", "GPU busy", "µs", "time in a step in which the GPU works, mean over the devices"),
)
"""What steps are measured by; `ProcessSeries.values` gives the numbers."""


@dataclass(frozen=True, eq=False)
class ProcessSeries:
    """The steps of one process, in order of time; one element of each array is one step.

    Attributes:
        pid: process.
        name: what ran, if it is known.
        no_steps_because: why there are no steps; the arrays are empty then.
        origin: "marks" or "inferred"; empty without steps.
        anchor: what begins a step.
        confidence: part (0–1) of the inferred steps that repeat a recent one; None for marks.
        start_ns: begin of each step, CLOCK_MONOTONIC.
        period_ns: until the next step begins.
        work: kernels, graphs, copies and memsets.
        graphs: of them, graphs.
        waiting_ns: time that the submitting thread waits for the GPU.
        inside_ns: time of the submitting thread in driver calls, waiting included.
        gpu_ns: time in which the GPU works; NaN where that is not known.
        gpu_caveat: what `gpu_ns` leaves out.
        gpu_unknown_because: why `gpu_ns` is NaN for every step.
        class_of: position in `classes`.
        exclusion: position in `steady.EXCLUSIONS`; STEADY for steps that count.
        classes: the classes, most time first, as `cctrace steps` numbers them.
        main_class: position of the class that stands for the run; −1 without steps.
        traits: of each class that has steady steps, numbered as `classes`.
    """

    pid: int
    name: str | None
    no_steps_because: str | None
    origin: str
    anchor: str
    confidence: float | None
    start_ns: IntArray
    period_ns: IntArray
    work: IntArray
    graphs: IntArray
    waiting_ns: IntArray
    inside_ns: IntArray
    gpu_ns: FloatArray
    gpu_caveat: str | None
    gpu_unknown_because: str | None
    class_of: IntArray
    exclusion: SmallIntArray
    classes: tuple[StepClass, ...]
    main_class: int
    traits: tuple[ClassTraits, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def steady(self) -> BoolArray:
        """Mask of the steps that count."""
        mask: BoolArray = self.exclusion == STEADY
        return mask

    @property
    def steady_main_ns(self) -> int:
        """Time of the steady steps of the main class: most of it is what `cctrace diff` goes by."""
        return int(self.period_ns[self.steady & (self.class_of == self.main_class)].sum())

    def values(self, metric: Metric) -> FloatArray:
        """The numbers of a metric, in its unit; NaN where one is not known."""
        column = {
            "period": self.period_ns,
            "submissions": self.work,
            "graphs": self.graphs,
            "stall": self.waiting_ns,
            "calls": self.inside_ns,
            "gpu": self.gpu_ns,
        }[metric.key]
        scale = NANOSECONDS_PER_MICROSECOND if metric.unit == "µs" else 1.0
        return np.asarray(column / scale, np.float64)


@dataclass(frozen=True, eq=False)
class StepSeries:
    """The steps of one recording.

    Attributes:
        provenance: what was recorded, and how.
        processes: those that hand work to the GPU; first the one that `cctrace diff` compares.
        no_steps_because: why none of them has steps; None if one has.
    """

    provenance: Provenance
    processes: tuple[ProcessSeries, ...]
    no_steps_because: str | None


def step_series(path: Path) -> StepSeries:
    """The steps of a trace file.

    Raises:
        UnusableInputError: the file is no trace that can be read.
    """
    return series_of(load(open_trace(path)))


def series_of(recording: Recording) -> StepSeries:
    """The steps of a recording."""
    working = [one for one in recording.processes if one.calls.work_count or len(one.marks)]
    processes = [_of_process(process, recording) for process in working]
    processes.sort(key=lambda one: (-one.steady_main_ns, -len(one)))
    return StepSeries(
        provenance=provenance_of(recording),
        processes=tuple(processes),
        no_steps_because=_why_none(recording, processes),
    )


def _why_none(recording: Recording, processes: list[ProcessSeries]) -> str | None:
    if not len(recording.calls) and not len(recording.marks):
        sentence = nothing_recorded(recording.metadata.recording)
        return sentence[0].lower() + sentence[1:].rstrip(".")
    if not processes:
        return "no process of the recording handed work to the GPU"
    return None if any(len(one) for one in processes) else processes[0].no_steps_because


def _of_process(process: Process, recording: Recording) -> ProcessSeries:
    steps = process.steps
    return (
        _without_steps(process, steps) if isinstance(steps, NoSteps) else _series(process, steps, recording)
    )


def _without_steps(process: Process, found: NoSteps) -> ProcessSeries:
    none = np.zeros(0, np.int64)
    return ProcessSeries(
        pid=process.pid,
        name=process.name,
        no_steps_because=found.reason,
        origin="",
        anchor="",
        confidence=None,
        start_ns=none,
        period_ns=none,
        work=none,
        graphs=none,
        waiting_ns=none,
        inside_ns=none,
        gpu_ns=np.zeros(0, np.float64),
        gpu_caveat=None,
        gpu_unknown_because=found.reason,
        class_of=none,
        exclusion=np.zeros(0, np.int8),
        classes=(),
        main_class=-1,
        traits=(),
    )


def _series(process: Process, steps: Steps, recording: Recording) -> ProcessSeries:
    counts = counts_of(process.calls, steps)
    collector = recording.metadata.collector
    busy = busy_steps(process.gpu, steps.start_ns, steps.end_ns, collector, distorted=recording.distorted)
    order = steps.classes_by_time
    position = np.argsort(order)
    return ProcessSeries(
        pid=process.pid,
        name=process.name,
        no_steps_because=None,
        origin=steps.origin,
        anchor=steps.anchor,
        confidence=steps.confidence,
        start_ns=steps.start_ns,
        period_ns=steps.period_ns,
        work=counts.work,
        graphs=counts.graphs,
        waiting_ns=counts.waiting_ns,
        inside_ns=steps.inside_ns,
        gpu_ns=np.where(busy.seen, busy.busy_ns, np.nan),
        gpu_caveat=busy.caveat,
        gpu_unknown_because=busy.cannot_tell_because,
        class_of=position[steps.class_of].astype(np.int16),
        exclusion=steps.exclusion.astype(np.int8),
        classes=tuple(steps.classes[number] for number in order),
        main_class=int(position[steps.main_class]),
        traits=_traits(process, steps, order),
    )


def _traits(process: Process, steps: Steps, order: list[int]) -> tuple[ClassTraits, ...]:
    return tuple(
        replace(class_traits(steps, number, typical_scope_of(process.calls, steps, number)), number=listed)
        for listed, number in enumerate(order)
        if steps.steady_of(number).any()
    )


def main_process(series: StepSeries, pid: int | None = None) -> ProcessSeries | None:
    """The process with this pid; the first one with steps if there is none; None if none has steps."""
    found = [one for one in series.processes if len(one)]
    return next((one for one in found if one.pid == pid), found[0] if found else None)
