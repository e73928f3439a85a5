"""A pyramid over the rows of a track: blocks of rows, blocks of blocks, and what each of them holds.

A viewport looks at the top first, and goes down only where a block is not fine enough for its pixels: it
looks at some thousand blocks, however many rows lie below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cctrace.analyzers.columns import BoolArray, IntArray

BLOCK_ROWS: Final = 32
"""Rows of a block of the lowest level. Half as many would double what the pyramid takes, about a tenth of
the rows' own memory; more would have a viewport look at more rows."""
FACTOR: Final = 8
"""Blocks that are one block of the next level."""
TOP_BLOCKS: Final = 64
"""A level of no more blocks than this needs none above it."""


@dataclass(frozen=True, eq=False)
class Level:
    """Blocks of rows in the order of their starts; an array element for each. All ns.

    Attributes:
        first: start of the first row.
        until: no row starts later: start of the first row of the next block.
        latest_end: latest end of a row; rows without a duration count as 1 ns long.
        longest: longest duration.
        busy: sum of durations, by tone of the track (columns).
    """

    first: IntArray
    until: IntArray
    latest_end: IntArray
    longest: IntArray
    busy: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.first)

    @property
    def nbytes(self) -> int:
        """Memory that it takes, bytes."""
        return sum(
            array.nbytes for array in (self.first, self.until, self.latest_end, self.longest, self.busy)
        )


def empty_level(rows: int, tones: int) -> Level:
    """The lowest level of so many rows, to be filled."""
    blocks = -(-rows // BLOCK_ROWS)
    first, until, latest_end, longest = (np.zeros(blocks, np.int64) for _ in range(4))
    return Level(first, until, latest_end, longest, np.zeros((blocks, tones), np.float32))


def levels_above(lowest: Level) -> tuple[Level, ...]:
    """The whole pyramid, lowest level first."""
    levels = [lowest]
    while len(levels[-1]) > TOP_BLOCKS:
        levels.append(_above(levels[-1]))
    return tuple(levels)


def _above(below: Level) -> Level:
    begins = np.arange(0, len(below), FACTOR)
    lasts = np.minimum(begins + FACTOR, len(below)) - 1
    return Level(
        first=below.first[begins],
        until=below.until[lasts],
        latest_end=np.maximum.reduceat(below.latest_end, begins),
        longest=np.maximum.reduceat(below.longest, begins),
        busy=np.add.reduceat(below.busy, begins, axis=0, dtype=np.float32),
    )


def children(blocks: IntArray, size: int, count: int) -> IntArray:
    """The parts of blocks, in order: `size` each, numbered from 0 to `count` − 1."""
    parts: IntArray = (blocks[:, None] * size + np.arange(size)).reshape(-1)
    return parts[parts < count] if len(parts) and parts[-1] >= count else parts


def covered(start: IntArray, end: IntArray, latest: int) -> tuple[BoolArray, int]:
    """Which rows begin while an earlier one lasts.

    Args:
        start: begins, sorted.
        end: ends; none equal to its begin.
        latest: latest end of the rows before these.

    Returns:
        (mask, latest end of all). Of rows that begin together, the longest counts as the earliest.
    """
    order = None
    if ((start[1:] == start[:-1]) & (end[1:] > end[:-1])).any():
        order = np.lexsort((-end, start))
        start, end = start[order], end[order]
    running = np.maximum(np.maximum.accumulate(end), latest)
    before = np.concatenate(([latest], running[:-1]))
    mask: BoolArray = start < before
    if order is not None:
        in_order = np.empty_like(mask)
        in_order[order] = mask
        mask = in_order
    return mask, int(running[-1])


def chunks(rows: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` rows that cover all."""
    for begin in range(0, rows, size):
        yield slice(begin, min(begin + size, rows))
