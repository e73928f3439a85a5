"""Three ways to bring a step's tokens to the host, the difference between them being what waits for what.

sync: the scheduler thread copies them at once and waits.
overlap: the scheduler thread starts a copy into pinned memory and waits for it one step later.
worker: another thread waits for the step, copies on a stream of its own and hands the tokens over; the
    scheduler thread waits for the hand-over one step later.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol

import torch

from server import configs

PINNED_BUFFERS: Final = 3
"""Copies that can be unread at once: one in flight, one being read, one spare."""

Wait = Callable[[], list[int]]
"""Waits for a step's tokens and returns them."""


class Readback(Protocol):
    """Brings tokens to the host. `deferred`: the wait may come after the next step is launched."""

    deferred: bool

    def begin(self, tokens: torch.Tensor) -> Wait:
        """Start reading `tokens` (on the device, the current stream)."""

    def close(self) -> None:
        """End what was started."""


class SyncReadback:
    """Copies and waits on the calling thread, at once."""

    deferred = False

    def begin(self, tokens: torch.Tensor) -> Wait:
        """See Readback."""
        return tokens.tolist  # type: ignore[no-any-return]

    def close(self) -> None:
        """Nothing to end."""


class OverlapReadback:
    """A copy into pinned memory on the forward stream, and an event to wait for."""

    deferred = True

    def __init__(self, device: torch.device, max_seqs: int) -> None:
        self._gpu = device.type == "cuda"
        self._buffers = _host_buffers(self._gpu, max_seqs)
        self._turn = 0

    def begin(self, tokens: torch.Tensor) -> Wait:
        """See Readback."""
        self._turn = (self._turn + 1) % PINNED_BUFFERS
        target = self._buffers[self._turn][: tokens.shape[0]]
        target.copy_(tokens, non_blocking=True)
        if not self._gpu:
            return target.tolist  # type: ignore[no-any-return]
        copied = torch.cuda.Event()
        copied.record()

        def wait() -> list[int]:
            copied.synchronize()
            return target.tolist()  # type: ignore[no-any-return]

        return wait

    def close(self) -> None:
        """Nothing to end."""


class WorkerReadback:
    """A thread that waits for the step, copies on its own stream and hands the tokens over."""

    deferred = True

    def __init__(self, device: torch.device, max_seqs: int) -> None:
        self._device = device
        self._gpu = device.type == "cuda"
        self._buffer = _host_buffers(self._gpu, max_seqs)[0]
        self._jobs: queue.SimpleQueue[tuple[torch.Tensor, Any, Future[list[int]]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._work, name="d2h-worker", daemon=True)
        self._thread.start()

    def begin(self, tokens: torch.Tensor) -> Wait:
        """See Readback. Takes a copy on the device: the next replay of a graph overwrites `tokens`."""
        own = tokens.clone()
        done = None
        if self._gpu:
            done = torch.cuda.Event()
            done.record()
        result: Future[list[int]] = Future()
        self._jobs.put((own, done, result))
        return result.result

    def close(self) -> None:
        """End the thread once it has handed over what it holds."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        stream = torch.cuda.Stream(self._device) if self._gpu else None
        while (job := self._jobs.get()) is not None:
            tokens, done, result = job
            try:
                result.set_result(self._copy(tokens, done, stream))
            except Exception as error:  # handed to the scheduler thread, which raises it
                result.set_exception(error)

    def _copy(self, tokens: torch.Tensor, done: Any, stream: Any) -> list[int]:
        if stream is None:
            return tokens.tolist()  # type: ignore[no-any-return]
        done.synchronize()
        target = self._buffer[: tokens.shape[0]]
        with torch.cuda.stream(stream):
            target.copy_(tokens, non_blocking=True)
        stream.synchronize()
        return target.tolist()  # type: ignore[no-any-return]


def _host_buffers(pinned: bool, size: int) -> list[torch.Tensor]:
    return [torch.zeros(size, dtype=torch.int32, pin_memory=pinned) for _ in range(PINNED_BUFFERS)]


def make_readback(kind: configs.Readback, device: torch.device, max_seqs: int) -> Readback:
    """The readback called `kind`, for batches of at most `max_seqs`."""
    if kind == "sync":
        return SyncReadback()
    return (OverlapReadback if kind == "overlap" else WorkerReadback)(device, max_seqs)
