"""What a comparison of arms needs of one recording: metadata and names, and none of its rows."""

from __future__ import annotations

from dataclasses import dataclass

from cctrace.analyzers.comparability.kernels import kernel_symbols
from cctrace.analyzers.loading import Recording
from cctrace.trace import Metadata


@dataclass(frozen=True)
class Outline:
    """One recording, small enough to keep many of them in memory.

    Attributes:
        path: the trace.
        metadata: its metadata.
        distorted: whether its host times must not be used.
        kernels: symbols of the kernels that it launches often, or records into graphs.
    """

    path: str
    metadata: Metadata
    distorted: bool
    kernels: frozenset[str]


def outline(recording: Recording) -> Outline:
    """The outline of a recording."""
    symbols = frozenset(kernel_symbols(recording))
    return Outline(recording.path, recording.metadata, recording.distorted, symbols)
