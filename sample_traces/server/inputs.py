"""From host lists to device tensors: the small copies at the start of every step."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from server.batch import Batch, Span
from server.cache import Cache
from server.configs import Settings
from server.scheduler import Turn

DECODE_ROWS = 5
SAMPLING_ROWS = 2
PREFILL_SEQUENCE_ROWS = 4
IN_FLIGHT = 2
"""Steps whose inputs can be on their way at once: step n + 2 starts only after step n's tokens were read."""


def decode_ints(size: int, sampled: bool) -> int:
    """Integers of a decode step's inputs: its rows, of which the cache offsets have one entry more."""
    return (DECODE_ROWS + (SAMPLING_ROWS if sampled else 0)) * size + 1


class Streams:
    """The forward stream and the input stream of a GPU; on a CPU, contexts that do nothing.

    Input copies have a stream of their own that never has other work, so that a copy which blocks until its
    stream is drained (as under confidential computing) waits for itself only, not for the step before.
    """

    def __init__(self, device: torch.device) -> None:
        self.gpu = device.type == "cuda"
        self.forward = torch.cuda.Stream(device) if self.gpu else None
        self._inputs = torch.cuda.Stream(device) if self.gpu else None

    def on_forward(self) -> contextlib.AbstractContextManager[Any]:
        """Work submitted inside goes to the forward stream."""
        return torch.cuda.stream(self.forward) if self.gpu else contextlib.nullcontext()

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Copies made inside go to the input stream; the forward stream then waits for them."""
        if self._inputs is None:
            yield
            return
        with torch.cuda.stream(self._inputs):
            yield
            arrived = torch.cuda.Event()
            arrived.record()
        torch.cuda.current_stream().wait_event(arrived)


class Staging:
    """Pinned host memory and device memory for the int32 rows of a step, once per step in flight."""

    def __init__(self, size: int, device: torch.device, streams: Streams) -> None:
        self._host = [torch.zeros(size, dtype=torch.int32, pin_memory=streams.gpu) for _ in range(IN_FLIGHT)]
        self._device = [torch.zeros(size, dtype=torch.int32, device=device) for _ in range(IN_FLIGHT)]
        self._streams = streams
        self._turn = 0

    def send(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Copy each row with a copy of its own, as engines do; all rows in sequence, on the device."""
        self._turn = (self._turn + 1) % IN_FLIGHT
        host, device = self._host[self._turn], self._device[self._turn]
        total = sum(len(row) for row in rows)
        host[:total] = torch.tensor([value for row in rows for value in row], dtype=torch.int32)
        with self._streams.sending():
            start = 0
            for row in rows:
                end = start + len(row)
                device[start:end].copy_(host[start:end], non_blocking=True)
                start = end
        return device[:total]


class Inputs:
    """Turns the scheduler's requests into batches on the device."""

    def __init__(self, settings: Settings, cache: Cache, streams: Streams) -> None:
        device = cache.last_token.device
        most = settings.max_seqs
        self._cache = cache
        self._decode = Staging(decode_ints(most, True), device, streams)
        sequence_ints = (PREFILL_SEQUENCE_ROWS + SAMPLING_ROWS) * most + 2
        self._prefill = Staging(3 * settings.max_prefill_tokens + sequence_ints, device, streams)
        self._one_each = torch.arange(most + 1, dtype=torch.int32, device=device)

    def decode(self, requests: Sequence[Turn], size: int) -> torch.Tensor:
        """Send one row for each request, padded to `size` rows that write to the scratch slot."""
        slot_length = self._cache.slot_length
        positions = [r.next_position for r in requests]
        starts = [r.slot * slot_length for r in requests]
        pad = size - len(requests)
        scratch = self._cache.scratch_slot * slot_length
        rows = [
            [r.known_token for r in requests] + [0] * pad,
            positions + [0] * pad,
            [start + position for start, position in zip(starts, positions, strict=True)] + [scratch] * pad,
            starts + [scratch] * (pad + 1),
            [position + 1 for position in positions] + [1] * pad,
        ]
        if any(r.temperature > 0 for r in requests):
            rows += [row + [0] * pad for row in _sampling_rows(requests)]
        return self._decode.send(rows)

    def decode_batch(self, sent: torch.Tensor, size: int) -> Batch:
        """A batch whose tensors are views of `sent` (what `decode` returned, or a copy of it)."""
        lengths = [size, size, size, size + 1, size]
        sampled = sent.numel() == decode_ints(size, True)
        views = sent.split(lengths + [size] * (SAMPLING_ROWS if sampled else 0))
        return Batch(
            ids=views[0],
            positions=views[1],
            writes=views[2],
            cache_offsets=views[3],
            lengths=views[4],
            query_offsets=self._one_each[: size + 1],
            max_query=1,
            temperatures=views[5].view(torch.float32) if sampled else None,
            noise_seeds=views[6] if sampled else None,
        )

    def prefill(self, requests: Sequence[Turn]) -> Batch:
        """Send the whole prompts of the requests, one after the other."""
        slot_length = self._cache.slot_length
        counts = [len(r.prompt) for r in requests]
        starts = [r.slot * slot_length for r in requests]
        ends = [sum(counts[: i + 1]) for i in range(len(counts))]
        rows = [
            [token for r in requests for token in r.prompt],
            [position for count in counts for position in range(count)],
            [start + i for start, count in zip(starts, counts, strict=True) for i in range(count)],
            [0, *ends],
            [*starts, 0],
            counts,
            [end - 1 for end in ends],
        ]
        sampled = any(r.temperature > 0 for r in requests)
        if sampled:
            rows += _sampling_rows(requests)
        views = self._prefill.send(rows).split([len(row) for row in rows])
        return Batch(
            ids=views[0],
            positions=views[1],
            writes=views[2],
            query_offsets=views[3],
            cache_offsets=views[4],
            lengths=views[5],
            last_rows=views[6],
            max_query=max(counts),
            spans=tuple(
                Span(end - count, count, start)
                for end, count, start in zip(ends, counts, starts, strict=True)
            ),
            temperatures=views[7].view(torch.float32) if sampled else None,
            noise_seeds=views[8] if sampled else None,
        )


def _sampling_rows(requests: Sequence[Turn]) -> list[list[int]]:
    return [[_bits(r.temperature) for r in requests], [r.noise_seed for r in requests]]


def _bits(value: float) -> int:
    """The bits of a float32 as an int32, so that it can travel among the integers."""
    return int(struct.unpack("<i", struct.pack("<f", value))[0])
