#!/usr/bin/env python3
"""How exact the emulator's spins are on this machine: the time that many spins of a few lengths took.

Needs no GPU. Prints one JSON object per length, in nanoseconds: `asked`, then `mean`, `middle_mean` (without
the hundredth part at either end, which is what the operating system did), `p1`, `median`, `p99`, `max`, and
`each`: what one cost with everything around it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
from typing import Final

from cctrace.collectors.library import find_library

LENGTHS_NS: Final = (1_000, 4_600, 12_250, 100_000)
"""A short one, the tolls of a small copy and of a launch that are published for a B200, and a long one."""


def measure(library: ctypes.CDLL, asked_ns: int, count: int) -> dict[str, float]:
    """Returns the fields of one line."""
    taken = (ctypes.c_uint64 * count)()
    together = library.cctrace_measure_spins(ctypes.c_uint64(asked_ns), taken, ctypes.c_size_t(count))
    spins = sorted(taken)
    cut = count // 100
    return {
        "asked": asked_ns,
        "mean": round(statistics.fmean(spins), 1),
        "middle_mean": round(statistics.fmean(spins[cut : count - cut]), 1),
        "p1": spins[cut],
        "median": spins[count // 2],
        "p99": spins[count - 1 - cut],
        "max": spins[-1],
        "each": round(together / count, 1),
    }


def main() -> int:
    """Measures every length."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--spins", type=int, default=10_000, help="of each length (default: %(default)s)")
    spins = parser.parse_args().spins
    if spins < 1:
        parser.error("--spins: at least 1")
    library = ctypes.CDLL(str(find_library()))
    library.cctrace_measure_spins.restype = ctypes.c_uint64
    for asked_ns in LENGTHS_NS:
        print(json.dumps(measure(library, asked_ns, spins)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
