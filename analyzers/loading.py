"""Reads of a trace what the analysis needs, and splits it by process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from cctrace.analyzers.ahead import ahead
from cctrace.analyzers.calls import CALL_FORM_COLUMNS, HOST_KINDS, Calls, calls_of
from cctrace.analyzers.forms import TIMES, Packed, packed
from cctrace.analyzers.gpu import GPU_FORM_COLUMNS, GPU_KINDS, GpuRows, gpu_rows_of
from cctrace.analyzers.marks import MARK_FORM_COLUMNS, Marks, marks_of
from cctrace.analyzers.steps import NoSteps, Steps, find_steps
from cctrace.trace import Metadata, Trace

_HOST_COLUMNS: Final = tuple(dict.fromkeys((*CALL_FORM_COLUMNS, *MARK_FORM_COLUMNS)))


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
        return timing == "distorted" or (
            timing is None and bool((~self.gpu.forms.stamped)[self.gpu.occurs].any())
        )

    @cached_property
    def processes(self) -> tuple[Process, ...]:
        """The processes that made host calls or step marks, by pid."""
        calls, marks, gpu = self.calls, self.marks, self.gpu
        pids = {pid for pid, _, _ in calls.threads} | set(np.unique(marks.pid).tolist())
        return tuple(
            Process(
                pid=pid,
                name=_name(self.metadata, pid),
                image_start_ns=_image_start(self.metadata, pid),
                calls=calls.pick(_rows_of(calls, pid)),
                marks=marks.pick(marks.pid == pid),
                gpu=gpu.of_forms(gpu.forms.pid == pid),
            )
            for pid in sorted(pids)
        )


@dataclass(frozen=True, eq=False)
class Process:
    """One process of a recording."""

    pid: int
    name: str | None
    image_start_ns: int | None
    calls: Calls
    marks: Marks
    gpu: GpuRows

    @cached_property
    def steps(self) -> Steps | NoSteps:
        """The steps that it runs, or why none were found."""
        return find_steps(self.calls, self.marks)


def load(trace: Trace) -> Recording:
    """Reads the rows that summaries and comparisons need."""
    gpu = gpu_rows_of(_packed(trace, GPU_FORM_COLUMNS, GPU_KINDS))
    host = _packed(trace, _HOST_COLUMNS, (*HOST_KINDS, "step"))
    # What Arrow keeps for its next read is needed for the analysis.
    pa.default_memory_pool().release_unused()
    return Recording(
        path=str(trace.path),
        metadata=trace.metadata,
        calls=calls_of(host),
        marks=marks_of(host),
        gpu=gpu,
    )


def _packed(trace: Trace, names: Sequence[str], kinds: Sequence[str]) -> Packed:
    return packed(ahead(trace.batches((*names, *TIMES), kinds=kinds)), names, trace.num_rows)


def _rows_of(calls: Calls, pid: int) -> slice:
    """The threads of a process follow each other."""
    own = [rows for other, _, rows in calls.threads if other == pid]
    return slice(own[0].start, own[-1].stop) if own else slice(0, 0)


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
