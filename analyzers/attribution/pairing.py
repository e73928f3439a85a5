"""Pairs the operations of two arms, passage by passage and lane by lane.

A lane is a host thread or a stream. Lanes have numbers in order of first use, which can differ between two
runs: they are matched by what they hold.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.align import NOT_THERE, Aligner
from cctrace.analyzers.attribution.classes import Passage
from cctrace.analyzers.attribution.timeline import NONE
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

_UNMATCHED: Final = 1 << 40
"""Added to the number of a lane of the on arm that has no counterpart."""

Rows = dict[tuple[int, int], IntArray]
"""Positions of operations by (lane, step)."""


@dataclass(frozen=True, eq=False)
class Side:
    """The operations of one arm, as the pairing sees them.

    Attributes:
        lane: lane of each operation, numbered as in the off arm.
        step: step that it works for.
        key: what it is; equal keys are the same operation.
        kind: what kind of operation it is.
    """

    lane: IntArray
    step: IntArray
    key: IntArray
    kind: IntArray


@dataclass(frozen=True, eq=False)
class Paired:
    """Paired operations of both arms.

    Attributes:
        passage: number of the passage.
        step: number of the step, counted through all passages.
        lane: lane, numbered as in the off arm.
        off: position in the off arm, NOT_THERE if only the on arm has it.
        on: position in the on arm, NOT_THERE if only the off arm has it.
    """

    passage: IntArray
    step: IntArray
    lane: IntArray
    off: IntArray
    on: IntArray

    def __len__(self) -> int:
        return len(self.off)

    @property
    def has_off(self) -> BoolArray:
        """Which operations the off arm has."""
        return self.off >= 0

    @property
    def has_on(self) -> BoolArray:
        """Which operations the on arm has."""
        return self.on >= 0

    def taken(self, rows: IntArray) -> Paired:
        """The operations at these positions."""
        return Paired(**{field.name: getattr(self, field.name)[rows] for field in fields(Paired)})

    def values(self, off: FloatArray, on: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A value in both arms; where an arm lacks the operation, that of the other arm."""
        first, second = np.append(off, 0)[self.off], np.append(on, 0)[self.on]
        return np.where(self.has_off, first, second), np.where(self.has_on, second, first)

    def spent(self, off: FloatArray, on: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A time in both arms; where an arm lacks the operation, none."""
        return np.append(off, 0.0)[self.off] * self.has_off, np.append(on, 0.0)[self.on] * self.has_on


def matching(
    off: tuple[IntArray, IntArray], on: tuple[IntArray, IntArray], fixed: tuple[int, ...] = ()
) -> dict[int, int]:
    """Lane of the on arm → the lane of the off arm that holds the most similar operations.

    Args:
        off: lane and kind of each operation of the off arm.
        on: the same of the on arm.
        fixed: lanes that are their own counterpart.
    """
    off_counts, on_counts = _signatures(*off), _signatures(*on)
    found = {lane: lane for lane in fixed}
    scores = [
        (_likeness(first, second), -there, here)
        for here, first in off_counts.items()
        for there, second in on_counts.items()
    ]
    for score, negative, here in sorted(scores, reverse=True):
        if score > 0 and -negative not in found and here not in found.values():
            found[-negative] = here
    return found


def _signatures(lane: IntArray, kind: IntArray) -> dict[int, IntArray]:
    kinds = int(kind.max(initial=0)) + 1
    return {
        one: np.bincount(kind[lane == one], minlength=kinds) for one in np.unique(lane[lane >= 0]).tolist()
    }


def _likeness(first: IntArray, second: IntArray) -> float:
    length = min(len(first), len(second))
    common = np.minimum(first[:length], second[:length]).sum()
    return float(common / max(int(first.sum()), int(second.sum()), 1))


def translated(lane: IntArray, matched: dict[int, int]) -> IntArray:
    """Lanes of the on arm as those of the off arm; one without a counterpart gets a number of its own."""
    found, index = np.unique(lane, return_inverse=True)
    numbers = [one if one < 0 else matched.get(one, _UNMATCHED + one) for one in found.tolist()]
    return np.array(numbers, np.int64)[index.reshape(-1)] if len(found) else lane.astype(np.int64)


def shared_words(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[IntArray, IntArray]:
    """Numbers, from 1, of words that mean the same in both arms; the last entry, 0, stands for no word."""
    number = {word: index + 1 for index, word in enumerate(dict.fromkeys((*first, *second)))}
    return (
        np.array([*(number[word] for word in first), 0], np.int64),
        np.array([*(number[word] for word in second), 0], np.int64),
    )


def paired(passages: tuple[Passage, ...], off: Side, on: Side) -> Paired:
    """The operations of all steps of all passages, in order of (passage, step, lane)."""
    off_rows, on_rows = _by_lane(off), _by_lane(on)
    lanes = sorted({lane for lane, _ in off_rows} | {lane for lane, _ in on_rows})
    nothing, aligner = np.zeros(0, np.int64), Aligner()
    found: list[tuple[IntArray, IntArray]] = []
    places: list[tuple[int, int, int]] = []
    step = 0
    for number, passage in enumerate(passages):
        for offset in range(passage.steps):
            for lane in lanes:
                first = off_rows.get((lane, passage.off_first + offset), nothing)
                second = on_rows.get((lane, passage.on_first + offset), nothing)
                if len(first) or len(second):
                    found.append(_pairs(first, second, off, on, aligner))
                    places.append((number, step, lane))
            step += 1
    lengths = np.array([len(left) for left, _ in found], np.int64)
    place = np.repeat(np.array(places, np.int64).reshape(-1, 3), lengths, axis=0)
    return Paired(
        passage=place[:, 0],
        step=place[:, 1],
        lane=place[:, 2],
        off=np.concatenate([left for left, _ in found] or [nothing]),
        on=np.concatenate([right for _, right in found] or [nothing]),
    )


def _by_lane(side: Side) -> Rows:
    order = np.lexsort((np.arange(len(side.lane)), side.step, side.lane))
    groups = np.split(order, np.flatnonzero(opens(side.lane[order], side.step[order]))[1:])
    return {(int(side.lane[one[0]]), int(side.step[one[0]])): one for one in groups if len(one)}


def opens(*keys: IntArray) -> BoolArray:
    """Where a new group of equal keys begins, of rows in order."""
    begins = np.zeros(len(keys[0]), np.bool_)
    begins[:1] = True
    for key in keys:
        begins[1:] |= key[1:] != key[:-1]
    return begins


def group_numbers(*keys: IntArray) -> IntArray:
    """Number of each row's group of equal keys; much cheaper than sorting rows."""
    number = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        values, index = np.unique(key, return_inverse=True)
        number = number * max(len(values), 1) + index.reshape(-1)
        # Numbers stay small, so that the next product fits.
        number = np.unique(number, return_inverse=True)[1].reshape(-1)
    return number


def first_of_group(begins: BoolArray) -> IntArray:
    """Position of the first row of each row's group."""
    first: IntArray = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
    return first


def _pairs(
    first: IntArray, second: IntArray, off: Side, on: Side, aligner: Aligner
) -> tuple[IntArray, IntArray]:
    """Pairs of one step and lane as positions in both arms."""
    left, right = aligner.pairs(off.key[first], on.key[second], off.kind[first], on.kind[second])
    return _at(first, left), _at(second, right)


def _at(rows: IntArray, index: IntArray) -> IntArray:
    return np.where(index >= 0, np.append(rows, NOT_THERE)[index], NOT_THERE)


class Places:
    """Where the operations of an arm lie in a program; a step that leads in can lie in two passages."""

    def __init__(self, passage: IntArray, of_arm: IntArray, length: int) -> None:
        there = np.flatnonzero(of_arm >= 0)
        self._width = length
        key = passage[there] * self._width + of_arm[there]
        order = np.argsort(key)
        self._key, self._place = key[order], there[order]
        self.last = np.full(length + 1, NONE, np.int64)
        """Position of each operation in the last passage that holds it; the last entry stands for none."""
        self.last[of_arm[there]] = there

    def of(self, passage: IntArray, operation: IntArray) -> IntArray:
        """Positions in the program, NONE for operations that are not in the passage."""
        if not len(self._key):
            return np.full(len(passage), NONE, np.int64)
        key = np.where((operation >= 0) & (operation < self._width), passage * self._width + operation, -1)
        at = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        return np.where(self._key[at] == key, self._place[at], NONE)
