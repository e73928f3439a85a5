"""What one forward pass needs to know about its batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Span:
    """One sequence of a prefill batch, in tokens: its first row, its rows, and where its cache starts."""

    row: int
    count: int
    cache_offset: int


@dataclass(frozen=True)
class Batch:
    """T tokens of B sequences. All tensors are int32 on the device unless said.

    Attributes:
        ids: [T] token ids; −1 is the token sampled last for this sequence, which may exist on the GPU only.
        positions: [T] position in the sequence.
        writes: [T] row of the key-value cache that the token's key and value go to.
        cache_offsets: [B + 1] row where each sequence's cache starts; the last entry is not used.
        lengths: [B] tokens of the sequence in the cache once this batch is written.
        query_offsets: [B + 1] first row of each sequence in T.
        last_rows: [B] row of each sequence's last token, or None if every sequence has one row (decode).
        max_query: longest run of rows of one sequence.
        spans: the sequences on the host (prefill only).
        temperatures: [B] float32, or None for greedy sampling.
        noise_seeds: [B] seeds of the sampling noise, or None for greedy sampling.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    writes: torch.Tensor
    cache_offsets: torch.Tensor
    lengths: torch.Tensor
    query_offsets: torch.Tensor
    max_query: int
    last_rows: torch.Tensor | None = None
    spans: tuple[Span, ...] = ()
    temperatures: torch.Tensor | None = None
    noise_seeds: torch.Tensor | None = None
