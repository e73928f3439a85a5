"""Which files hold the same recording: a copy under another name is no other run."""

from __future__ import annotations

import filecmp
from collections.abc import Sequence
from typing import TypeAlias

from cctrace.errors import UnusableInputError
from cctrace.trace import Metadata, Trace

Identity: TypeAlias = tuple[object, ...]


def identity_of(metadata: Metadata) -> Identity | None:
    """What no two recordings share: host, begin and processes; None if a recording lacks its begin."""
    recording = metadata.recording
    if recording.start_ns is None:
        return None
    images = tuple((process.pid, process.image_start_ns) for process in metadata.collector.processes)
    return recording.host, recording.started_at, recording.start_ns, images


def refuse_copies(runs: Sequence[Trace]) -> None:
    """Refuses an arm that holds a recording twice: a copy has no spread, and would make an interval narrow.

    Raises:
        UnusableInputError: two runs are one recording, or the same file where they do not say.
    """
    for number, run in enumerate(runs):
        for earlier in runs[:number]:
            if _same(earlier, run):
                raise UnusableInputError(
                    f"{run.path}: the same recording as {earlier.path}; a run is no repeat of itself"
                )


def _same(first: Trace, second: Trace) -> bool:
    one, other = identity_of(first.metadata), identity_of(second.metadata)
    if one is None and other is None:
        return filecmp.cmp(first.path, second.path, shallow=False)
    return one == other
