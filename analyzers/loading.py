"""Reads of a trace what the analysis needs, and splits it by process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cctrace.analyzers.calls import CALL_COLUMNS, HOST_KINDS, Calls, calls_from
from cctrace.analyzers.gpu import GPU_COLUMNS, GPU_KINDS, GpuRows, gpu_rows_from
from cctrace.analyzers.marks import MARK_COLUMNS, Marks, marks_from
from cctrace.trace import Metadata, Trace


@dataclass(frozen=True, eq=False)
class Recording:
    """One trace in memory: what the host called, the marks, the GPU rows, the metadata."""

    path: str
    metadata: Metadata
    calls: Calls
    marks: Marks
    gpu: GpuRows

    @property
    def distorted(self) -> bool:
        """Whether the recording's host times must not be used for own costs: CUPTI was active."""
        timing = self.metadata.collector.timing
        return timing == "distorted" or (timing is None and bool((~self.gpu.stamped).any()))


@dataclass(frozen=True, eq=False)
class Process:
    """One process of a recording."""

    pid: int
    name: str | None
    image_start_ns: int | None
    calls: Calls
    marks: Marks
    gpu: GpuRows


def load(trace: Trace) -> Recording:
    """Reads the rows that summaries and comparisons need."""
    return Recording(
        path=str(trace.path),
        metadata=trace.metadata,
        calls=calls_from(trace.table(CALL_COLUMNS, kinds=HOST_KINDS)),
        marks=marks_from(trace.table(MARK_COLUMNS, kinds="step")),
        gpu=gpu_rows_from(trace.table(GPU_COLUMNS, kinds=GPU_KINDS)),
    )


def processes_of(recording: Recording) -> list[Process]:
    """The processes that made host calls or step marks, by pid."""
    calls, marks, gpu = recording.calls, recording.marks, recording.gpu
    pids = np.union1d(np.unique(calls.pid), np.unique(marks.pid))
    return [
        Process(
            pid=int(pid),
            name=_name(recording.metadata, int(pid)),
            image_start_ns=_image_start(recording.metadata, int(pid)),
            calls=calls.pick(slice(*np.searchsorted(calls.pid, (pid, pid + 1)).tolist())),
            marks=marks.pick(marks.pid == pid),
            gpu=gpu.pick(gpu.pid == pid),
        )
        for pid in pids
    ]


def _name(metadata: Metadata, pid: int) -> str | None:
    names = [process.name for process in metadata.collector.processes if process.pid == pid and process.name]
    return names[-1] if names else None


def _image_start(metadata: Metadata, pid: int) -> int | None:
    """Start of the last image that made calls: after exec a pid has several."""
    images = [
        one for one in metadata.collector.processes if one.pid == pid and one.image_start_ns is not None
    ]
    working = [one for one in images if one.records] or images
    return working[-1].image_start_ns if working else None
