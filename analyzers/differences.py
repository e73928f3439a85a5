"""What differs between two recordings besides confidential computing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.categories import CATEGORIES, ORDER, WAIT, WORK, group_of
from cctrace.analyzers.comparability.compare import compared_fields
from cctrace.analyzers.comparability.rules import EXPECTED
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.results import Result, value
from cctrace.analyzers.scope import Scope

MIN_COUNT_DIFFERENCE: Final = 0.02
"""Calls per step differ if the counts differ by this part of the larger one, and by MIN_COUNT_PER_STEP."""
MIN_COUNT_PER_STEP: Final = 0.05
MAX_CALL_DIFFERENCES: Final = 40
"""Kernels and calls listed, largest difference first; the rest is counted."""


@dataclass(frozen=True, kw_only=True)
class FieldDifference(Result):
    """One field of the metadata that is not the same in both arms."""

    name: str = value("field, as in the metadata document")
    off: str | None = value("value in the off arm, of lists what the on arm lacks; null if not known")
    on: str | None = value("value in the on arm, of lists what the off arm lacks; null if not known")
    expected: bool = value("whether the comparison is about this field")


@dataclass(frozen=True, kw_only=True)
class CallDifference(Result):
    """One kernel or call that the arms make a different number of times per step."""

    call: str = value("kernel symbol, or operation")
    off_per_step: float = value("per step in the off arm", "calls")
    on_per_step: float = value("per step in the on arm", "calls")


@dataclass(frozen=True, kw_only=True)
class CallDifferences(Result):
    """How the structure of the compared steps differs."""

    listed: tuple[CallDifference, ...] = value("largest difference first")
    more: int = value("differences not listed")
    kernel_names_known: bool = value("whether both arms know the kernels' symbols")


def field_differences(off: Recording, on: Recording) -> tuple[FieldDifference, ...]:
    """Fields of the metadata that differ, the unexpected ones first."""
    found = [
        FieldDifference(name=one.name, off=one.off, on=one.on, expected=one.severity == EXPECTED)
        for one in compared_fields(off, on)
    ]
    return tuple(sorted(found, key=lambda one: one.expected))


def call_differences(off: Scope, on: Scope) -> CallDifferences:
    """Kernels by symbol, and other submissions and waits by category, that differ in number per step."""
    first, second = _counts(off), _counts(on)
    found = [
        CallDifference(call=call, off_per_step=first.get(call, 0.0), on_per_step=second.get(call, 0.0))
        for call in first.keys() | second.keys()
        if _differs(first.get(call, 0.0), second.get(call, 0.0))
    ]
    found.sort(key=lambda one: (-abs(one.on_per_step - one.off_per_step), one.call))
    return CallDifferences(
        listed=tuple(found[:MAX_CALL_DIFFERENCES]),
        more=max(0, len(found) - MAX_CALL_DIFFERENCES),
        kernel_names_known=_names_known(off) and _names_known(on),
    )


def _differs(first: float, second: float) -> bool:
    difference = abs(second - first)
    return difference > MIN_COUNT_PER_STEP and difference > MIN_COUNT_DIFFERENCE * max(first, second)


def _counts(scope: Scope) -> dict[str, float]:
    counts = {
        CATEGORIES[number]: scope.per_step(int(count))
        for number, count in enumerate(np.bincount(scope.category, minlength=len(CATEGORIES)))
        if count and group_of(CATEGORIES[number]) in (WORK, ORDER, WAIT)
    }
    kernels = scope.calls.is_work & scope.calls.is_operation("kernel")
    symbols = np.bincount(np.maximum(scope.calls.symbol[kernels], 0), minlength=len(scope.calls.symbols))
    for number in np.flatnonzero(symbols).tolist():
        counts[f"kernel {scope.calls.symbols[number]}"] = scope.per_step(int(symbols[number]))
    return counts


def _names_known(scope: Scope) -> bool:
    """Whether kernels carry symbols: without them they all have the name of the driver's launch function."""
    kernels = scope.calls.is_work & scope.calls.is_operation("kernel")
    numbers = np.unique(scope.calls.symbol[kernels])
    return all(
        not scope.calls.symbols[number].startswith("cuLaunch") for number in numbers.tolist() if number >= 0
    )
