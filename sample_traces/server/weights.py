"""Random weights, made on the host and copied to the device as a loader of real weights would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import torch

from server.configs import ModelConfig

POOL_ELEMENTS: Final = 1 << 23
"""Random numbers made once (16 MiB in bfloat16) and used over again: 8 billion take minutes on a CPU."""

ALL: Final = slice(None)

STRIDE: Final = 999_983
"""Each tensor starts this many elements further into the pool (a prime), so that no two layers are equal."""


class WeightSource:
    """Hands out tensors from a pool of normal numbers; a seed gives the same weights on every device."""

    def __init__(self, config: ModelConfig, device: torch.device, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        pool = torch.empty(POOL_ELEMENTS).normal_(0.0, config.weight_std, generator=generator)
        self._dtype = getattr(torch, config.dtype)
        self._pool = pool.to(self._dtype)
        self._device = device
        self._start = 0

    def normal(
        self, height: int, width: int, *, rows: Sequence[slice] = (ALL,), columns: slice = ALL
    ) -> torch.Tensor:
        """A matrix of normal numbers, or the part of it that a rank needs, copied to the device.

        The copies are of at most one pool; numbers that are not needed stay on the host.
        """
        pieces = list(self._pieces(height * width))
        self._start += STRIDE
        shape = sum(_length(picked, height) for picked in rows), _length(columns, width)
        if shape != (height, width):
            whole = torch.cat(pieces).view(height, width)
            part = torch.cat([whole[picked, columns] for picked in rows])
            pieces = list(part.view(-1).split(POOL_ELEMENTS))
        weight = torch.empty(shape, dtype=self._dtype, device=self._device)
        for target, piece in zip(weight.view(-1).split([p.numel() for p in pieces]), pieces, strict=True):
            target.copy_(piece)
        return weight

    def _pieces(self, count: int) -> Iterator[torch.Tensor]:
        """The next `count` numbers of the pool, which begins anew at its end."""
        offset = self._start % POOL_ELEMENTS
        while count:
            piece = self._pool[offset : offset + count]
            yield piece
            count -= piece.numel()
            offset = 0

    def ones(self, *shape: int) -> torch.Tensor:
        """A tensor of ones: what a norm's weight starts as."""
        return torch.ones(shape, dtype=self._dtype, device=self._device)


def _length(picked: slice, count: int) -> int:
    """How many of `count` a slice picks."""
    return len(range(*picked.indices(count)))
