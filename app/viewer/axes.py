"""Logarithmic axes with ticks in units for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from cctrace.analyzers.sentences import bytes_text

_ROOM: Final = 1.6
"""Free space around what is drawn, as a factor."""
_MAX_TICKS: Final = 6


def size_axis(low: float, high: float) -> dict[str, Any]:
    """A logarithmic axis of sizes, with ticks at powers of two."""
    return _axis(low, high, _size_ticks, _short_size)


def log_axis(low: float, high: float, *, timed: bool) -> dict[str, Any]:
    """A logarithmic axis with decimal ticks: of times in µs, or of plain numbers."""
    return _axis(low, high, _decimal_ticks, _short_time if timed else "{:g}".format)


def _axis(
    low: float, high: float, ticks: Callable[[float, float], list[float]], text: Callable[[float], str]
) -> dict[str, Any]:
    low, high = low / _ROOM, high * _ROOM
    values = ticks(low, high)
    return {
        "type": "log",
        "range": [float(np.log10(low)), float(np.log10(high))],
        "tickvals": values,
        "ticktext": [text(value) for value in values],
        "tickangle": 0,
    }


def _size_ticks(low: float, high: float) -> list[float]:
    """Powers of two, a few."""
    first, last = int(np.ceil(np.log2(low))), int(np.floor(np.log2(high)))
    step = next(one for one in (1, 2, 4, 6, 8, 10, 64) if (last - first) / one <= _MAX_TICKS)
    return [float(2**power) for power in range(first, last + 1) if power % step == 0] or [float(2**first)]


def _decimal_ticks(low: float, high: float) -> list[float]:
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    parts = (1,) if last - first > 3 else (1, 3) if last - first > 1 else (1, 2, 5)
    values = [part * 10.0**power for power in range(first, last + 1) for part in parts]
    return [value for value in values if low <= value <= high]


def _short_size(size: float) -> str:
    return bytes_text(size).replace(".0 ", " ")


def _short_time(us: float) -> str:
    """As few digits as a tick needs: `30 µs`, `1 ms`."""
    for factor, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")):
        if us >= factor:
            return f"{us / factor:g} {unit}"
    return f"{us * 1e3:g} ns"
