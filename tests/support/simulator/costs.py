"""What a platform costs, sorted by cause: any part of what CC adds can be switched on alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import inf
from typing import Final


@dataclass(frozen=True)
class Costs:
    """What calls, copies and collectives take, µs unless said; `OFF` and `ON` are the published platform.

    Attributes:
        kernel_us: host time of one kernel launch, µs.
        graph_us: host time of one graph launch.
        memset_us: host time of one memset.
        event_us: host time of an event record or a stream wait.
        start_us: from the end of a submission until the GPU can see it.
        sync_us: host time of a synchronization that has nothing to wait for.
        depth: submissions in flight before the next one waits; 0: no limit.
        copy_us: host time to hand over a copy, whatever it holds.
        crypto_us: host time to encrypt a copy before it can run, or to decrypt it when its call may return.
        crypto_bytes_per_us: bandwidth of that.
        transfer_us: fixed GPU time of a copy.
        transfer_bytes_per_us: bandwidth of that.
        host_alloc_us: host time to allocate page-locked memory.
        copies_block: an asynchronous copy returns only when its stream has done everything up to it.
        return_us: from the end of a copy that blocks to the return of its call.
        collective_us: fixed part of a collective after its last rank has arrived.
        peer_us: its latency, for each peer.
        nvlink_bytes_per_us: its bandwidth, for each peer.
        cpu: factor of all host code.
        gpu: factor of all kernels.
    """

    kernel_us: float = 3.45
    graph_us: float = 6.0
    memset_us: float = 3.0
    event_us: float = 1.0
    start_us: float = 3.0
    sync_us: float = 1.62
    depth: int = 0
    copy_us: float = 3.0
    crypto_us: float = 0.0
    crypto_bytes_per_us: float = inf
    transfer_us: float = 2.0
    transfer_bytes_per_us: float = 50e3
    host_alloc_us: float = 20.0
    copies_block: bool = False
    return_us: float = 1.0
    collective_us: float = 4.0
    peer_us: float = 0.15
    nvlink_bytes_per_us: float = 600e3
    cpu: float = 1.0
    gpu: float = 1.0


FIELDS: Final = {
    "launch": ("kernel_us", "graph_us", "memset_us", "copy_us", "event_us", "start_us", "sync_us", "depth"),
    "pcie": ("crypto_us", "crypto_bytes_per_us", "transfer_us", "transfer_bytes_per_us", "host_alloc_us"),
    "overlap": ("copies_block", "return_us"),
    "nvlink": ("collective_us", "peer_us", "nvlink_bytes_per_us"),
    "host": ("cpu",),
    "gpu": ("gpu",),
}
"""Player of the attribution → the costs that it switches."""
PLAYERS: Final = tuple(FIELDS)

_TOLL_US: Final = 12.25  # published: 15.7 − 3.45 µs to submit one kernel
OFF: Final = Costs()
ON: Final = Costs(
    kernel_us=OFF.kernel_us + _TOLL_US,
    graph_us=OFF.graph_us + _TOLL_US,
    memset_us=OFF.memset_us + _TOLL_US,
    sync_us=1.67,
    copy_us=OFF.copy_us + _TOLL_US,
    crypto_us=4.5,  # published: a fixed 3–6 µs dominates small copies
    crypto_bytes_per_us=1 / (1 / 9.5e3 - 1 / OFF.transfer_bytes_per_us),  # published: 9.4–9.6 GB/s in all
    copies_block=True,
    # Published for 8 GPUs: a step of 124 all-reduces 2.8–3.6 % longer, bandwidth 15–18 % lower.
    peer_us=OFF.peer_us + 0.43,
    nvlink_bytes_per_us=OFF.nvlink_bytes_per_us / 1.18,
)


def mixed(off: Costs, on: Costs, players: Collection[str]) -> Costs:
    """The off arm's costs, with those of some players as in the on arm."""
    fields = [field for player in players for field in FIELDS[player]]
    return replace(off, **{field: getattr(on, field) for field in fields})


def changed(off: Costs, on: Costs) -> tuple[str, ...]:
    """Players whose costs differ."""
    return tuple(player for player in PLAYERS if mixed(off, on, [player]) != off)
