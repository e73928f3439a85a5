"""What can be charged to a program, and how it is written in `CCTRACE_EMULATE`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

LAUNCH_KEYS: Final = ("kernel_us", "graph_us", "copy_us", "memset_us", "event_us")
TABLE_KEYS: Final = ("h2d_us", "d2h_us", "h2d_pageable_us", "d2h_pageable_us", "host_alloc_us")
OVERLAP_KEY: Final = "overlap"
FACTOR_KEYS: Final = ("collective_factor", "all_to_all_factor", "peer_copy_factor")
LATENCY_KEY: Final = "peer_latency_us"

PINNED_TABLE: Final = {"h2d_pageable_us": "h2d_us", "d2h_pageable_us": "d2h_us"}
"""Table of pageable memory → that of pinned memory, which stands in for it."""


@dataclass(frozen=True)
class Table:
    """Microseconds over size, as in `cctrace.profiles.model.SizeTable`."""

    bytes: tuple[int, ...]
    us: tuple[float, ...]


Charge: TypeAlias = float | Table


def charge_text(charge: Charge) -> str:
    """Returns `12.25`, or `64:4.5/1048576:140` for a table."""
    if isinstance(charge, Table):
        return "/".join(f"{size}:{us:.10g}" for size, us in zip(charge.bytes, charge.us, strict=True))
    return f"{charge:.10g}"
