"""The load client inside the server's process: no HTTP, nothing between the scheduler and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from server.engine import Engine, Output
from server.results import Load, Record, Step
from server.scheduler import Request

WARM_UP_TOKENS = 8
"""Tokens per warm-up request: enough to have prefilled and decoded at the full batch size."""


class Bench:
    """Keeps `load.concurrency` requests running until all prompts are done, then stops the engine.

    One batch of warm-up requests runs first and is not measured.
    """

    def __init__(self, engine: Engine, load: Load, clock: Callable[[], float] = time.perf_counter) -> None:
        self._engine = engine
        self._load = load
        self._clock = clock
        prompts = load.prompts(engine.settings.model.vocab)
        self._todo = [self._request(i, prompt, load.output_len) for i, prompt in enumerate(prompts)][::-1]
        self._warm_up = {
            self._request(i, prompt, min(WARM_UP_TOKENS, load.output_len))
            for i, prompt in enumerate(prompts[: load.concurrency])
        }
        self._open: dict[Request, Record] = {}
        self._begin = 0.0
        self.records: list[Record] = []
        self.requests: list[Request] = []
        self.duration = 0.0
        self.steps: list[Step] = []
        self._last: tuple[float, float] | None = None

    def _request(self, number: int, prompt: list[int], tokens: int) -> Request:
        load = self._load
        return Request(prompt, tokens, temperature=load.temperature, seed=load.seed + number)

    def run(self) -> None:
        """Run the load; what was measured is then in `records`, `requests`, `steps` and `duration` (s).

        After a stop too.
        """
        for request in list(self._warm_up):
            self._engine.submit(request)
        self._engine.run(self._on_outputs)
        self.duration = self._clock() - self._begin if self._begin else 0.0
        for record in self._open.values():
            record.error = "stopped before it was done"

    def _on_outputs(self, outputs: Sequence[Output]) -> None:
        now = self._clock()
        self._note_step(now)
        for output in outputs:
            record = self._open.get(output.request)
            if record is not None:
                record.token_times.append(now)
            if output.request.finish_reason is not None:
                self._ended(output.request)

    def _note_step(self, now: float) -> None:
        waited = self._engine.waited
        if self._last is not None and self._begin > 0:
            self.steps.append(Step(now - self._last[0], waited - self._last[1]))
        self._last = now, waited

    def _ended(self, request: Request) -> None:
        if request in self._warm_up:
            self._warm_up.discard(request)
            if not self._warm_up:
                self._begin = self._clock()
                for _ in range(min(self._load.concurrency, len(self._todo))):
                    self._submit_next()
            return
        self._open.pop(request)
        if self._todo:
            self._submit_next()
        elif not self._open:
            self._engine.stop()

    def _submit_next(self) -> None:
        request = self._todo.pop()
        record = Record(len(request.prompt), self._clock())
        self._open[request] = record
        self.records.append(record)
        self.requests.append(request)
        self._engine.submit(request)
