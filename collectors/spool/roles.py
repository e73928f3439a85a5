"""Roles of host threads, as far as the records show them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from cctrace.collectors.spool.index import Index
from cctrace.collectors.spool.layout import Operation

_WORK: Final = (Operation.KERNEL, Operation.GRAPH, Operation.COPY, Operation.MEMSET)


def thread_roles(index: Index, step_threads: AbstractSet[int]) -> dict[int, str]:
    """Role by thread id: the thread that marks steps is the scheduler.

    The others get a role only beside a scheduler: a copy-worker copies and launches nothing, a worker
    launches, any other is "other". Without step marks nothing is known, and the analysis may infer.
    """
    if not step_threads:
        return {}
    roles = {}
    for tid in index.threads:
        counts = index.operations.get(tid)
        if tid in step_threads:
            roles[tid] = "scheduler"
        elif counts is None or not any(counts[op] for op in _WORK):
            roles[tid] = "other"
        elif counts[Operation.KERNEL] or counts[Operation.GRAPH] or not counts[Operation.COPY]:
            roles[tid] = "worker"
        else:
            roles[tid] = "copy-worker"
    return roles
