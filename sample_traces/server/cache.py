"""The key-value cache: one slot of fixed length per running sequence, and attention over it."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from server.batch import Batch
from server.configs import Attention, ModelConfig


class Cache:
    """Keys and values of every layer, [slots × slot length, KV heads, head size], and each slot's last token.

    One slot more than sequences can run: rows that only pad a batch to a graph's size write there.
    """

    def __init__(self, config: ModelConfig, device: torch.device, slots: int, slot_length: int) -> None:
        self.slot_length = slot_length
        self.scratch_slot = slots
        rows = (slots + 1) * slot_length
        shape = (config.layers, rows, config.kv_heads, config.head_dim)
        dtype = getattr(torch, config.dtype)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.last_token = torch.zeros(slots + 1, dtype=torch.int32, device=device)

    def write(self, layer: int, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put the keys and values of T tokens ([T, KV heads, head size]) at `rows` (int64, [T])."""
        self.keys[layer].index_copy_(0, rows, keys)
        self.values[layer].index_copy_(0, rows, values)


def pick_attention(wanted: Attention, device: torch.device, dtype: str) -> Attention:
    """`flash` where torch has it for this device and type, else `math`.

    Raises:
        ValueError: `flash` was asked for and cannot run here.
    """
    usable = device.type == "cuda" and dtype in ("bfloat16", "float16")
    if wanted == "flash" and not usable:
        raise ValueError("--attention flash needs a GPU and a 16-bit model; use --attention math")
    if wanted == "auto":
        return "flash" if usable else "math"
    return wanted


def flash_attention(cache: Cache, layer: int, query: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Attention of T queries [T, heads, head size] by torch's FlashAttention, straight from the slots.

    The sequences' starts in the cache are given as if they were cumulative lengths, and the true lengths
    apart (`seqused_k`): the kernel takes the former as addresses only. Both live on the GPU, so one
    captured graph serves every mix of slots and lengths.
    """
    out: torch.Tensor = torch.ops.aten._flash_attention_forward(
        query,
        cache.keys[layer],
        cache.values[layer],
        batch.query_offsets,
        batch.cache_offsets,
        batch.max_query,
        cache.slot_length,
        0.0,
        True,
        False,
        seqused_k=batch.lengths,
    )[0]
    return out


def math_attention(cache: Cache, layer: int, query: torch.Tensor, batch: Batch) -> torch.Tensor:
    """The same in plain tensor operations: for the CPU, 32-bit models, and as a check of the other."""
    if batch.spans:
        return torch.cat(
            [_causal(cache, layer, query[s.row : s.row + s.count], s.cache_offset) for s in batch.spans]
        )
    return _one_query_each(cache, layer, query, batch)


def _causal(cache: Cache, layer: int, query: torch.Tensor, start: int) -> torch.Tensor:
    count, heads, _ = query.shape
    keys = _for_heads(cache.keys[layer, start : start + count], heads)
    values = _for_heads(cache.values[layer, start : start + count], heads)
    out = F.scaled_dot_product_attention(
        query.transpose(0, 1), keys.transpose(0, 1), values.transpose(0, 1), is_causal=True
    )
    return out.transpose(0, 1)


def _one_query_each(cache: Cache, layer: int, query: torch.Tensor, batch: Batch) -> torch.Tensor:
    heads = query.shape[1]
    slots = torch.div(batch.cache_offsets[:-1], cache.slot_length, rounding_mode="floor")
    by_slot = (-1, cache.slot_length, *cache.keys.shape[2:])
    keys = _for_heads(cache.keys[layer].view(by_slot).index_select(0, slots), heads)
    values = _for_heads(cache.values[layer].view(by_slot).index_select(0, slots), heads)
    seen = torch.arange(cache.slot_length, device=query.device)[None, :] < batch.lengths[:, None]
    out = F.scaled_dot_product_attention(
        query[:, :, None, :], keys.transpose(1, 2), values.transpose(1, 2), attn_mask=seen[:, None, None, :]
    )
    return out[:, :, 0, :]


def _for_heads(kv: torch.Tensor, heads: int) -> torch.Tensor:
    """Repeat each KV head for the query heads that share it; heads are the last dimension but one."""
    return kv.repeat_interleave(heads // kv.shape[-2], dim=-2)
