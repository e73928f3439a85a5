"""The scheduler loop: plan a step, launch it, read the tokens of this step or of the one before."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from server.configs import Settings
from server.marks import make_mark
from server.parallel import ALONE, Group
from server.ranks import Leader
from server.readback import Wait, make_readback
from server.runner import Runner
from server.scheduler import Plan, Request, Scheduler


@dataclass(frozen=True)
class Output:
    """One token that reached the host; `request.finish_reason` says whether it was the last."""

    request: Request
    token: int


OnOutputs = Callable[[Sequence[Output]], None]
"""Called on the scheduler thread after each step with the tokens that were read."""


class Engine:
    """One scheduler thread, and one model: in this process, or with a part of it in each of several ranks.

    `submit`, `cancel` and `stop` may be called from any thread and from signal handlers; `run` is the
    scheduler thread.

    Attributes:
        settings: what it was made with.
        host_work_us: busy time of the scheduler thread per step, µs; may be changed between runs.
        waited: seconds that the scheduler thread has waited for tokens, in all.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        sampled: bool = False,
        group: Group = ALONE,
        leader: Leader | None = None,
    ) -> None:
        """Make the runner (see there). With several ranks, `leader` tells the others of each step."""
        self.settings = settings
        self.host_work_us = settings.host_work_us
        self.waited = 0.0
        self._inbox: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._stopping = False
        self._scheduler = Scheduler(settings.max_seqs, settings.max_prefill_tokens)
        self._leader = leader or Leader()
        self._broken = False
        self.runner = Runner(settings, group, sampled=sampled)
        self._readback = make_readback(settings.readback, self.runner.model.device, settings.max_seqs)
        self._mark = make_mark(settings.marks)

    def check(self, request: Request) -> None:
        """Refuse a request that can never run.

        Raises:
            ValueError: one sentence for the caller.
        """
        if not request.prompt:
            raise ValueError("the prompt is empty")
        if not all(0 <= token < self.settings.model.vocab for token in request.prompt):
            raise ValueError(f"token ids must lie between 0 and {self.settings.model.vocab - 1}")
        if request.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")
        longest = self.settings.max_len
        if len(request.prompt) + request.max_tokens > longest:
            raise ValueError(
                f"{len(request.prompt)} prompt tokens and max_tokens={request.max_tokens} exceed {longest}"
            )

    def submit(self, request: Request) -> None:
        """Queue a request that `check` accepts."""
        self.check(request)
        self._inbox.put(request)

    def cancel(self, request: Request) -> None:
        """Stop working on a request; its slot is free from the next step on."""
        request.cancelled = True

    def stop(self) -> None:
        """Make `run` return after the step at hand."""
        self._stopping = True
        self._inbox.put(None)

    def run(self, on_outputs: OnOutputs) -> None:
        """Work until `stop`; sleep while there is nothing to do. May be called again."""
        flight: tuple[Plan, Wait] | None = None
        self._broken = True
        with self.runner.context():
            while not self._stopping:
                self._receive(wait=flight is None and self._scheduler.idle)
                flight = self._iterate(flight, on_outputs)
            if flight is not None:
                flight[1]()
        self._broken = self._stopping = False

    def close(self) -> None:
        """End what the engine started, and the other ranks; `run` must have returned.

        After a failure nothing waits for the GPU: a rank may be missing in a collective.
        """
        self._leader.end()
        if not self._broken:
            self._readback.close()
            self.runner.close()

    def _iterate(self, flight: tuple[Plan, Wait] | None, on_outputs: OnOutputs) -> tuple[Plan, Wait] | None:
        plan = self._scheduler.plan()
        if plan is None:
            if flight is not None:
                self._read(flight, on_outputs)
            return None
        with self._mark(plan.label):
            spin(self.host_work_us)
            launched = (plan, self._launch(plan))
            if not self._readback.deferred:
                self._read(launched, on_outputs)
                return None
            if flight is not None:
                self._read(flight, on_outputs)
            return launched

    def _receive(self, wait: bool) -> None:
        """Take in what was submitted; with `wait`, sleep until there is something."""
        while wait or not self._inbox.empty():
            request = self._inbox.get()
            wait = False
            if request is not None:
                self._scheduler.waiting.append(request)

    def _launch(self, plan: Plan) -> Wait:
        if self._leader:
            self._leader.tell((plan.phase, plan.snapshots()))
        tokens = self.runner.run(plan.phase, plan.requests)
        for request in plan.requests:
            request.launched += 1
        return self._readback.begin(tokens)

    def _read(self, flight: tuple[Plan, Wait], on_outputs: OnOutputs) -> None:
        plan, wait = flight
        begin = time.perf_counter()
        tokens = wait()
        self.waited += time.perf_counter() - begin
        pairs = zip(plan.requests, tokens, strict=True)
        on_outputs([Output(r, token) for r, token in pairs if self._scheduler.take(r, token)])


def spin(microseconds: int) -> None:
    """Keep the thread busy, as an engine's own scheduling work does."""
    if microseconds > 0:
        end = time.perf_counter_ns() + microseconds * 1000
        while time.perf_counter_ns() < end:
            pass
