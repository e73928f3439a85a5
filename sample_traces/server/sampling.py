"""Choosing the next token on the device."""

from __future__ import annotations

from typing import Final

import torch

_MASK: Final = 0xFFFFFFFF
MIN_TEMPERATURE: Final = 1e-4
"""Below this a temperature is greedy: the logits divided by it would overflow."""


def choose(
    logits: torch.Tensor, temperatures: torch.Tensor | None, noise_seeds: torch.Tensor | None
) -> torch.Tensor:
    """One token for each row of `logits` [B, vocabulary], int32 [B].

    Greedy without temperatures. With them by the Gumbel trick, its noise a hash of (row's seed, token id):
    the same request gives the same tokens in whatever batch it runs. Rows with temperature 0 stay greedy.
    """
    if temperatures is None or noise_seeds is None:
        return logits.argmax(-1).to(torch.int32)
    noise = _gumbel(noise_seeds, logits.shape[-1])
    scale = temperatures[:, None]
    noisy = logits.float() / scale.clamp_min(MIN_TEMPERATURE) + noise
    return torch.where(scale >= MIN_TEMPERATURE, noisy, logits.float()).argmax(-1).to(torch.int32)


def _gumbel(seeds: torch.Tensor, width: int) -> torch.Tensor:
    """Gumbel noise [B, width], float32; a 32-bit integer hash (xorshift-multiply) in 64-bit arithmetic."""
    token = torch.arange(width, dtype=torch.int64, device=seeds.device)
    x = (token[None, :] * 0x9E3779B1 + seeds.to(torch.int64)[:, None]) & _MASK
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK
    x = x ^ (x >> 16)
    uniform = (x.to(torch.float32) + 0.5) / 4294967296.0
    # float32 rounds the largest values up to 1, whose noise would be infinite.
    return -torch.log(-torch.log(uniform.clamp_max(1 - 2**-24)))
