"""What every rank of a server has: its part of the model, memory and streams; and how it runs a step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import torch

from server.configs import Settings
from server.execution import make_execution
from server.inputs import IN_FLIGHT, Inputs, Streams
from server.model import Decoder
from server.parallel import ALONE, Group
from server.scheduler import Phase, Turn


class Runner:
    """One rank's model and its memory. All ranks must run the same steps in the same order."""

    def __init__(self, settings: Settings, group: Group = ALONE, *, sampled: bool = False) -> None:
        """Load the model and, for graphs, capture every batch size; `sampled`: with random sampling too."""
        self._group = group
        with torch.inference_mode():
            self.model = Decoder(settings, group)
            self._streams = Streams(self.model.device)
            self.inputs = Inputs(settings, self.model.cache, self._streams)
            self._execution = make_execution(self.model, self.inputs, self._streams, settings)
            if self._streams.gpu:  # what was filled on the default stream must be there for the other streams
                torch.cuda.synchronize()
            with self._streams.on_forward():
                self._execution.prepare(False)
                if sampled:
                    self._execution.prepare(True)

    @contextlib.contextmanager
    def context(self) -> Iterator[None]:
        """What `run` needs around it, on the thread that calls it."""
        with torch.inference_mode(), self._streams.on_forward():
            yield

    def run(self, phase: Phase, turns: Sequence[Turn]) -> torch.Tensor:
        """Launch one step; the sampled token of each turn, int32 on the device, valid until the next step."""
        if phase == "prefill":
            return self.model.forward(self.inputs.prefill(turns))
        return self._execution.decode(turns)

    def follow(self, steps: Iterable[tuple[Phase, Sequence[Turn]]]) -> None:
        """Run what rank 0 tells, which reads the tokens. No step overtakes the inputs of an earlier one."""
        done: list[torch.cuda.Event | None] = [None] * IN_FLIGHT
        with self.context():
            for number, (phase, turns) in enumerate(steps):
                before = done[number % IN_FLIGHT]
                if before is not None:
                    before.synchronize()
                self.run(phase, turns)
                if self._streams.gpu:
                    event = done[number % IN_FLIGHT] = torch.cuda.Event()
                    event.record()

    def close(self) -> None:
        """Leave the group; all ranks do it, when no step is under way."""
        if self._streams.gpu:
            torch.cuda.synchronize()
        self._execution.close()
        self._group.leave()
