"""What a spool says about itself: state, losses, tax and clocks, for the metadata."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cctrace.collectors.spool.index import Index
from cctrace.collectors.spool.injected import PREFIX
from cctrace.collectors.spool.layout import Kind
from cctrace.collectors.spool.spoolfile import Records, SpoolFile
from cctrace.trace.metadata import Process

MAX_CLOCK_PAIRS: Final = 1024
"""Clock pairs kept per process, spread over the recording: a pair takes 45 bytes of JSON, and one a minute
is plenty to see a clock that was set."""

NAME_KEY: Final = "process.name"
"""State under which the collector notes the name of the process; the last one counts."""

_COUNTS: Final = "stamps.captures"
"""States with this begin count something; their text only says what."""

_GPU_STATE: Final = "gpu.state"
_REFUSED: Final = "refused"
"""What became of CUPTI in a process, and how a state begins that tells it never worked."""

_LAST: Final = 2**63 - 1


def process_facts(spool: SpoolFile, index: Index, rows: int, unmatched: dict[str, int]) -> Process:
    """The metadata of one process image."""
    header = spool.header
    state = {key: value for key, value in _state(index).items() if not key.startswith(PREFIX)}
    lost: dict[str, int] = dict(index.unusable)
    for reason, count in _named(index, Kind.LOSS):
        lost[reason] = min(lost.get(reason, 0) + int(count["object"]), _LAST)
    tax = {what: int(record["object"]) / 1000 for what, record in _named(index, Kind.TAX)}
    name = state.pop(NAME_KEY, None)
    return Process(
        pid=spool.pid,
        parent_pid=_time(header["object"]),
        name=name if isinstance(name, str) else None,
        image_start_ns=_time(header["stream"]),
        first_record_ns=_time(index.first_ns),
        last_record_ns=_time(index.last_ns),
        records=rows,
        torn_bytes=spool.torn_bytes,
        lost=lost,
        unmatched=unmatched,
        tax_ns=tax,
        state=state,
        extra={"spool": spool.path.name},
    )


def injected_totals(index: Index) -> dict[str, int]:
    """State -> number, of the totals of what the emulator charged."""
    return {
        key: min(int(record["object"]), _LAST)
        for key, record in _named(index, Kind.STATE)
        if key.startswith(PREFIX)
    }


def cupti_ran(process: Process, index: Index) -> bool:
    """True if CUPTI worked in a process, for however short a time: it has slowed the host calls.

    A process that was killed early may have lost its state; rows of CUPTI tell as much.
    """
    state = process.state.get(_GPU_STATE)
    return bool(index.gpu) or (state is not None and not str(state).startswith(_REFUSED))


def clock_pairs(spool: SpoolFile, index: Index) -> list[tuple[int, int]]:
    """CLOCK_MONOTONIC and CLOCK_REALTIME, ns: of the header, then of the clock records, thinned."""
    clocks = index.kept[Kind.CLOCK]
    if len(clocks) > MAX_CLOCK_PAIRS:
        clocks = clocks[np.linspace(0, len(clocks) - 1, MAX_CLOCK_PAIRS).astype(np.intp)]
    pairs = [(spool.header["start_ns"], spool.header["end_ns"])]
    pairs += list(zip(clocks["start_ns"].tolist(), clocks["end_ns"].tolist(), strict=True))
    return [(int(a), int(b)) for a, b in pairs if int(a) <= _LAST and int(b) <= _LAST]


def _state(index: Index) -> dict[str, str | int]:
    state: dict[str, str | int] = {}
    for key, record in _named(index, Kind.STATE):
        text, number = index.strings.get(int(record["link"])), int(record["object"])
        if text is None or key.startswith(_COUNTS):
            state[key] = min(number, _LAST)
        elif number and f"(error {number})" not in text:
            state[key] = f"{text} ({number})"
        else:
            state[key] = text
    return state


def _named(index: Index, kind: Kind) -> list[tuple[str, Any]]:
    records: Records = index.kept[kind]
    if kind == Kind.STATE:
        records = _last_of_each(records)
    return [(index.strings.get(int(record["name"]), "without a name"), record) for record in records]


def _last_of_each(records: Records) -> Records:
    """The last record of each name, in file order: a total is written a hundred times a second."""
    _, from_the_end = np.unique(records["name"][::-1], return_index=True)
    return records[np.sort(len(records) - 1 - from_the_end)]


def _time(value: Any) -> int | None:
    return int(value) if value is not None and 0 < int(value) <= _LAST else None
