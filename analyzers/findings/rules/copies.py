"""Rules about copies: those that hold the host up, those that are many, those that are large.

Pinned memory is no remedy here. With CC on, memory that a program asked to be pinned is managed memory: an
asynchronous copy to or from it returns when the copy, and everything before it on its stream, is done.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.findings.places import MAX_PLACES, Place, evidence, memory_of, places_of
from cctrace.analyzers.findings.result import Evidence, Saving
from cctrace.analyzers.findings.rule import CannotTell, Remedy, Rule, Seen
from cctrace.analyzers.findings.savings import (
    COPY_BYTES_PER_US,
    LAUNCH_TOLL_US,
    PLATFORM,
    SMALL_COPY_US,
    bound,
    cannot_tell,
    expected,
    gpu_idle_us,
    of_overlap,
    replayed,
    rows_of,
    time_us,
)
from cctrace.analyzers.findings.view import StepView
from cctrace.analyzers.noise import NOISE_FLOOR
from cctrace.analyzers.sentences import bytes_text, count_text, percent, time_text
from cctrace.trace.schema import MEMORY_KINDS

SMALL_BYTES: Final = 64 << 10
"""Copies up to this size are small: below it a fixed cost dominates on every platform that was measured."""
LARGE_BYTES: Final = 1 << 20
"""Copies from this size on are weights or cache: inputs and tokens of a step are a thousand times smaller,
and 1 MB takes 0.15 ms with CC on."""
MIN_STALL_SHARE: Final = NOISE_FLOOR
"""A stall that takes less of the step is not worth a change: two runs differ by as much."""
BLOCKS: Final = 0.5
"""A copy that keeps the host waiting in at least this part of the steps does so by its nature."""
SOMETIMES: Final = 0.5
"""Copies that come less often than in every other step are no part of a step."""
MANY_COPIES: Final = 4
"""Small copies a step from which on packing them into one is worth it: three copies less save 50 µs with CC
on."""
MIN_PACKED_SHARE: Final = 0.01
"""Packing that saves less of the step is not worth a change."""
HOST_BOUND: Final = 0.05
"""A submitting thread that waits less of the step for the GPU sets the pace itself."""
NO_EVENTS: Final = "the recording does not say which event a wait is for, so not what is awaited when"
_PAGEABLE: Final = MEMORY_KINDS.index("pageable")


# ---- copies that hold the submitting thread up


def _blocked_readback(view: StepView) -> Seen | CannotTell | None:
    rows = _asynchronous(view, "copy d2h")
    blocked = _blocked(view, rows)
    if not blocked and (view.seen.pays("overlap") or not _every_step(view, rows)):
        return None
    later = None if view.order is None else view.order.awaited_later("d2h")
    if later is False:
        return None  # the program waits for the tokens at once: there is no overlap to lose
    if blocked:
        return _seen_blocked(view, blocked, "copy d2h", unsure=later is None)
    if later is None:
        return CannotTell(NO_EVENTS)
    return _seen_latent(view, rows, "copy d2h")


def _pinned_inputs(view: StepView) -> Seen | CannotTell | None:
    rows = _asynchronous(view, "copy h2d")
    blocked = _blocked(view, rows)
    if blocked:
        return _seen_blocked(view, blocked, "copy h2d", unsure=False)
    if not _every_step(view, rows):
        return None
    if view.order is None:
        return CannotTell(NO_EVENTS)
    if view.seen.pays("overlap"):
        return _hidden_inputs(view, rows)
    return _seen_latent(view, rows, "copy h2d") if view.order.behind_work("h2d") else None


def _hidden_inputs(view: StepView, rows: IntArray) -> Seen | None:
    """Inputs that do not block only because the read-back before them has already emptied the stream."""
    computes = np.unique(view.scope.calls.stream[rows_of(view, ("kernel", "graph"))])
    shared = rows[np.isin(view.scope.calls.stream[rows], computes)]
    if not len(shared) or not _blocked(view, _asynchronous(view, "copy d2h")):
        return None
    text = (
        f"{count_text(view.scope.per_step(len(shared)))} pinned copies a step lie on the stream of the "
        "kernels; they do not block only because the read-back before them has emptied it"
    )
    saving = cannot_tell("it shows once the read-back no longer blocks, and is in the largest saving of that")
    return Seen([evidence(view, shared, text)], saving, measured=False)


def _asynchronous(view: StepView, category: str) -> IntArray:
    """Small copies that the program means to be asynchronous, on the submitting thread."""
    rows, calls = rows_of(view, (category,)), view.scope.calls
    small = (
        (calls.bytes[rows] <= SMALL_BYTES) & ~calls.blocking[rows] & (calls.host_memory[rows] != _PAGEABLE)
    )
    asynchronous: IntArray = rows[small]
    return asynchronous


def _every_step(view: StepView, rows: IntArray) -> bool:
    return view.scope.per_step(len(rows)) >= SOMETIMES


def _blocked(view: StepView, rows: IntArray) -> list[Place]:
    """Places whose copies keep the host waiting, in most steps and for long enough to matter."""
    if not _every_step(view, rows):
        return []
    return [
        place
        for place in places_of(view, rows)
        if place.blocked_share >= BLOCKS and place.us_per_step >= MIN_STALL_SHARE * view.step_us
    ]


def _seen_blocked(view: StepView, blocked: list[Place], category: str, *, unsure: bool) -> Seen:
    stall_us = sum(place.us_per_step for place in blocked)
    saving = of_overlap(view, stall_us, category)
    if unsure and saving.low_us:
        saving = bound(
            view, 0.0, saving.high_us or 0.0, f"{saving.basis}; when the copy is awaited is not known"
        )
    return Seen([_place_evidence(view, one, category) for one in blocked[:MAX_PLACES]], saving, measured=True)


def _place_evidence(view: StepView, place: Place, category: str) -> Evidence:
    calls = view.scope.calls.pick(place.rows)
    text = (
        f"{category} of {bytes_text(float(np.median(calls.bytes)))} ({memory_of(view.scope, place.rows)}) "
        f"keeps {view.thread} waiting for {time_text(place.us_per_step)} a step, in "
        f"{percent(place.blocked_share)} of the steps, though it is asynchronous"
    )
    return evidence(view, place.rows, text)


def _seen_latent(view: StepView, rows: IntArray, category: str) -> Seen | CannotTell | None:
    """Copies that do not block, in a recording without CC, but would."""
    if view.slack_us < HOST_BOUND * view.step_us and view.graphs.execution == "eager":
        return CannotTell(
            "the host sets the pace of these steps, and nothing says how far the GPU is behind at the copy"
        )
    saving = of_overlap(view, 0.0, category)
    if saving.high_us is not None and saving.high_us < MIN_STALL_SHARE * view.step_us:
        return None
    copies = (
        f"{count_text(view.scope.per_step(len(rows)))} × {category} ({memory_of(view.scope, rows)}) a step"
    )
    when = (
        "is awaited only after the next launch"
        if category == "copy d2h"
        else "goes to the stream of the kernels while they run"
    )
    text = f"{copies} {when}: with CC on {view.thread} would stand still in it until the GPU is done"
    return Seen([evidence(view, rows, text)], saving, measured=False)


# ---- copies that are synchronous, many, or large


def _synchronous_copies(view: StepView) -> Seen | None:
    rows = rows_of(view, ("copy h2d", "copy d2h"))
    calls = view.scope.calls
    pageable = (calls.host_memory[rows] == _PAGEABLE) & view.scope.waited[rows]
    rows = rows[calls.blocking[rows] | pageable]
    us = time_us(view, rows)
    if not _every_step(view, rows) or us < MIN_STALL_SHARE * view.step_us:
        return None
    found = [evidence(view, place.rows) for place in places_of(view, rows)[:MAX_PLACES]]
    basis = "largest: the time in these copies, or the GPU's idle time; they wait without CC, too"
    return Seen(found, bound(view, 0.0, min(us, gpu_idle_us(view)), basis), measured=True)


def _small_copies(view: StepView) -> Seen | None:
    rows = rows_of(view, ("copy h2d",))
    rows = rows[view.scope.calls.bytes[rows] <= SMALL_BYTES]
    count = view.scope.per_step(len(rows))
    if count < MANY_COPIES:
        return None
    paid = view.seen.pays("launch") or view.seen.pays("pcie")
    saving = _of_packing(view, rows, paid=paid)
    if saving.high_us is not None and saving.high_us < MIN_PACKED_SHARE * view.step_us:
        return None
    return Seen([evidence(view, rows)], saving, measured=paid)


def _of_packing(view: StepView, rows: IntArray, *, paid: bool) -> Saving:
    """What it saves to make one copy of several."""
    gone = view.scope.per_step(len(rows)) - 1
    if view.account is not None:
        toll = next((one.toll_us for one in view.account.tolls if one.category == "copy h2d"), None)
        if toll is None:
            return cannot_tell("no toll is known: too few of these copies did not wait in both arms")
        return bound(view, 0.0, gone * toll, "raw toll of the copies that go away, against the off arm")
    if paid:
        spent = time_us(view, rows[~view.scope.waited[rows]])
        return bound(view, 0.0, gone / (gone + 1) * spent, "time in the copies that go away")
    each = LAUNCH_TOLL_US + SMALL_COPY_US
    basis = f"{each:.1f} µs for each that goes away, published for {PLATFORM}"
    return expected(view, 0.0, gone * each, basis)


def _large_copies(view: StepView) -> Seen | None:
    rows = rows_of(view, ("copy h2d", "copy d2h"), own_thread=False)
    calls = view.scope.calls
    rows = rows[calls.bytes[rows] >= LARGE_BYTES]
    size = view.scope.per_step(float(calls.bytes[rows].sum()))
    if not _every_step(view, rows) or size < LARGE_BYTES:
        return None
    number = count_text(view.scope.per_step(len(rows)))
    text = (
        f"{bytes_text(size)} a step move between host and GPU in copies of 1 MiB or more ({number} a step), "
        f"{time_text(time_us(view, rows))} in the calls"
    )
    shares = view.breakdown.shares if view.breakdown else None
    own = rows[view.scope.on_step_thread[rows]]
    if shares is not None:
        saving = replayed(view, shares.pcie.saved_if_removed_us, "the pair replayed without PCIe crypto")
    elif view.seen.pays("pcie"):
        saving = bound(view, 0.0, time_us(view, own), "time in these calls on the submitting thread")
    else:
        crypto = size / COPY_BYTES_PER_US
        saving = expected(view, 0.0, crypto, f"encryption at 9.5 GB/s, published for {PLATFORM}")
    found = [
        evidence(view, rows, text),
        *(evidence(view, one.rows) for one in places_of(view, rows)[:MAX_PLACES]),
    ]
    return Seen(found, saving, measured=view.seen.pays("pcie"))


BLOCKED_READBACK: Final = Rule(
    name="blocked-readback",
    looks_for="small copies to the host that hold the submitting thread up, or would with CC on",
    title="The token read-back blocks the scheduler",
    cause="overlap",
    remedy=Remedy(
        "Let a thread of its own copy the tokens back, on its own stream, and wait for its hand-over. "
        "Another kind of host memory does not make the copy asynchronous under CC",
        ("SGLang: asynchronous D2H worker", "TensorRT LLM PR #8463 and #11573"),
    ),
    of_steps=_blocked_readback,
)
PINNED_INPUTS: Final = Rule(
    name="pinned-inputs",
    looks_for="copies of inputs from pinned memory that hold the submitting thread up, or would with CC on",
    title="Input copies from pinned memory block",
    cause="overlap",
    remedy=Remedy(
        "Copy inputs from pageable memory, or copy them to a staging buffer on a stream that is idle and "
        "from there on the device: under CC a copy from pinned memory returns only when its stream is empty",
        ("TensorRT LLM PR #11573: pageable memory on these paths", "vLLM PR #52226: staged copies"),
    ),
    of_steps=_pinned_inputs,
)
SYNCHRONOUS_COPIES: Final = Rule(
    name="synchronous-copies",
    looks_for="copies that wait by their contract, or because their memory is pageable",
    title="Synchronous copies in every step",
    cause=None,
    remedy=Remedy(
        "Move the copies to a thread of their own, make them once for several values, or keep the values on "
        "the GPU. Pinning the memory helps without CC only",
        ("SGLang: asynchronous D2H worker",),
    ),
    of_steps=_synchronous_copies,
)
SMALL_COPIES: Final = Rule(
    name="small-copies",
    looks_for="many small copies to the GPU in a step",
    title="Many small copies to the GPU a step",
    cause="launch",
    remedy=Remedy(
        "Pack the inputs of a step into one buffer and copy it once: a small copy costs a submission and a "
        "fixed part of encryption, whatever its size",
        ("published copies: up to 64 KB a fixed cost of 3–6 µs dominates",),
    ),
    of_steps=_small_copies,
)
LARGE_COPIES: Final = Rule(
    name="large-copies",
    looks_for="weights, experts or KV cache that cross PCIe in the steps",
    title="Large copies between host and GPU in the steps",
    cause="pcie",
    remedy=Remedy(
        "Keep weights, experts and KV cache on the GPU: every byte that crosses PCIe is encrypted on one CPU "
        "thread. A smaller precision, or more GPUs, can make the room",
        ("published copies: 9.4–9.6 GB/s with CC on; KV restore 131 % longer",),
    ),
    of_steps=_large_copies,
)
