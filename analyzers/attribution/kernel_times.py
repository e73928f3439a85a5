"""GPU times of single kernels from a recording of its own, made with CUPTI.

Its host times are distorted, its GPU times are not: GPU-local work also runs at the same speed with
confidential computing (0.998 times, published for matrix products). So one such recording of the off arm
tells both arms what their kernels and graphs take, and which of them exchange data between GPUs. Where the
host of an arm waited for the GPU, that wait still decides how long the work took in all; these times then
only say how it is shared out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cctrace.analyzers.arms import arm_of
from cctrace.analyzers.attribution.collectives import is_collective
from cctrace.analyzers.attribution.rows import DeviceRows, device_rows, host_rows
from cctrace.analyzers.attribution.timeline import NONE, Timeline
from cctrace.analyzers.categories import CATEGORY
from cctrace.analyzers.columns import FloatArray, IntArray
from cctrace.analyzers.loading import Recording
from cctrace.errors import UnusableInputError
from cctrace.trace import open_trace

ANY_PHASE: Final = ""
"""Stands for all phases."""


@dataclass(frozen=True)
class KernelTimes:
    """What kernels and graphs take, µs.

    Attributes:
        kernels: (phase, symbol) → mean; the phase ANY_PHASE holds the mean over all steps.
        graphs: number of an executable graph → mean time from its first to its last node.
        exchanging: numbers of the graphs that hold collectives.
    """

    kernels: Mapping[tuple[str, str], float]
    graphs: Mapping[int, float]
    exchanging: frozenset[int]

    def of(self, timeline: Timeline, owner: IntArray, phase: str) -> FloatArray:
        """Time of the work that each of these operations submits, NaN where it is not known."""
        found = np.full(len(owner), np.nan)
        symbols = [
            self.kernels.get((phase, word), self.kernels.get((ANY_PHASE, word), np.nan))
            for word in timeline.symbols
        ]
        kernels = timeline.category[owner] == CATEGORY["kernel"]
        found[kernels] = np.array([*symbols, np.nan])[timeline.symbol[owner[kernels]]]
        for number, us in self.graphs.items():
            found[timeline.graph[owner] == number] = us
        return found

    def exchanges(self, timeline: Timeline, owner: IntArray) -> npt.NDArray[np.bool_]:
        """Which of these operations are collectives, or graphs that hold some."""
        words = np.array([is_collective(word) for word in timeline.symbols] + [False])
        kernels = timeline.category[owner] == CATEGORY["kernel"]
        mask: npt.NDArray[np.bool_] = (kernels & words[timeline.symbol[owner]]) | np.isin(
            timeline.graph[owner], list(self.exchanging)
        )
        return mask


def kernel_times_of(recording: Recording) -> KernelTimes:
    """The times that a recording with a row for each kernel tells.

    Raises:
        UnusableInputError: it has no such rows, or no steps.
    """
    arm = arm_of(recording)
    trace, pid = open_trace(recording.path), arm.process.pid
    steps = arm.steps
    windows = [(int(steps.start_ns[0]), int(steps.end_ns[-1]) + 1)]
    rows = device_rows(trace, pid, windows)
    kernels = rows.kind == 0
    if not kernels.any():
        raise UnusableInputError(
            f"{recording.path}: holds no kernel times; record it with --gpu nodes, confidential computing off"
        )
    host = host_rows(trace, pid, windows)
    graph_of = dict(zip(host.correlation.tolist(), host.calls.graph_id.tolist(), strict=True))
    graph = np.array([graph_of.get(one, NONE) for one in rows.correlation.tolist()], np.int64)
    step = np.searchsorted(steps.start_ns, rows.start_ns, side="right") - 1
    phases = [steps.classes[number].phase for number in steps.class_of.tolist()]
    return KernelTimes(
        kernels=_kernel_means(rows, np.flatnonzero(kernels & (graph == NONE)), step, phases),
        graphs=_graph_means(rows, graph),
        exchanging=frozenset(
            int(number)
            for number in np.unique(graph[graph >= 0]).tolist()
            if any(
                is_collective(rows.names[code]) for code in np.unique(rows.name[graph == number]) if code >= 0
            )
        ),
    )


def _kernel_means(
    rows: DeviceRows, chosen: IntArray, step: IntArray, phases: list[str]
) -> dict[tuple[str, str], float]:
    """Mean time of kernels outside of graphs by phase and symbol, and by symbol alone."""
    length = (rows.end_ns - rows.start_ns) / 1e3
    sums: dict[tuple[str, str], list[float]] = {}
    for row in chosen.tolist():
        if rows.name[row] >= 0:
            word = rows.names[rows.name[row]]
            for phase in (phases[step[row]], ANY_PHASE):
                sums.setdefault((phase, word), []).append(float(length[row]))
    return {key: float(np.mean(values)) for key, values in sums.items()}


def _graph_means(rows: DeviceRows, graph: IntArray) -> dict[int, float]:
    """Mean time from the first to the last node of the replays of each graph."""
    replayed = np.flatnonzero(graph >= 0)
    if not len(replayed):
        return {}
    _, first, replay = np.unique(rows.correlation[replayed], return_index=True, return_inverse=True)
    begin = np.full(len(first), np.iinfo(np.int64).max)
    end = np.zeros(len(first), np.int64)
    np.minimum.at(begin, replay.reshape(-1), rows.start_ns[replayed])
    np.maximum.at(end, replay.reshape(-1), rows.end_ns[replayed])
    number = graph[replayed][first]
    return {int(one): float((end - begin)[number == one].mean()) / 1e3 for one in np.unique(number)}
