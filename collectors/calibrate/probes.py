"""What is measured on one GPU: submissions by kind, copies by size, allocations, and what blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from cctrace.collectors.calibrate.driver import MAX_COPY_BYTES, SMALL_BYTES
from cctrace.collectors.calibrate.interface import Call, Device, Direction, Memory, Submission
from cctrace.collectors.calibrate.sampling import Clock, Effort, Probe, Quantity, Turn, sizes
from cctrace.collectors.calibrate.timing import Both, Timer

BEHIND: Final = "behind"
"""In the place of a cause: time of a small copy's call while the GPU is busy for `BUSY_US`."""

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
    made = Timer(device, clock)
    found: list[Probe] = [partial(_submission, made, effort, *kind) for kind in _kinds(device)]
    found.append(partial(_synchronization, made, effort, device.synchronize()))
    for size in sizes(SMALL_BYTES, MAX_COPY_BYTES, effort.size_step):
        for path, direction, memory in PATHS:
            submission = device.copy(direction, memory, size)
            found.append(partial(_copy, made, effort, path, size, submission))
    found += [partial(_allocation, made, effort, device, size) for size in HOST_ALLOCATIONS]
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


def _submission(made: Timer, effort: Effort, kind: str, submission: Submission, burst: int) -> Turn:
    together = [made.burst(submission, burst) for _ in range(effort.bursts)]
    single = [made.single(submission) for _ in range(effort.singles)]
    alone = [Both(one.taken.call, one.bare.call) for one in single]
    return _turn(
        {Quantity("launch", f"{kind}_us"): together, Quantity("launch", f"{kind}_isolated_us"): alone}
    )


def _turn(found: Mapping[Quantity, Sequence[Both[float]]]) -> Turn:
    return Turn(
        {quantity: [one.taken for one in samples] for quantity, samples in found.items()},
        {quantity: [one.bare for one in samples] for quantity, samples in found.items()},
    )


def _synchronization(made: Timer, effort: Effort, submission: Submission) -> Turn:
    samples = [made.burst(submission, BURST) for _ in range(effort.bursts)]
    return _turn({Quantity("launch", "sync_us"): samples})


def _copy(made: Timer, effort: Effort, path: str, size: int, submission: Submission) -> Turn:
    repeats = effort.singles if size < LARGE_BYTES else max(2, effort.singles // _LARGE_SHARE)
    made.single(submission)  # the first one after other work finds cold caches
    timed = [made.single(submission) for _ in range(repeats)]
    complete = [Both(one.taken.complete, one.bare.complete) for one in timed]
    call = [Both(one.taken.call, one.bare.call) for one in timed]
    return _turn(
        {Quantity("pcie", f"{path}_us", size): complete, Quantity("pcie", f"{path}_call_us", size): call}
    )


def _allocation(made: Timer, effort: Effort, device: Device, size: int) -> Turn:
    allocate, free = device.host_allocation(size)
    samples = []
    for _ in range(max(2, effort.singles // _LARGE_SHARE)):
        one = made.single(allocate)
        free()
        samples.append(Both(one.taken.call, one.bare.call))
    return _turn({Quantity("pcie", "host_alloc_us", size): samples})


def _behind(made: Timer, effort: Effort, device: Device) -> Iterator[Probe]:
    occupy = device.occupy(BUSY_US)
    repeats = max(1, effort.singles // _LARGE_SHARE)
    for path, direction, memory in PATHS:
        call = device.copy(direction, memory, SMALL_BYTES).call

        def turn(path: str = path, call: Call = call) -> Turn:
            return Turn(
                {Quantity(BEHIND, path): [made.alone(call, behind=occupy).call for _ in range(repeats)]}
            )

        yield turn
