"""Makes the tables of copies, and the launch toll, of the profiles h100-tdx and h100-sev-snp.

    python bench/fit_h100_profile.py [h100-tdx | h100-sev-snp]

prints them as TOML, followed by how far the tables are from the points. bench/data/README.md says whose data
they are. A small copy inside the device carries no data over PCIe: what CC adds to it is the launch toll of a
copy, which the tables do not contain.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import tomlkit
from numpy.typing import NDArray

from cctrace.profiles.model import SizeTable
from cctrace.profiles.tables import interpolate

DATA: Final = Path(__file__).parent / "data" / "h100_bandwidth.csv.gz"
NODES: Final = tuple(4096 * 4**power for power in range(8))
"""4 KB to 64 MB. Below 4 KB the data cannot tell: their steps are 0.033 or 0.1 GB/s, and 0.1 GB/s is all that
a copy of 1 KB reaches; the cost is fixed there anyway."""
NEAREST: Final = 9
"""Points at least that a node rests on: the steps are coarse up to 16 KB, no point stands alone."""
WINDOW: Final = 1.25
"""All points within this factor of a node count, where there are more."""
SMALL: Final = 256 * 1024
"""A copy inside the device of at most so many bytes takes a constant time."""
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
DIGITS: Final = 4

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Platform:
    """Where the data of a profile are, and whose upper ends its ranges get."""

    near: str
    far: str
    far_note: str


PLATFORMS: Final = {
    "h100-tdx": Platform("tdx", "tdx", ""),
    "h100-sev-snp": Platform("sev-snp-node0", "sev-snp-node1", "; high: the CPU node farther from the GPU"),
}


def rounded(numbers: FloatArray) -> tuple[float, ...]:
    """Returns the numbers with as many digits as a profile shows."""
    return tuple(float(f"{number:.{DIGITS}g}") for number in numbers)


def points(platform: str, cc: str, direction: str) -> tuple[FloatArray, FloatArray]:
    """Returns bytes and microseconds of every point."""
    data = pd.read_csv(DATA)
    chosen = data[(data.platform == platform) & (data.cc == cc) & (data.direction == direction)]
    sizes = chosen.bytes.to_numpy(dtype=np.float64)
    return sizes, sizes / chosen.gb_per_s.to_numpy(dtype=np.float64) / 1e3


def at_node(node: int, sizes: FloatArray, times: FloatArray) -> FloatArray:
    """Returns microseconds at a node: lower end, value and upper end of a local power law.

    Slope and height are medians (Theil and Sen): the coarse steps at small sizes do not move them.
    """
    x, y = np.log(sizes / node), np.log(times)
    distance = np.abs(x)
    inside = distance <= max(np.log(WINDOW), np.sort(distance)[NEAREST - 1])
    x, y = x[inside], y[inside]
    first, second = np.triu_indices(len(x), k=1)
    apart = x[first] != x[second]
    slope = np.median((y[second] - y[first])[apart] / (x[second] - x[first])[apart])
    return np.exp(np.quantile(y - slope * x, (LOW, MIDDLE, HIGH)))


def at_nodes(platform: str, cc: str, direction: str) -> FloatArray:
    """Returns microseconds as (lower end, value, upper end) × nodes, none smaller than the one before."""
    sizes, times = points(platform, cc, direction)
    found = np.stack([at_node(node, sizes, times) for node in NODES], axis=1)
    return np.maximum.accumulate(found, axis=1)


def launch(platform: str) -> dict[str, float]:
    """Returns value, range and absolutes of the launch toll of a copy, in microseconds."""
    quantiles = {}
    for cc in ("on", "off"):
        sizes, times = points(platform, cc, "d2d")
        quantiles[cc] = np.quantile(times[sizes <= SMALL], (LOW, MIDDLE, HIGH))
    on, off = (rounded(quantiles[cc]) for cc in ("on", "off"))
    return {
        "value": round(on[1] - off[1], 2),
        "low": round(on[0] - off[2], 2),
        "high": round(on[2] - off[0], 2),
        "off": off[1],
        "on": on[1],
    }


def copies(platform: Platform, direction: str) -> SizeTable:
    """Returns what CC adds to a copy, without the launch toll."""
    tolls = launch(platform.near)
    on, off = (
        np.array([rounded(row) for row in at_nodes(platform.near, cc, direction)]) for cc in ("on", "off")
    )
    far_on, far_off = (at_nodes(platform.far, cc, direction) for cc in ("on", "off"))
    value = np.maximum.accumulate(np.maximum(on[1] - off[1] - tolls["value"], 0.0))
    low = np.maximum(on[0] - off[2] - tolls["high"], 0.0)
    high = np.maximum(far_on[2] - far_off[0], on[2] - off[0]) - tolls["low"]
    return SizeTable(
        bytes=NODES,
        value=rounded(value),
        low=rounded(np.minimum(low, value)),
        high=rounded(np.maximum(high, value)),
        source="S4",
        note="on − off − launch.copy_us; medians of one machine; range: 10 to 90 % of points near a node"
        + platform.far_note,
        off=rounded(off[1]),
        on=rounded(on[1]),
    )


def errors(platform: str, cc: str, direction: str) -> str:
    """Returns how far the interpolated nodes are from the points."""
    sizes, times = points(platform, cc, direction)
    table = at_nodes(platform, cc, direction)[1].tolist()
    distance = np.abs(interpolate(NODES, table, sizes) / times - 1.0)
    most = np.quantile(distance, HIGH)
    return f"{len(sizes)} points, median distance {np.median(distance):.1%}, 90 % of them within {most:.1%}"


def main() -> int:
    """Prints the tables of the profile named on the command line, or of both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("profile", nargs="?", choices=PLATFORMS, help="default: both")
    chosen = parser.parse_args().profile
    for name in [chosen] if chosen else PLATFORMS:
        platform = PLATFORMS[name]
        tables = {f"{direction}_us": copies(platform, direction) for direction in ("h2d", "d2h")}
        document = {
            "launch": {"copy_us": launch(platform.near)},
            "pcie": {key: table.model_dump(mode="json", exclude_none=True) for key, table in tables.items()},
        }
        print(f"# {name}\n{tomlkit.dumps(document)}")
        for direction in ("h2d", "d2h"):
            for cc in ("on", "off"):
                print(f"# {platform.near} {direction} CC {cc}: {errors(platform.near, cc, direction)}")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
