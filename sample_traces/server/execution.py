"""Three ways to run a decode step: launch by launch, as one graph, as graphs cut at each attention layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

import torch

from server.batch import Batch
from server.configs import Settings, buckets
from server.inputs import Inputs, Streams, decode_ints
from server.model import Carry, Decoder
from server.scheduler import Turn

WARM_UP_RUNS: Final = 2
"""Eager runs before a capture: library handles, workspaces and lazily loaded kernels must exist by then."""


class Execution(Protocol):
    """Runs decode steps on the current stream."""

    def prepare(self, sampled: bool) -> None:
        """Make ready for every batch size, with or without random sampling."""

    def decode(self, requests: Sequence[Turn]) -> torch.Tensor:
        """One step: the sampled token of each request, int32 on the device; valid until the next step."""

    def close(self) -> None:
        """Give up what was made ready; no step runs any more."""


class EagerExecution:
    """Every operation is launched by the host, for exactly the running requests."""

    def __init__(self, model: Decoder, inputs: Inputs) -> None:
        self._model = model
        self._inputs = inputs

    def prepare(self, sampled: bool) -> None:
        """Nothing to make ready."""

    def decode(self, requests: Sequence[Turn]) -> torch.Tensor:
        """See Execution."""
        sent = self._inputs.decode(requests, len(requests))
        return self._model.forward(self._inputs.decode_batch(sent, len(requests)))

    def close(self) -> None:
        """Nothing to give up."""


Replay = Callable[[], torch.Tensor]
Result = TypeVar("Result")


class Recorder(Protocol):
    """Records the device work of a function, so that it can be replayed into the same memory."""

    def record(self, work: Callable[[], Result]) -> tuple[Result, Callable[[], None]]:
        """What `work` returns (not computed yet), and a function that computes it anew."""

    def settle(self) -> None:
        """Wait until the device has nothing left to do."""


class CudaRecorder:
    """Captures into CUDA graphs that share one memory pool: no two of them run at once."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Callable[[], Result]) -> tuple[Result, Callable[[], None]]:
        """See Recorder; captures from the current stream, which must not be the default one.

        `torch.cuda.graph` would also collect garbage and empty the allocator's cache, for every piece anew.
        `thread_local`: the readback worker may be waiting for an event while this thread captures.
        """
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            result = work()
        finally:
            graph.capture_end()
        return result, graph.replay

    def settle(self) -> None:
        """See Recorder."""
        torch.cuda.synchronize()


class GraphExecution:
    """Steps captured once for each batch size; smaller batches are padded to the next size.

    Graphs read their inputs from one fixed buffer, which each step fills with one copy on the device.
    """

    def __init__(self, model: Decoder, inputs: Inputs, settings: Settings, recorder: Recorder) -> None:
        self._model = model
        self._inputs = inputs
        self._recorder = recorder
        self._sizes = buckets(settings.max_seqs)
        self._capture = self._capture_pieces if settings.execution == "piecewise" else self._capture_whole
        ints = decode_ints(settings.max_seqs, True)
        self._static = torch.zeros(ints, dtype=torch.int32, device=model.device)
        self._replays: dict[tuple[int, bool], Replay] = {}

    def prepare(self, sampled: bool) -> None:
        """Capture the largest batch first: the smaller ones then fit into its memory."""
        for size in reversed(self._sizes):
            self._replay_of(size, sampled)

    def decode(self, requests: Sequence[Turn]) -> torch.Tensor:
        """See Execution."""
        size = next(s for s in self._sizes if s >= len(requests))
        sent = self._inputs.decode(requests, size)
        replay = self._replay_of(size, sent.numel() == decode_ints(size, True))
        self._static[: sent.numel()].copy_(sent, non_blocking=True)
        return replay()[: len(requests)]

    def close(self) -> None:
        """See Execution: a graph that holds a collective must be gone before its communicator."""
        self._replays.clear()

    def _replay_of(self, size: int, sampled: bool) -> Replay:
        """The captured step; a kind that `prepare` did not capture is captured at its first use."""
        key = (size, sampled)
        if key not in self._replays:
            static = self._static[: decode_ints(size, sampled)]
            static.copy_(self._harmless(size, sampled))
            batch = self._inputs.decode_batch(static, size)
            for _ in range(WARM_UP_RUNS):
                self._model.forward(batch)
            self._recorder.settle()
            self._replays[key] = self._capture(batch)
        return self._replays[key]

    def _harmless(self, size: int, sampled: bool) -> torch.Tensor:
        """Inputs for a warm-up: every row at position 0 of the scratch slot."""
        cache = self._model.cache
        scratch = cache.scratch_slot * cache.slot_length
        rows = [0] * (2 * size) + [scratch] * size + [scratch] * (size + 1) + [1] * size
        rows += [0] * (decode_ints(size, sampled) - len(rows))
        return torch.tensor(rows, dtype=torch.int32)

    def _capture_whole(self, batch: Batch) -> Replay:
        tokens, run = self._recorder.record(lambda: self._model.forward(batch))

        def replay() -> torch.Tensor:
            run()
            return tokens

        return replay

    def _capture_pieces(self, batch: Batch) -> Replay:
        """Capture each piece; attention runs between them, its result copied to where the next one reads."""
        model = self._model
        runs: list[Callable[[], None]] = []
        queries: list[torch.Tensor] = []
        results: list[torch.Tensor] = []
        carries: list[Carry | None] = [None]
        out = batch.ids
        for index in range(model.pieces):
            attended = results[-1] if results else None
            piece = partial(model.piece, index, batch, carries[-1], attended)
            (carry, out), run = self._recorder.record(piece)
            runs.append(run)
            carries.append(carry)
            if index < model.config.layers:
                queries.append(out)
                results.append(torch.empty(out.shape, dtype=out.dtype, device=out.device))
        tokens = out

        # The carries stay alive with this function: a later capture must not be given their memory.
        def replay(_carries: Sequence[Carry | None] = tuple(carries)) -> torch.Tensor:
            for layer, query in enumerate(queries):
                runs[layer]()
                results[layer].copy_(model.attend(layer, batch, query))
            runs[-1]()
            return tokens

        return replay


def make_execution(model: Decoder, inputs: Inputs, streams: Streams, settings: Settings) -> Execution:
    """The execution that the settings name.

    Raises:
        ValueError: CUDA graphs were asked for without a GPU.
    """
    if settings.execution == "eager":
        return EagerExecution(model, inputs)
    if not streams.gpu:
        raise ValueError(f"--execution {settings.execution} needs a GPU; use --execution eager")
    return GraphExecution(model, inputs, settings, CudaRecorder())
