"""The rounds of a recording: its steps come in stretches, between which other programs had their turns."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cctrace.analyzers.columns import IntArray
from cctrace.trace import open_trace
from cctrace.trace.writer import TraceWriter

PAUSE_NS: Final = 200_000_000
"""Between two steps: other programs have their turns. No step of a round takes so long."""
WARM_UP_STEPS: Final = 20
"""The first stretch of as many steps is the warm-up, while the other programs start and have the GPU, too."""


class Round(NamedTuple):
    """One turn of a program.

    Attributes:
        begin_ns: begin of its first step.
        end_ns: end of its last step.
        step_ns: median of its steps of the commonest class.
    """

    begin_ns: int
    end_ns: int
    step_ns: float


def rounds_of(path: Path, most: int = sys.maxsize) -> list[Round]:
    """The last rounds of a recording, at most so many; the warm-up is none.

    Raises:
        ValueError: it has no round.
    """
    table = open_trace(path).table(("kind", "start_ns", "duration_ns", "step_class"), kinds=("step",))
    table = table.sort_by("start_ns")
    begin = table["start_ns"].to_numpy()
    end = begin + table["duration_ns"].to_numpy()
    names = np.array(table["step_class"].cast(pa.string()).to_pylist(), dtype=object)
    stretches = np.split(np.arange(len(begin)), np.flatnonzero(np.diff(begin) > PAUSE_NS) + 1)
    warm_up = next((at for at, steps in enumerate(stretches) if len(steps) >= WARM_UP_STEPS), len(stretches))
    measured = stretches[warm_up + 1 :][-most:]
    if not measured:
        raise ValueError(f"{path}: no round after the warm-up")
    return [_round(begin[steps], end[steps], names[steps]) for steps in measured]


def _round(begin: IntArray, end: IntArray, names: npt.NDArray[np.object_]) -> Round:
    common = Counter(names.tolist()).most_common(1)[0][0]
    return Round(int(begin[0]), int(end[-1]), float(np.median((end - begin)[names == common])))


def write_part(path: Path, part: Path, rounds: Sequence[Round]) -> Path:
    """Writes the rows of a recording that begin within some of its rounds as a recording of their own."""
    trace = open_trace(path)
    table = trace.table()
    start = table["start_ns"].to_numpy()
    inside = np.zeros(len(start), np.bool_)
    for one in rounds:
        inside |= (start >= one.begin_ns) & (start < one.end_ns)
    with TraceWriter(part, force=True) as writer:
        writer.write(table.filter(pa.array(inside)))
        writer.finish(trace.metadata)
    return part
