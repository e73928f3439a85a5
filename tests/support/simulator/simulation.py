"""One run of the simulated server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.load import WARM_UP_STEPS, Step, plan
from simulator.machine import Machine
from simulator.recording import SimulatedTrace, begun_after, trace_of
from simulator.rows import Row
from simulator.run import Run
from simulator.server import Server

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run did.

    Attributes:
        run: what was asked for.
        steps: the steps, in order.
        period_us: how long each took, from its begin to the next one's, on the first rank.
        servers: the ranks.
    """

    run: Run
    steps: Sequence[Step]
    period_us: FloatArray
    servers: Sequence[Server]

    def mean_us(self, phase: str | None = None, batch: int | None = None) -> float:
        """Mean period of the steps after the warm-up, of one phase and batch or of all."""
        chosen = [
            step.number >= WARM_UP_STEPS
            and phase in (None, step.phase)
            and batch in (None, step.batch)
            for step in self.steps
        ]  # fmt: skip
        return float(self.period_us[np.array(chosen)].mean())

    def rows(self) -> list[Row]:
        """All that happened on all ranks, in no order."""
        return [row for server in self.servers for row in server.rows()]

    def trace(self, *, cc_mode: str = "off") -> SimulatedTrace:
        """What the recorder kept."""
        recorder = self.run.recorder
        begin = min(server.step_begins[recorder.first_step] for server in self.servers)
        return trace_of(begun_after(begin, self.rows()), recorder, cc_mode=cc_mode)


def simulate(run: Run) -> Outcome:
    """Runs the server once."""
    steps = plan(run.load, run.steps)
    machine = Machine(run.load.ranks)
    servers = [Server(machine, rank, run, steps) for rank in range(run.load.ranks)]
    machine.run()
    begins: FloatArray = np.array(servers[0].step_begins, np.float64)
    return Outcome(run, steps, np.diff(begins), servers)
