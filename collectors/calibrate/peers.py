"""What is measured between GPUs that can reach each other's memory: transfers without their submission.

A transfer's time is the difference of two graphs, one with a transfer and one with several, by the number of
those that it has more. Neither the launch nor the wait is in it, so time on ÷ time off is that of the link.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from cctrace.collectors.calibrate.driver import MAX_COPY_BYTES, SMALL_BYTES
from cctrace.collectors.calibrate.interface import Call, Device, Transfer
from cctrace.collectors.calibrate.probes import LARGE_BYTES
from cctrace.collectors.calibrate.sampling import Clock, Effort, Probe, Quantity, Turn, sizes
from cctrace.collectors.calibrate.timing import Timer

MORE_SMALL: Final = 64
"""Transfers that the longer graph has more: a few microseconds each need many."""
MORE_LARGE: Final = 4
"""The same from `LARGE_BYTES` on."""

TRANSFERS: Final[tuple[tuple[str, Transfer], ...]] = (
    ("peer_copy_us", "write"),
    ("peer_read_us", "read"),
    ("kernel_read_us", "kernel read"),
)
"""Key of the profile ← what transfers."""


class Chains(NamedTuple):
    """Two graphs of one kind of transfer: with one of them, and with `more` more."""

    one: Call
    several: Call
    more: int


def reachable(devices: Sequence[Device]) -> list[Device]:
    """Returns those GPUs that the first one reaches and that reach the first one."""
    first = devices[0]
    return [other for other in devices[1:] if first.reaches(other.index) and other.reaches(first.index)]


def peer_probes(first: Device, others: Sequence[Device], effort: Effort, clock: Clock) -> list[Probe]:
    """Returns what is measured between one GPU and others; the samples of all pairs go together."""
    made = Timer(first, clock)
    found: list[Probe] = []
    for other in others:
        for size in sizes(SMALL_BYTES, MAX_COPY_BYTES, effort.size_step):
            more = MORE_SMALL if size < LARGE_BYTES else MORE_LARGE
            for key, how in TRANSFERS:
                one = first.peer_chain(other, size, 1, how)
                several = first.peer_chain(other, size, 1 + more, how)
                quantities = [Quantity("nvlink", key, size)]
                if size == SMALL_BYTES and how == "write":
                    quantities.append(Quantity("nvlink", "peer_latency_us"))
                found.append(partial(_chains, made, effort, quantities, Chains(one, several, more)))
    return found


def _chains(made: Timer, effort: Effort, quantities: Sequence[Quantity], chains: Chains) -> Turn:
    samples = []
    for _ in range(max(2, effort.singles // 4)):
        longer, shorter = made.alone(chains.several).complete, made.alone(chains.one).complete
        samples.append(max(0.0, longer - shorter) / chains.more)
    return Turn(dict.fromkeys(quantities, samples))
