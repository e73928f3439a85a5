"""Which steps are compared: classes that both arms have, and passages of consecutive steps in them.

A step cannot be replayed alone: what the step before it left on the GPU is part of it. So steps are replayed
in *passages*: a few steps that only lead in, then up to PASSAGE_STEPS steps that count. A passage of the off
arm is paired with one of the on arm whose steps, the leading ones included, have the same classes: the first
decode step after a prefill is compared with the first decode step after a prefill.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.arms import Arm, ClassPair, pair_classes
from cctrace.analyzers.columns import BoolArray, IntArray
from cctrace.analyzers.steady import PAUSE, STEADY
from cctrace.analyzers.steps import Steps

LEAD_STEPS: Final = 2
"""Steps replayed before the first one that counts: serving engines keep at most two steps in flight."""
PASSAGE_STEPS: Final = 20
"""Steps that count in one passage: two leading steps then cost a tenth more work."""
MAX_STEPS: Final = 200
"""Steps that count per class, spread over the run: the mean of so many is known to 1 % if single steps vary
by 14 %."""
MAX_CALLS: Final = 130_000
"""Host calls per class and arm that are replayed; fewer steps are taken where steps are longer."""
MIN_CLASS_STEPS: Final = 2
"""A class with fewer steady steps in an arm is not compared: one step has no spread."""
ENOUGH_STEPS: Final = 3 * LEAD_STEPS
"""A stretch of so many steps, of which nothing leads in, can spare its first ones."""
_NO_CLASS: Final = -1

_Key = tuple[tuple[int, ...], int]


@dataclass(frozen=True)
class Passage:
    """Consecutive steps of both arms, paired one by one.

    Attributes:
        off_first: number of the first step in the off arm, leading steps included.
        on_first: the same in the on arm.
        lead: leading steps, which do not count.
        counted: steps that count.
    """

    off_first: int
    on_first: int
    lead: int
    counted: int

    @property
    def steps(self) -> int:
        """Steps of the passage, leading ones included."""
        return self.lead + self.counted


@dataclass(frozen=True, eq=False)
class MatchedClass:
    """A step class that both arms have.

    Attributes:
        off: number of the class in the off arm.
        on: number of the class in the on arm.
        phase: phase of its steps.
        off_name: its name in the off arm.
        on_name: its name in the on arm.
        off_steady: steady steps of it in the off arm.
        on_steady: steady steps of it in the on arm.
        passages: what is replayed.
    """

    off: int
    on: int
    phase: str
    off_name: str
    on_name: str
    off_steady: int
    on_steady: int
    passages: tuple[Passage, ...]

    @property
    def counted(self) -> int:
        """Steps that count, in all passages."""
        return sum(passage.counted for passage in self.passages)


@dataclass(frozen=True)
class _Piece:
    """A passage of one arm."""

    first: int
    lead: int
    counted: int


def matched_classes(off: Arm, on: Arm) -> tuple[MatchedClass, ...]:
    """The classes that both arms have, most steady time of the off arm first."""
    pairs = pair_classes(off, on, least=MIN_CLASS_STEPS)
    off_labels = _labels(off.steps, [pair.off for pair in pairs])
    on_labels = _labels(on.steps, [pair.on for pair in pairs])
    off_pieces, on_pieces = _pieces(off.steps, off_labels), _pieces(on.steps, on_labels)
    matched = [
        _matched(number, pair, (off, on), (off_pieces, on_pieces)) for number, pair in enumerate(pairs)
    ]
    matched.sort(key=lambda one: -int(off.steps.period_ns[off.steps.steady_of(one.off)].sum()))
    return tuple(matched)


def not_compared(off: Arm, on: Arm, matched: tuple[MatchedClass, ...]) -> tuple[str, ...]:
    """Steady steps of either arm that have no counterpart, in words."""
    lines = []
    for name, arm, compared in (
        ("off", off, {one.off for one in matched}),
        ("on", on, {one.on for one in matched}),
    ):
        for number, step_class in enumerate(arm.steps.classes):
            steady = int(arm.steps.steady_of(number).sum())
            if steady and number not in compared:
                steps = "1 step" if steady == 1 else f"{steady} steps"
                lines.append(f"{steps} of the {name} arm: {step_class.name}")
    return tuple(lines)


def _labels(steps: Steps, compared: list[int]) -> IntArray:
    """Number of the matched class of each step, _NO_CLASS for the others."""
    translation = np.full(len(steps.classes), _NO_CLASS, np.int64)
    translation[compared] = np.arange(len(compared))
    return translation[steps.class_of]


def _pieces(steps: Steps, labels: IntArray) -> dict[_Key, list[_Piece]]:
    """The passages of one arm by what they follow and what they are."""
    counts = (steps.exclusion == STEADY) & (labels != _NO_CLASS)
    follows = _follows(steps)
    pieces: dict[_Key, list[_Piece]] = defaultdict(list)
    for begin, end in _runs(labels, counts, follows):
        label, first, lead = int(labels[begin]), begin, _lead(begin, labels, follows)
        if not lead and end - begin >= ENOUGH_STEPS:
            # Nothing is known of what lies before: the first steps lead in instead of counting.
            first, lead = begin + LEAD_STEPS, LEAD_STEPS
        while first < end:
            counted = min(PASSAGE_STEPS, end - first)
            before = tuple(labels[first - lead : first].tolist())
            pieces[before, label].append(_Piece(first - lead, lead, counted))
            first += counted
            lead = min(LEAD_STEPS, first - begin)
    return pieces


def _follows(steps: Steps) -> BoolArray:
    """Steps that begin where the step before them ends, without a pause in which the GPU ran dry."""
    follows = np.zeros(len(steps), np.bool_)
    follows[1:] = (steps.end_ns[:-1] == steps.start_ns[1:]) & (steps.exclusion[:-1] != PAUSE)
    return follows


def _runs(labels: IntArray, counts: BoolArray, follows: BoolArray) -> list[tuple[int, int]]:
    """Stretches [begin, end) of consecutive steps of one class that count."""
    same = counts[1:] & counts[:-1] & follows[1:] & (labels[1:] == labels[:-1])
    begins = np.flatnonzero(counts & ~np.concatenate(([False], same)))
    ends = np.flatnonzero(counts & ~np.concatenate((same, [False]))) + 1
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def _lead(first: int, labels: IntArray, follows: BoolArray) -> int:
    """Steps before `first` that can lead in: consecutive ones of classes that both arms have."""
    lead = 0
    while lead < LEAD_STEPS and first - lead > 0 and follows[first - lead]:
        if labels[first - lead - 1] == _NO_CLASS:
            break
        lead += 1
    return lead


def _matched(
    number: int,
    pair: ClassPair,
    arms: tuple[Arm, Arm],
    pieces: tuple[dict[_Key, list[_Piece]], dict[_Key, list[_Piece]]],
) -> MatchedClass:
    (off, on), (off_pieces, on_pieces) = arms, pieces
    keys = [key for key in off_pieces if key[1] == number and key in on_pieces]
    # Of what nothing leads in, the first step lacks the work that it found on the GPU.
    keys = [key for key in keys if key[0]] or keys
    passages = [one for key in keys for one in _paired(off_pieces[key], on_pieces[key])]
    if not passages:
        passages = _paired(_bare(number, off_pieces), _bare(number, on_pieces))
    steps = max(len(pair.off_scope.calls), len(pair.on_scope.calls), 1)
    calls_per_step = steps / max(min(pair.off_scope.steps, pair.on_scope.steps), 1)
    quota = min(MAX_STEPS, max(PASSAGE_STEPS, int(MAX_CALLS / max(calls_per_step, 1.0))))
    return MatchedClass(
        off=pair.off,
        on=pair.on,
        phase=off.steps.classes[pair.off].phase,
        off_name=off.steps.classes[pair.off].name,
        on_name=on.steps.classes[pair.on].name,
        off_steady=int(off.steps.steady_of(pair.off).sum()),
        on_steady=int(on.steps.steady_of(pair.on).sum()),
        passages=_spread(passages, quota),
    )


def _bare(number: int, pieces: dict[_Key, list[_Piece]]) -> list[_Piece]:
    """All passages of a class without their leading steps."""
    found = [one for (_, label), group in pieces.items() if label == number for one in group]
    return [_Piece(one.first + one.lead, 0, one.counted) for one in sorted(found, key=lambda one: one.first)]


def _paired(off: list[_Piece], on: list[_Piece]) -> list[Passage]:
    """Passages of both arms in order of time; of the arm that has more, some spread over the run."""
    count = min(len(off), len(on))
    pairs = zip(_evenly(off, count), _evenly(on, count), strict=True)
    return [
        Passage(first.first, second.first, first.lead, min(first.counted, second.counted))
        for first, second in pairs
    ]


def _spread(passages: list[Passage], quota: int) -> tuple[Passage, ...]:
    """At most about `quota` counted steps, from passages spread over the run."""
    counted = sum(one.counted for one in passages)
    ordered = sorted(passages, key=lambda one: one.off_first)
    if counted > quota:
        ordered = _evenly(ordered, max(1, len(ordered) * quota // counted))
    return tuple(_joined(ordered))


def _joined(passages: list[Passage]) -> list[Passage]:
    """Passages that follow each other directly in both arms as one: the second needs nothing to lead in."""
    joined: list[Passage] = []
    for one in passages:
        last = joined[-1] if joined else None
        if last is not None and (last.off_first + last.steps, last.on_first + last.steps) == (
            one.off_first + one.lead,
            one.on_first + one.lead,
        ):
            joined[-1] = Passage(last.off_first, last.on_first, last.lead, last.counted + one.counted)
        else:
            joined.append(one)
    return joined


def _evenly(items: list, count: int) -> list:  # type: ignore[type-arg]
    """`count` of the items, evenly spread; all of them if there are no more."""
    if count >= len(items):
        return items
    return [items[number * len(items) // count] for number in range(count)]
