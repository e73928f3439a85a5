"""What differs between two recordings besides confidential computing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cctrace.analyzers.categories import CATEGORIES, ORDER, WAIT, WORK, group_of
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.results import Result, value
from cctrace.analyzers.scope import Scope
from cctrace.trace import Metadata

COMPARED_AREAS: Final = (
    "hardware",
    "security",
    "software",
    "model",
    "load",
    "parallelism",
    "scheduling",
    "memory",
    "scale",
)
"""Areas of the acceptance table that describe the experiment; results and life cycle are its outcome."""
IGNORED_KEYS: Final = ("uuid", "serial", "pci_bus", "extra")
"""Names of one board or one boot: they differ between machines of the same kind."""
OUTPUT_OPTIONS: Final = frozenset(
    {
        "--log-file",
        "--output-dir",
        "--output-file",
        "--result-dir",
        "--result-file",
        "--result-filename",
    }
)
"""Options of a command that only name where its results go: the arms of a pair often write different files,
and what they do does not depend on it."""
EXPECTED: Final = ("security.", "emulation")
"""Fields that are meant to differ begin so."""
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
    first, second = _compared(off.metadata), _compared(on.metadata)
    found = [
        FieldDifference(
            name=name,
            off=_text(first.get(name), second.get(name)),
            on=_text(second.get(name), first.get(name)),
            expected=name.startswith(EXPECTED),
        )
        for name in dict.fromkeys((*first, *second))
        if first.get(name) != second.get(name)
    ]
    return tuple(sorted(found, key=lambda one: one.expected))


def _compared(metadata: Metadata) -> dict[str, Any]:
    document = metadata.to_document()
    acceptance = document["acceptance"]
    values: dict[str, Any] = {}
    for area in COMPARED_AREAS:
        values.update(_flat(acceptance.get(area) or {}, area))
    values.update(_flat(document["environment_variables"], "environment_variables"))
    collector = document["collector"]
    values.update({f"collector.{key}": collector.get(key) for key in ("version", "gpu_mode", "timing")})
    recording = document["recording"]
    values["recording.command"] = _without_outputs(recording.get("command"))
    values["recording.step_pattern"] = recording.get("step_pattern")
    emulation = document.get("emulation")
    values.update(_flat(emulation, "emulation") if emulation else {})
    # The spool folder, the collector's path and the emulation are the recorder's own.
    own = "environment_variables.CCTRACE_"
    return {name: item for name, item in values.items() if not name.startswith(own)}


def _without_outputs(command: list[str] | None) -> list[str] | None:
    """A command without the values of the options that say where its results go."""
    if command is None:
        return None
    kept: list[str] = []
    is_value = False
    for word in command:
        if is_value and not word.startswith("-"):
            is_value = False
            continue
        option, equals, _ = word.partition("=")
        is_output = option in OUTPUT_OPTIONS
        kept.append(option if is_output else word)
        is_value = is_output and not equals
    return kept


def _flat(item: Any, name: str) -> dict[str, Any]:
    """Leaves of nested objects and lists by dotted name, without the ignored keys."""
    if isinstance(item, Mapping):
        entries: list[tuple[str, Any]] = [(str(key), entry) for key, entry in item.items()]
    elif isinstance(item, list) and any(isinstance(entry, Mapping) for entry in item):
        entries = [(str(index), entry) for index, entry in enumerate(item)]
    else:
        return {name: item}
    flat: dict[str, Any] = {}
    for key, entry in entries:
        if key not in IGNORED_KEYS:
            flat.update(_flat(entry, f"{name}.{key}"))
    return flat


def _text(item: Any, other: Any) -> str | None:
    """A value as text; of two lists (command lines) only what the other one lacks."""
    if item is None:
        return None
    if isinstance(item, list) and isinstance(other, list):
        return (
            " ".join(str(entry) for entry in item if entry not in other)
            or "(as in the other arm, or in another order)"
        )
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


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
