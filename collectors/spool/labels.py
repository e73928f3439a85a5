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


def matches_any(patterns: str, text: str) -> bool:
    """Whether a label matches one of the patterns (as in file names), separated by ';'."""
    return any(fnmatch.fnmatchcase(text, p) for p in patterns.split(";") if p)


def step_classes(labels: Sequence[str]) -> list[str]:
    """Class of each step: its label without the numbers that only count.

    Args:
        labels: labels of one thread's steps, in order.

    Numbers behind words such as "step" are counters, and so are numbers that go up by one from step to step.
    """
    texts: dict[str, str] = {}
    for label in labels:
        if label not in texts:
            texts[label] = _COUNTED_WORD.sub(r"\1", label)
    counted = _counting_slots([texts[label] for label in labels])
    classes = {label: _without_slots(text, counted.get(_template(text), ())) for label, text in texts.items()}
    return [classes[label] for label in labels]


def _counting_slots(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Template -> places of the numbers that count up, for labels that differ in numbers only."""
    groups: dict[str, list[list[int]]] = {}
    for text in texts:
        numbers = [int(n[:18]) for n in _NUMBER.findall(text)]
        if numbers:
            groups.setdefault(_template(text), []).append(numbers)
    found = {}
    for template, rows in groups.items():
        if len(rows) >= MIN_COUNTED:
            slots = tuple(np.flatnonzero(_counts_up(np.array(rows, dtype=np.int64))).tolist())
            if slots:
                found[template] = slots
    return found


def _counts_up(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    # Other templates (a prefill between decodes) take numbers too, so gaps are allowed but must be the
    # exception.
    jumps = np.diff(numbers, axis=0)
    up: npt.NDArray[np.bool_] = np.all(jumps >= 1, axis=0) & (np.mean(jumps == 1, axis=0) > 0.5)
    return up


def _template(text: str) -> str:
    return _NUMBER.sub("#", text)


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
