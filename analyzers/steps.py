"""Steps of a process: from marks, else inferred; their classes; and which of them are steady.

A step lasts from one mark (or one anchor call) to the next one on the same thread. The last mark has no next
one and ends the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.calls import Calls
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray
from cctrace.analyzers.inference import Anchor, find_anchor
from cctrace.analyzers.marks import Marks
from cctrace.analyzers.phases import phase_of
from cctrace.analyzers.steady import HICCUP, PAUSE_FACTOR, STEADY, exclusions
from cctrace.analyzers.structure import (
    MAX_CLASSES,
    NO_BATCH,
    SAME_PHASE,
    Structure,
    per_step,
    rows_within,
    set_up_steps,
    step_of,
    structure_of,
)

Texts = np.ndarray[tuple[int], np.dtype[np.str_]]
THREADS_TRIED: Final = 4
"""Busiest threads whose calls are searched for steps: a thread that only loads weights can be the busiest."""
MAX_LABELS: Final = 48
"""Labels told apart; those of prefill steps can hold numbers of tokens and be different in every step."""
MIN_DECODE_SHARE: Final = 0.5
"""The most frequent structure is taken for decode if it has this part of the steps: each request decodes many
times and is prefilled once."""
MIN_DECODE_TIME_SHARE: Final = 0.1
"""And if it takes this part of the time: in a benchmark of many small loops the most frequent one means
nothing."""
SHAPE_STEPS: Final = 64
"""Steps of a class that its description is taken from."""
MIN_MARKS: Final = 2
"""One mark has no next one and so no period."""


@dataclass(frozen=True)
class StepClass:
    """Steps that may be compared.

    Attributes:
        name: the engine's label, or what the steps look like.
        phase: decode, prefill, mixed, other or unknown.
        phase_source: "label" if the engine said it, "structure" if the most frequent structure is taken for
            decode.
        batch: bit length of the bytes read back per step, or a graph number; −1 if not known.
        batch_known_by: "read-back", "graph" or "".
    """

    name: str
    phase: str
    phase_source: str
    batch: int
    batch_known_by: str


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of one process, in order of time.

    Attributes:
        pid: process.
        tid: thread on which the marks or the anchor calls lie.
        submitting_tid: thread that hands most work to the GPU within the steps; stalls and gaps are read from
            it.
        origin: "marks" or "inferred".
        other_loops: further threads with step marks of their own (one loop per GPU, say); not part of these
            steps.
        anchor: what begins a step, in words.
        confidence: part (0–1) of the steps that repeat a recent one; None for marks.
        self_shift: part (0–1) of the calls equal to the call one period earlier; None for marks.
        start_ns: begin of each step.
        end_ns: end of each step: begin of the next mark.
        inside_ns: time of the submitting thread in driver calls, waiting included, for each step.
        class_of: class of each step, position in `classes`.
        exclusion: position in `steady.EXCLUSIONS`; STEADY for steps that count.
        classes: the classes.
    """

    pid: int
    tid: int
    submitting_tid: int
    other_loops: tuple[int, ...]
    origin: str
    anchor: str
    confidence: float | None
    self_shift: float | None
    start_ns: IntArray
    end_ns: IntArray
    inside_ns: IntArray
    class_of: IntArray
    exclusion: IntArray
    classes: tuple[StepClass, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def period_ns(self) -> IntArray:
        """Length of each step."""
        return self.end_ns - self.start_ns

    def steady_of(self, number: int) -> BoolArray:
        """Mask of the steady steps of one class."""
        mask: BoolArray = np.logical_and(self.class_of == number, self.exclusion == STEADY)
        return mask

    def hiccup_factors(self) -> FloatArray:
        """How many times longer than in steady steps of its class the calls of each step took.

        NaN for steps that are no hiccup, and where a class has no steady step.
        """
        factors = np.full(len(self), np.nan)
        for number in np.unique(self.class_of[self.exclusion == HICCUP]).tolist():
            steady, hiccups = self.inside_ns[self.steady_of(number)], self.exclusion == HICCUP
            hiccups = np.logical_and(hiccups, self.class_of == number)
            if len(steady) and np.median(steady) > 0:
                factors[hiccups] = self.inside_ns[hiccups] / np.median(steady)
        return factors

    @property
    def classes_by_time(self) -> list[int]:
        """Class numbers, the class with most time first: the order in which they are listed."""
        total = np.bincount(self.class_of, weights=self.period_ns, minlength=len(self.classes))
        order: list[int] = np.argsort(-total, kind="stable").tolist()
        return order

    @property
    def main_class(self) -> int:
        """The class that stands for the run: the decode class (else any) with most steady time."""
        decode = [index for index, one in enumerate(self.classes) if one.phase == "decode"]
        candidates = decode or list(range(len(self.classes)))
        return max(candidates, key=lambda index: int(self.period_ns[self.steady_of(index)].sum()))


@dataclass(frozen=True, eq=False)
class _Frame:
    """Steps before they are told apart; fields as in `Steps`."""

    pid: int
    tid: int
    origin: str
    anchor: str
    confidence: float | None
    start_ns: IntArray
    end_ns: IntArray
    other_loops: tuple[int, ...] = ()
    self_shift: float | None = None

    @property
    def period_ns(self) -> IntArray:
        """Length of each step."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, eq=False)
class _Labels:
    """The labels of steps: `words[of_step]`; no two words are equal."""

    words: Texts
    of_step: IntArray


@dataclass(frozen=True)
class NoSteps:
    """Why a process has no steps."""

    pid: int
    reason: str


def find_steps(calls: Calls, marks: Marks) -> Steps | NoSteps:
    """The steps of one process.

    Args:
        calls: all host calls of the process.
        marks: step marks of the process; may be empty.
    """
    pid = int(calls.forms.pid[calls.form[0]]) if len(calls) else int(marks.pid[0]) if len(marks) else 0
    if len(marks) >= MIN_MARKS:
        return _from_marks(pid, calls, marks)
    threads = busy_threads(calls, calls.is_work)
    if not threads:
        return NoSteps(pid, "it handed no work to the GPU")
    boundary_ns = np.sort(calls.start_ns[calls.is_host_boundary])
    reason = ""
    for tid, rows in threads[:THREADS_TRIED]:
        anchor = find_anchor(calls.pick(rows), boundary_ns)
        if isinstance(anchor, Anchor):
            start, end = anchor.start_ns[:-1], anchor.start_ns[1:]
            about = (anchor.description, anchor.confidence)
            frame = _Frame(pid, tid, "inferred", *about, start, end, self_shift=anchor.self_shift)
            return _classified(frame, calls, None)
        reason = reason or anchor.reason
    return NoSteps(pid, reason)


def busy_threads(calls: Calls, counted: BoolArray) -> list[tuple[int, slice]]:
    """Threads with the slices of their calls, most counted calls first; those without any are left out."""
    threads = [(int(np.count_nonzero(counted[rows])), tid, rows) for _, tid, rows in calls.threads]
    threads.sort(key=lambda item: -item[0])
    return [(tid, rows) for count, tid, rows in threads if count]


def _from_marks(pid: int, calls: Calls, marks: Marks) -> Steps | NoSteps:
    threads, counts = np.unique(marks.tid, return_counts=True)
    tid = int(threads[np.argmax(counts)])
    marks = marks.pick(marks.tid == tid)
    if len(marks) < MIN_MARKS:
        return NoSteps(pid, "no thread has two step marks, so no step has an end")
    start, end = marks.start_ns[:-1], marks.start_ns[1:]
    proper = end > start
    if not proper.any():
        return NoSteps(pid, "all its step marks begin at the same time")
    labels = _labels_of(marks.label[:-1], marks.labels)
    name = str(labels.words[0]) if len(labels.words) == 1 else f"{len(labels.words)} labels"
    others = tuple(int(other) for other in threads[counts >= MIN_MARKS] if other != tid)
    frame = _Frame(pid, tid, "marks", f"step mark ({name})", None, start[proper], end[proper], others)
    return _classified(frame, calls, _Labels(labels.words, labels.of_step[proper]))


def _labels_of(codes: IntArray, vocabulary: tuple[str, ...]) -> _Labels:
    """The labels of marks by their codes; a mark without a label (code −1) is called a step."""
    words, number = np.unique(np.array([*vocabulary, "step"]), return_inverse=True)
    used, of_step = np.unique(number.reshape(-1)[codes], return_inverse=True)
    return _Labels(words[used], of_step.reshape(-1))


def _classified(frame: _Frame, calls: Calls, labels: _Labels | None) -> Steps:
    step = step_of(calls, frame.start_ns, frame.end_ns)
    if frame.other_loops:
        step[np.isin(calls.tid, frame.other_loops)] = -1
    busy = busy_threads(calls, calls.is_work & (step >= 0))
    submitting, rows = busy[0] if busy else (frame.tid, slice(0, 0))
    own_calls, own_step = calls.pick(rows), step[rows]
    steps = len(frame.start_ns)
    structure = structure_of(own_calls, own_step, steps)
    class_of, classes = _classes(structure, labels, own_calls, frame)
    allocates, captures = set_up_steps(own_calls, own_step, steps)
    inside_ns = per_step(own_step, own_calls.duration_ns, steps)
    return Steps(
        pid=frame.pid,
        tid=frame.tid,
        submitting_tid=submitting,
        other_loops=frame.other_loops,
        origin=frame.origin,
        anchor=frame.anchor,
        confidence=frame.confidence,
        self_shift=frame.self_shift,
        start_ns=frame.start_ns,
        end_ns=frame.end_ns,
        inside_ns=inside_ns,
        class_of=class_of,
        exclusion=exclusions(class_of, frame.period_ns, inside_ns, allocates, captures),
        classes=classes,
    )


def _classes(
    structure: Structure,
    labels: _Labels | None,
    calls: Calls,
    frame: _Frame,
) -> tuple[IntArray, tuple[StepClass, ...]]:
    """Labels that name a phase are classes of their own; all else is told apart by structure and batch."""
    steps = len(structure.cluster)
    labels = _Labels(np.array([""]), np.zeros(steps, np.int64)) if labels is None else _frequent(labels)
    words, label_of = labels.words, labels.of_step
    phases = [phase_of(str(word)) for word in words]
    labelled = np.array([phase != "unknown" for phase in phases], np.bool_)[label_of]
    cluster = np.where(labelled, 0, structure.cluster + 1)
    # Prefills differ in size from one to the next; telling them apart by it would leave classes of one step.
    decode_like = np.concatenate((structure.likeness, [0.0]))[structure.cluster] >= SAME_PHASE
    batch = np.where(labelled | ~decode_like, NO_BATCH, structure.batch)
    # One number for all three sorts much faster than rows of them.
    key = (label_of * (MAX_CLASSES + 1) + cluster) * (int(batch.max(initial=NO_BATCH)) - NO_BATCH + 1)
    _, first, class_of = np.unique(key + batch - NO_BATCH, return_index=True, return_inverse=True)
    class_of = class_of.reshape(-1)
    values = np.stack([label_of[first], cluster[first], batch[first]], axis=1)
    dominant = _dominates(structure, frame.period_ns)
    classes = []
    for number, (label, group, size) in enumerate(values):
        text, phase = str(words[label]), phases[label]
        if phase != "unknown":
            classes.append(StepClass(text, phase, "label", NO_BATCH, ""))
            continue
        phase = _guess(structure, int(group), dominant=dominant)
        some = np.flatnonzero(class_of == number)[:SHAPE_STEPS]
        shape = _shape(calls, frame.start_ns[some], frame.end_ns[some])
        name = f"{text}: {shape}" if text else shape
        known_by = structure.batch_known_by if size != NO_BATCH else ""
        classes.append(StepClass(name, phase, "structure", int(size), known_by))
    return class_of, tuple(classes)


def _dominates(structure: Structure, period_ns: IntArray) -> bool:
    """Whether the most frequent structure is frequent enough to be taken for decode steps."""
    likeness = np.concatenate((structure.likeness, [0.0]))
    alike = likeness[structure.cluster] >= SAME_PHASE
    typical = np.minimum(period_ns, PAUSE_FACTOR * np.median(period_ns)) if len(period_ns) else period_ns
    time_share = float(typical[alike].sum() / max(float(typical.sum()), 1.0))
    return bool(alike.mean() >= MIN_DECODE_SHARE and time_share >= MIN_DECODE_TIME_SHARE)


def _guess(structure: Structure, group: int, *, dominant: bool) -> str:
    if not dominant:
        return "unknown"
    return "decode" if group > 0 and structure.likeness[group - 1] >= SAME_PHASE else "other"


def _frequent(labels: _Labels) -> _Labels:
    """The labels with all but the most frequent replaced by their phase."""
    counts = np.bincount(labels.of_step, minlength=len(labels.words))
    rare = np.argsort(-counts, kind="stable")[MAX_LABELS:]
    replaced = labels.words.astype(object)
    replaced[rare] = [f"{phase_of(str(labels.words[number]))}, rare labels" for number in rare]
    words, number = np.unique(replaced.astype(str), return_inverse=True)
    return _Labels(words, number.reshape(-1)[labels.of_step])


def _shape(calls: Calls, start_ns: IntArray, end_ns: IntArray) -> str:
    """What some steps of a class look like: "34 submissions, 1 graph, 64 B read back"."""
    picked = calls.pick(rows_within(calls, start_ns, end_ns)[0])
    number = len(start_ns)
    work = picked.is_work
    graphs = picked.is_operation("graph") & work
    to_host = picked.is_host_boundary & picked.is_copy
    submissions = round(work.sum() / number)
    text = f"{submissions} submission{'' if submissions == 1 else 's'}"
    if graphs.any():
        text += f", {round(graphs.sum() / number)} graph{'s' if graphs.sum() > number else ''}"
    if to_host.any():
        text += f", {round(np.maximum(picked.bytes[to_host], 0).sum() / number)} B read back"
    return text
