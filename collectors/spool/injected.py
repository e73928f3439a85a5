"""What the emulator really charged to the recorded processes, from their spools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from cctrace.trace.metadata import Emulation, Metadata

PREFIX: Final = "emulated."
"""States that begin with this are totals: `emulated.CAUSE.count`, `emulated.CAUSE.ns` and the like."""

_KEYS: Final = {"count": "count", "ns": "sum_ns"}
"""Last part of a state -> key in the metadata, where they differ; `queued_ns` is called the same."""

_LAST: Final = 2**63 - 1
"""The largest number that a document holds."""

Totals: TypeAlias = Mapping[str, int]
"""State -> last number of one process."""


def injected(totals: Iterable[Totals], causes: Iterable[str] = ()) -> dict[str, dict[str, int]]:
    """Cause -> {`count`, `sum_ns`, …}, summed over processes; zero for those of `causes` never charged."""
    result: dict[str, dict[str, int]] = {cause: {"count": 0, "sum_ns": 0} for cause in causes}
    for process in totals:
        for state, number in process.items():
            cause, _, what = state.removeprefix(PREFIX).partition(".")
            entry = result.setdefault(cause, {"count": 0, "sum_ns": 0})
            key = _KEYS.get(what, what)
            entry[key] = min(entry.get(key, 0) + number, _LAST)
    return result


def with_injected(metadata: Metadata, totals: Iterable[Totals]) -> Metadata:
    """The document with what was charged, if anything was emulated."""
    emulation = metadata.emulation
    found = injected(totals, () if emulation is None else emulation.causes)
    if emulation is None and not found:
        return metadata
    # What was charged is known even where the recorder's own document is lost.
    return replace(metadata, emulation=replace(emulation or Emulation(), injected=found))
