"""Step labels: which ones mark steps, and what is left of a label without its counter."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

_NUMBER: Final = re.compile(r"\d+")

_COUNTED_WORD: Final = re.compile(r"(?i)((?:step|iter|iteration)s?)([\s_#:=]*)(\d+)(?!\.?\d)")
"""A number right behind one of these words counts iterations: `_forward_step 17`, `iter=5`, `step#3`. In
`step[DECODE bs=32]` the number is a batch size, and stays."""

MIN_COUNTED: Final = 8
"""So many steps in a row must count up by one before an unnamed number is taken for a counter. A batch that
fills up request by request looks the same for a while."""


MOSTLY: Final = 0.5
"""A counter may jump (unlabelled steps count too), but jumps are the exception."""


def matches_any(patterns: str, text: str) -> bool:
    """Whether a label matches one of the patterns (as in file names), separated by ';'."""
    return any(fnmatch.fnmatchcase(text, p) for p in patterns.split(";") if p)


def step_classes(labels: Sequence[str], order: npt.NDArray[np.intp]) -> list[str]:
    """Class of each label: the label without the numbers that only count.

    Numbers behind words such as "step" are counters, and so are numbers that go up by one from step to step.

    Args:
        labels: the distinct labels of one thread's steps.
        order: for each step, in order, the place of its label.
    """
    texts = [_COUNTED_WORD.sub(r"\1", label) for label in labels]
    members: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        members.setdefault(_NUMBER.sub("#", text), []).append(place)
    classes = [text.strip() for text in texts]
    for places in members.values():
        numbers = [[int(n[:18]) for n in _NUMBER.findall(texts[place])] for place in places]
        row_of = np.full(len(labels), -1, dtype=np.intp)
        row_of[places] = np.arange(len(places))
        steps = np.flatnonzero(row_of[order] >= 0)
        slots = _counting_slots(np.array(numbers, dtype=np.int64)[row_of[order[steps]]], steps)
        for place in places if slots else ():
            classes[place] = _without_slots(texts[place], slots)
    return classes


def _counting_slots(numbers: npt.NDArray[np.int64], steps: npt.NDArray[np.intp]) -> tuple[int, ...]:
    """Places of the numbers that count, in labels that differ in numbers only.

    Args:
        numbers: the numbers of each step's label, one row a step.
        steps: the place of each step among all steps of the thread.
    """
    if len(numbers) < MIN_COUNTED or not numbers.shape[1]:
        return ()
    jumps = np.diff(numbers, axis=0)
    by_one = np.mean(jumps == 1, axis=0) > MOSTLY
    with_steps = np.mean(jumps == np.diff(steps)[:, None], axis=0) > MOSTLY
    return tuple(np.flatnonzero(np.all(jumps >= 1, axis=0) & (by_one | with_steps)).tolist())


def _without_slots(text: str, slots: Iterable[int]) -> str:
    drop = set(slots)
    if not drop:
        return text.strip()
    parts, end = [], 0
    for place, match in enumerate(_NUMBER.finditer(text)):
        parts.append(text[end : match.start()])
        parts.append("#" if place in drop else match.group())
        end = match.end()
    return "".join([*parts, text[end:]]).strip()
