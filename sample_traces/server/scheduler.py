"""Continuous batching: which requests take part in the next step. Plain Python, no torch."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

FinishReason = Literal["length", "stop", "abort"]
Phase = Literal["prefill", "decode"]


class Turn(Protocol):
    """What a step must know of a request that takes part in it; see Request."""

    @property
    def prompt(self) -> list[int]: ...  # noqa: D102

    @property
    def slot(self) -> int: ...  # noqa: D102

    @property
    def temperature(self) -> float: ...  # noqa: D102

    @property
    def next_position(self) -> int: ...  # noqa: D102

    @property
    def known_token(self) -> int: ...  # noqa: D102

    @property
    def noise_seed(self) -> int: ...  # noqa: D102


class Snapshot(NamedTuple):
    """A turn as it is told to the other ranks: a prefill's with the prompt, a decode's with the token."""

    prompt: list[int]
    slot: int
    temperature: float
    next_position: int
    known_token: int
    noise_seed: int


@dataclass(eq=False)
class Request:
    """One request and how far it has come.

    Attributes:
        prompt: token ids, at least one.
        max_tokens: tokens to produce.
        temperature: 0 is greedy.
        seed: of the sampling noise.
        stop: token ids that end the request.
        tokens: tokens read back so far.
        launched: tokens whose step was handed to the device; ahead of `tokens` while a step is in flight.
        slot: its slot of the cache, −1 without one.
        finish_reason: None while it runs.
        cancelled: nobody waits for it any more.
    """

    prompt: list[int]
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    stop: frozenset[int] = frozenset()
    tokens: list[int] = field(default_factory=list)
    launched: int = 0
    slot: int = -1
    finish_reason: FinishReason | None = None
    cancelled: bool = False

    @property
    def next_position(self) -> int:
        """Position of the token that goes in next."""
        return len(self.prompt) + self.launched - 1

    @property
    def known_token(self) -> int:
        """The token that goes in next, −1 if its step is still in flight."""
        return self.tokens[-1] if len(self.tokens) == self.launched else -1

    @property
    def noise_seed(self) -> int:
        """31-bit seed of the noise for the token that comes out next."""
        return (self.seed * 0x9E3779B1 + (self.next_position + 1) * 0x85EBCA6B) & 0x7FFFFFFF


@dataclass(frozen=True)
class Plan:
    """One step: its phase and its requests."""

    phase: Phase
    requests: tuple[Request, ...]

    @property
    def label(self) -> str:
        """The step's name in a trace."""
        return f"{self.phase} bs={len(self.requests)}"

    def snapshots(self) -> list[Snapshot]:
        """The requests as they are now."""
        prefill = self.phase == "prefill"
        return [
            Snapshot(
                prompt=r.prompt if prefill else [],
                slot=r.slot,
                temperature=r.temperature,
                next_position=r.next_position,
                known_token=-1 if prefill else r.known_token,
                noise_seed=r.noise_seed,
            )
            for r in self.requests
        ]


class Scheduler:
    """Waiting and running requests. New ones are prefilled as soon as a slot is free; else all decode."""

    def __init__(self, max_seqs: int, max_prefill_tokens: int) -> None:
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self._free = list(range(max_seqs - 1, -1, -1))
        self._max_prefill_tokens = max_prefill_tokens

    @property
    def idle(self) -> bool:
        """True if there is no request at all."""
        return not self.waiting and not self.running

    def plan(self) -> Plan | None:
        """The next step, or None if no request can go on before more tokens are read."""
        self._drop_cancelled()
        admitted = self._admit()
        if admitted:
            return Plan("prefill", tuple(admitted))
        rows = [r for r in self.running if r.launched < r.max_tokens]
        return Plan("decode", tuple(rows)) if rows else None

    def take(self, request: Request, token: int) -> bool:
        """Note a token that was read back; False if the request had ended while its step was running."""
        if request.finish_reason is not None:
            return False
        request.tokens.append(token)
        if token in request.stop:
            self._finish(request, "stop")
        elif len(request.tokens) >= request.max_tokens:
            self._finish(request, "length")
        return True

    def _admit(self) -> list[Request]:
        admitted: list[Request] = []
        room = self._max_prefill_tokens
        while self.waiting and self._free and len(self.waiting[0].prompt) <= room:
            request = self.waiting.popleft()
            request.slot = self._free.pop()
            room -= len(request.prompt)
            admitted.append(request)
        self.running += admitted
        return admitted

    def _drop_cancelled(self) -> None:
        for request in [r for r in self.running if r.cancelled]:
            self._finish(request, "abort")
        if any(r.cancelled for r in self.waiting):
            dropped: Sequence[Request] = [r for r in self.waiting if r.cancelled]
            for request in dropped:
                request.finish_reason = "abort"
            self.waiting = deque(r for r in self.waiting if not r.cancelled)

    def _finish(self, request: Request, reason: FinishReason) -> None:
        request.finish_reason = reason
        self.running.remove(request)
        # A step in flight may still write to this slot; its next user runs after that on the same stream.
        self._free.append(request.slot)
