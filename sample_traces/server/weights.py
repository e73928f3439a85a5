"""Random weights, made on the host and copied to the device as a loader of real weights would."""

from __future__ import annotations

from typing import Final

import torch

from server.configs import ModelConfig

POOL_ELEMENTS: Final = 1 << 23
"""Random numbers made once (16 MiB in bfloat16) and used over again: 8 billion take minutes on a CPU."""

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

    def normal(self, *shape: int) -> torch.Tensor:
        """A tensor of normal numbers, copied to the device in pieces of at most one pool."""
        weight = torch.empty(shape, dtype=self._dtype, device=self._device)
        flat = weight.view(-1)
        done = 0
        offset = self._start % POOL_ELEMENTS
        while done < flat.numel():
            count = min(flat.numel() - done, POOL_ELEMENTS - offset)
            flat[done : done + count].copy_(self._pool[offset : offset + count])
            done += count
            offset = 0
        self._start += STRIDE
        return weight

    def ones(self, *shape: int) -> torch.Tensor:
        """A tensor of ones: what a norm's weight starts as."""
        return torch.ones(shape, dtype=self._dtype, device=self._device)
