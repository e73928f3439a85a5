"""Tables over size: microseconds at any number of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from cctrace.profiles.model import SizeTable


def at(
    table: SizeTable, sizes: ArrayLike, column: Literal["value", "low", "high"] = "value"
) -> NDArray[np.float64]:
    """Returns the microseconds of `column` at each size in bytes; the shape is that of `sizes`."""
    return interpolate(table.bytes, getattr(table, column), sizes)


def interpolate(nodes: Sequence[int], microseconds: Sequence[float], sizes: ArrayLike) -> NDArray[np.float64]:
    """Returns microseconds at each of `sizes`, in bytes.

    Between two nodes the logarithm of the time is linear in the logarithm of the size; where one of the two
    times is zero, and so has no logarithm, the time is linear in the size. Below the first node the time is
    constant (the fixed cost of a copy), above the last one it is proportional to the size (a rate).

    Args:
        nodes: sizes in bytes, ascending, at least one.
        microseconds: the time at each node.
        sizes: bytes, of any shape; a negative size counts as 0.
    """
    x = np.asarray(nodes, dtype=np.float64)
    y = np.asarray(microseconds, dtype=np.float64)
    wanted = np.asarray(sizes, dtype=np.float64)
    inside = np.clip(wanted, x[0], x[-1])
    left = np.clip(np.searchsorted(x, inside, side="right") - 1, 0, len(x) - 1)
    right = np.minimum(left + 1, len(x) - 1)
    x0, x1, y0, y1 = x[left], x[right], y[left], y[right]
    with np.errstate(divide="ignore", invalid="ignore"):
        straight = y0 + (y1 - y0) * (inside - x0) / (x1 - x0)
        curved = y0 * (y1 / y0) ** (np.log(inside / x0) / np.log(x1 / x0))
    between = np.where((y0 > 0.0) & (y1 > 0.0), curved, straight)
    rate = np.maximum(wanted / x[-1], 1.0)
    result: NDArray[np.float64] = np.where(left == right, y[-1] * rate, between)
    return result
