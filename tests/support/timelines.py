"""Timelines of a few calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cctrace.analyzers.attribution.timeline import NONE, Timeline
from cctrace.analyzers.categories import CATEGORY
from cctrace.trace.schema import MEMORY_KINDS


@dataclass(frozen=True)
class Call:
    """One operation; times in µs. `refers` is the position of the record that it refers to."""

    what: str | int
    start: float
    end: float
    thread: int = 0
    step: int = 0
    stream: int = NONE
    size: int = NONE
    memory: str = ""
    contract: bool = False
    refers: int = NONE
    gap: float = 0.0


def timeline(calls: Sequence[Call]) -> Timeline:
    """The calls as a timeline; they come in order of (thread, time)."""
    count = len(calls)
    return Timeline(
        thread=np.array([call.thread for call in calls], np.int64),
        step=np.array([call.step for call in calls], np.int64),
        category=np.array(
            [CATEGORY[call.what] if isinstance(call.what, str) else call.what for call in calls], np.int64
        ),
        start=np.array([call.start for call in calls], np.float64),
        end=np.array([call.end for call in calls], np.float64),
        gap=np.array([call.gap for call in calls], np.float64),
        stream=np.array([call.stream for call in calls], np.int64),
        bytes=np.array([call.size for call in calls], np.int64),
        host_memory=np.array(
            [MEMORY_KINDS.index(call.memory) if call.memory else NONE for call in calls], np.int64
        ),
        contract=np.array([call.contract for call in calls], np.bool_),
        correlation=np.full(count, NONE, np.int64),
        symbol=np.full(count, NONE, np.int64),
        graph=np.full(count, NONE, np.int64),
        record=np.array([call.refers for call in calls], np.int64),
        partner=np.full(count, NONE, np.int64),
        symbols=(),
        threads={number: 100 + number for number in sorted({call.thread for call in calls})},
    )
