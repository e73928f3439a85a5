"""Copies within the steps: direction, size, host memory, cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cctrace.analyzers.calls import Calls
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.quantile import MEDIAN, quantile
from cctrace.analyzers.results import Result, microseconds, value
from cctrace.analyzers.scope import Scope
from cctrace.trace.schema import COPY_KINDS, MEMORY_KINDS


@dataclass(frozen=True)
class CopyBucket(Result):
    """Copies of one direction, size and host memory."""

    direction: str = value("h2d, d2h, d2d, h2h, p2p, other; unknown if not recorded")
    host_memory: str = value(
        "memory on the host's side: pinned, pageable, managed, unknown; empty if it has none"
    )
    from_bytes: int = value("smallest size of the bucket: a power of two, or 0", "bytes")
    below_bytes: int = value("sizes of the bucket are smaller than this", "bytes")
    per_step: float = value("copies per step", "copies")
    bytes_per_step: float = value("bytes per step", "bytes")
    median_us: float = value("median time in the call, waiting included", "µs")
    waited: int = value("copies that kept the host waiting, over all steps", "copies")


def copies_of(scope: Scope) -> tuple[CopyBucket, ...]:
    """The copies of a scope in power-of-two buckets, by direction, then size."""
    rows = np.flatnonzero(scope.calls.is_copy)
    calls, waited = scope.calls.pick(rows), scope.waited[rows]
    forms, occurs = calls.forms, np.flatnonzero(calls.occurs)
    keys = np.stack([forms.copy_kind, size_bucket(forms.bytes), forms.host_memory], axis=1)[occurs]
    values, bucket = np.unique(keys.astype(np.int64), axis=0, return_inverse=True)
    bucket_of_form = np.zeros(len(forms), np.int32)
    bucket_of_form[occurs] = bucket.reshape(-1)
    bucket_of = calls.each(bucket_of_form)
    return tuple(
        _bucket(scope, calls.pick(bucket_of == number), row, int(waited[bucket_of == number].sum()))
        for number, row in enumerate(values)
    )


def size_bucket(size_bytes: IntArray) -> IntArray:
    """Bucket of a size: 0 for no bytes, k for sizes from 2^(k−1) to below 2^k."""
    exponent = np.frexp(np.maximum(size_bytes, 0).astype(np.float64))[1]
    return exponent.astype(np.int64)


def _bucket(scope: Scope, calls: Calls, key: IntArray, waited: int) -> CopyBucket:
    direction, exponent, memory = (int(part) for part in key)
    return CopyBucket(
        direction=COPY_KINDS[direction] if direction >= 0 else "unknown",
        host_memory=MEMORY_KINDS[memory] if memory >= 0 else "",
        from_bytes=1 << (exponent - 1) if exponent else 0,
        below_bytes=1 << exponent,
        per_step=scope.per_step(len(calls)),
        bytes_per_step=scope.per_step(float(np.maximum(calls.bytes, 0).sum())),
        median_us=microseconds(quantile(calls.duration_ns, MEDIAN)),
        waited=waited,
    )
