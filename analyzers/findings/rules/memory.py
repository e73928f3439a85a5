"""Rules about host memory that is pinned while the server runs, or in a way that CC does not allow."""

from __future__ import annotations

from typing import Final

import numpy as np

from cctrace.analyzers.findings.places import evidence, seen_outside
from cctrace.analyzers.findings.result import RISK
from cctrace.analyzers.findings.rule import Remedy, Rule, Seen
from cctrace.analyzers.findings.savings import (
    ALLOCATION_FACTOR,
    bound,
    cannot_tell,
    expected,
    rows_of,
    time_us,
)
from cctrace.analyzers.findings.view import Observation, StepView
from cctrace.analyzers.sentences import plural

MIN_PER_STEP: Final = 0.05
"""Allocations that come less often than in one of twenty steps are chance: a buffer that grows."""
_PINNING: Final = ("host-alloc", "host-free", "host-register", "host-unregister")


def _host_allocations(view: StepView) -> Seen | None:
    rows = rows_of(view, _PINNING, own_thread=False)
    if view.scope.per_step(len(rows)) < MIN_PER_STEP:
        return None
    us = time_us(view, rows[view.scope.on_step_thread[rows]])
    found = [evidence(view, own) for name in _PINNING if len(own := rows_of(view, (name,), own_thread=False))]
    paid = view.seen.pays("pcie")
    if paid:
        saving = bound(view, 0.0, us, "time in these calls on the submitting thread")
    else:
        basis = (
            f"published: small allocations and copies take {ALLOCATION_FACTOR:.0f} times as long with CC on"
        )
        saving = expected(view, 0.0, us * (ALLOCATION_FACTOR - 1), basis)
    return Seen(sorted(found, key=lambda one: -(one.us_per_step or 0.0)), saving, measured=paid)


def _host_registration(seen: Observation) -> Seen | None:
    calls = seen.process.calls if seen.process else seen.recording.calls
    rows = np.flatnonzero(calls.is_operation("host-register"))
    if not len(rows):
        return None
    text = f"existing host memory was page-locked {plural(len(rows), 'time')}"
    thread = seen.thread_name(int(calls.tid[rows[0]]))
    found = seen_outside(text, len(rows), "host-register", thread)
    return Seen([found], cannot_tell("it costs no time: under CC it is refused"), measured=seen.has_cc)


HOST_ALLOCATIONS: Final = Rule(
    name="host-allocations",
    looks_for="host memory that is pinned or freed in the steps",
    title="Pinned host memory is allocated in the steps",
    cause="pcie",
    remedy=Remedy(
        "Allocate these buffers once and use them again; on paths that copy, take pageable memory: under CC "
        "pinned memory gives no asynchrony, and allocating it is dear",
        (
            "TensorRT LLM PR #11573: pageable memory on these paths",
            "published: 44 times slower small allocations",
        ),
    ),
    of_steps=_host_allocations,
)
HOST_REGISTRATION: Final = Rule(
    name="host-registration",
    looks_for="existing host memory that is page-locked, which CC does not allow",
    title="Existing host memory is page-locked",
    cause=None,
    kind=RISK,
    remedy=Remedy(
        "Allocate the memory through the driver (cudaHostAlloc) or leave it pageable: cudaHostRegister is "
        "refused with error 801 under CC",
        (
            "release notes of driver R580 for trusted computing",
            "vLLM issue #55428",
            "NVIDIA nvtrust issue #57",
        ),
    ),
    of_recording=_host_registration,
)
