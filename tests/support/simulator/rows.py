"""What happened in a simulation, before a recorder has looked at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

SCHEDULER, WORKER, COPY_WORKER = range(3)
ROLES: Final = ("scheduler", "worker", "copy-worker")
GPU: Final = -1
"""Stands for a thread where a row is the GPU's."""
COMPUTE, COPIES, INPUTS = 1, 2, 3
"""Streams."""


@dataclass(frozen=True)
class Form:
    """What rows of one sort have in common; columns of the trace."""

    kind: str
    name: str | None = None
    operation: str | None = None
    source: str = "interposer"
    kernel: str | None = None
    copy_kind: str | None = None
    src_memory: str | None = None
    dst_memory: str | None = None
    blocking: bool | None = None
    step_class: str | None = None

    @property
    def is_call(self) -> bool:
        """Whether the rows are driver calls."""
        return self.source == "interposer"


class Row(NamedTuple):
    """One event; µs; −1 where a column is null."""

    form: Form
    begin: float
    end: float
    rank: int
    thread: int
    stream: int = -1
    correlation: int = -1
    graph: int = -1
    node: int = -1
    size: int = -1
    ref: int = -1
    step: int = -1


GRAPH_LAUNCH: Final = Form("submit", "cuGraphLaunch", "graph")
MEMSET: Final = Form("submit", "cuMemsetD8Async", "memset", blocking=False)
GPU_MEMSET: Final = Form("memset", source="cupti")
EVENT_RECORD: Final = Form("submit", "cuEventRecord", "event-record")
STREAM_WAIT: Final = Form("submit", "cuStreamWaitEvent", "stream-wait")
EVENT_SYNC: Final = Form("wait", "cuEventSynchronize", "event-sync", blocking=True)
HOST_ALLOC: Final = Form("alloc", "cuMemHostAlloc", "host-alloc")

HAND_OVER: Final = Form("range", "hand-over", source="hook")
"""An instant: a thread hands job `ref` to another one, or back."""
JOB_WAIT: Final = Form("range", "job-wait", source="hook")
"""A thread waits for job `ref` until another thread hands it over, or back."""

_COPY: Final = {
    "h2d": ("cuMemcpyHtoDAsync_v2", "pinned", "device"),
    "d2h": ("cuMemcpyDtoHAsync_v2", "device", "pinned"),
}


def kernel_launch(symbol: str) -> Form:
    """Rows of the launches of one kernel."""
    return Form("submit", "cuLaunchKernel", "kernel", kernel=symbol)


def gpu_kernel(symbol: str) -> Form:
    """Rows of its runs."""
    return Form("kernel", symbol, source="cupti")


def copy_call(direction: str) -> Form:
    """Rows of the calls that copy in one direction."""
    name, source, destination = _COPY[direction]
    return Form("submit", name, "copy", "interposer", None, direction, source, destination, blocking=False)


def gpu_copy(direction: str) -> Form:
    """Rows of the copies themselves."""
    _, source, destination = _COPY[direction]
    return Form("copy", None, None, "cupti", None, direction, source, destination)


def step_mark(label: str) -> Form:
    """Rows of the steps of one class."""
    return Form("step", label, source="hook", step_class=label)
