"""What is measured on one GPU: submissions by kind, copies by size, allocations, and what blocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from cctrace.collectors.calibrate.driver import MAX_COPY_BYTES, SMALL_BYTES
from cctrace.collectors.calibrate.interface import Call, Device, Direction, Memory, Submission
from cctrace.collectors.calibrate.sampling import Clock, Effort, Probe, Quantity, Samples, sizes
from cctrace.collectors.calibrate.timing import Timer, timer

BARE: Final = "bare"
"""In the place of a cause: what a call that the driver turns down costs, by shape of the submission."""
QUESTION: Final = "question"
"""The same question `answered` and `refused`: the difference is what turning down costs by itself."""
BEHIND: Final = "behind"
"""Time of a small copy's call while the GPU is busy for `BUSY_US`."""

BURST: Final = 32
"""Submissions back to back. The driver queues about 1000 before a launch must wait for the GPU."""
GRAPH_BURSTS: Final = {1: 32, 64: 8, 512: 4}
"""Nodes of a graph → replays back to back: one of 512 nodes runs for half a millisecond."""

BUSY_US: Final = 1000.0
"""Far more than a small copy takes, encrypted or not (H20 with CC: 28 µs for the call)."""
BLOCKED_SHARE: Final = 0.5
"""A call that takes so much of `BUSY_US` has waited for the GPU."""

HOST_ALLOCATIONS: Final = (64, 4 << 10, 64 << 10, 1 << 20)
LARGE_BYTES: Final = 4 << 20
"""From here on a copy takes so long that few repeats show its spread."""
_LARGE_SHARE: Final = 4

PATHS: Final[tuple[tuple[str, Direction, Memory], ...]] = (
    ("h2d", "h2d", "pinned"),
    ("d2h", "d2h", "pinned"),
    ("h2d_pageable", "h2d", "pageable"),
    ("d2h_pageable", "d2h", "pageable"),
    ("d2d", "d2d", "pinned"),
)
"""Name of a path in the keys of a profile, direction, memory of the host."""


def probes(device: Device, effort: Effort, clock: Clock) -> list[Probe]:
    """Returns everything that is measured on one GPU."""
    made = timer(device, clock)
    kinds = _kinds(device)
    found = [Probe(partial(_submission, made, effort, *kind), kind[1].shape) for kind in kinds]
    found.append(_synchronization(made, device.synchronize(), effort))
    shapes = {submission.shape: submission for _, submission, _ in kinds}
    shapes["synchronize"] = device.synchronize()
    for size in sizes(SMALL_BYTES, MAX_COPY_BYTES, effort.size_step):
        for path, direction, memory in PATHS:
            submission = device.copy(direction, memory, size)
            turn = partial(_copy, made, effort, path, size, submission.call)
            found.append(Probe(turn, submission.shape))
    found += [Probe(partial(_bare, made, effort, submission)) for submission in shapes.values()]
    found.append(Probe(partial(_question, made, effort, *device.question())))
    found += [Probe(partial(_allocation, made, effort, device, size)) for size in HOST_ALLOCATIONS]
    found += list(_behind(made, effort, device))
    return found


def _kinds(device: Device) -> list[tuple[str, Submission, int]]:
    graphs = [
        ("graph" if nodes == 1 else f"graph_{nodes}", device.graph(nodes), burst)
        for nodes, burst in GRAPH_BURSTS.items()
    ]
    # A copy inside the device carries nothing over PCIe: what it costs the host is its submission.
    small_copy = device.copy("d2d", "pinned", SMALL_BYTES)
    return [
        ("kernel", device.kernel(), BURST),
        *graphs,
        ("copy", small_copy, BURST),
        ("memset", device.memset(), BURST),
        ("event", device.event(), BURST),
    ]


def _submission(made: Timer, effort: Effort, kind: str, submission: Submission, burst: int) -> Samples:
    call = submission.call
    together = [made.burst(call, burst) for _ in range(effort.bursts)]
    alone = [made.single(call).call for _ in range(effort.singles)]
    return {Quantity("launch", f"{kind}_us"): together, Quantity("launch", f"{kind}_isolated_us"): alone}


def _synchronization(made: Timer, submission: Submission, effort: Effort) -> Probe:
    def turn() -> Samples:
        samples = [made.burst(submission.call, BURST) for _ in range(effort.bursts)]
        return {Quantity("launch", "sync_us"): samples}

    return Probe(turn, submission.shape)


def _copy(made: Timer, effort: Effort, path: str, size: int, call: Call) -> Samples:
    repeats = effort.singles if size < LARGE_BYTES else max(2, effort.singles // _LARGE_SHARE)
    made.single(call)  # the first one after other work finds cold caches
    timed = [made.single(call) for _ in range(repeats)]
    return {
        Quantity("pcie", f"{path}_us", size): [one.complete for one in timed],
        Quantity("pcie", f"{path}_call_us", size): [one.call for one in timed],
    }


def _bare(made: Timer, effort: Effort, submission: Submission) -> Samples:
    if not made.turned_down(submission.bare):
        return {}
    samples = [made.bare(submission.bare, BURST) for _ in range(effort.bursts)]
    return {Quantity(BARE, submission.shape): samples}


def _question(made: Timer, effort: Effort, answered: Call, refused: Call) -> Samples:
    return {
        Quantity(QUESTION, "answered"): [made.bare(answered, BURST) for _ in range(effort.bursts)],
        Quantity(QUESTION, "refused"): [made.bare(refused, BURST) for _ in range(effort.bursts)],
    }


def _allocation(made: Timer, effort: Effort, device: Device, size: int) -> Samples:
    allocate, free = device.host_allocation(size)
    samples = []
    for _ in range(max(2, effort.singles // _LARGE_SHARE)):
        taken, result = made.lasting(allocate)
        free(result)
        samples.append(taken)
    return {Quantity("pcie", "host_alloc_us", size): samples}


def _behind(made: Timer, effort: Effort, device: Device) -> Iterator[Probe]:
    occupy = device.occupy(BUSY_US)
    repeats = max(1, effort.singles // _LARGE_SHARE)
    for path, direction, memory in PATHS:
        call = device.copy(direction, memory, SMALL_BYTES).call

        def turn(path: str = path, call: Call = call) -> Samples:
            taken = [made.single(call, behind=occupy).call for _ in range(repeats)]
            return {Quantity(BEHIND, path): taken}

        yield Probe(turn)
