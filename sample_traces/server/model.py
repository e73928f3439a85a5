"""A Qwen3-style decoder: RMSNorm, rotary positions, grouped-query attention with query and key norms, SwiGLU.

The forward pass is cut into pieces at every attention layer, so that it can run as a whole, be captured as
one CUDA graph, or be captured piece by piece with attention between the pieces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F  # noqa: N812

from server.batch import Batch
from server.cache import Cache, flash_attention, math_attention, pick_attention
from server.configs import ModelConfig, Settings
from server.parallel import ALONE, Group
from server.sampling import choose
from server.weights import WeightSource


@dataclass(frozen=True)
class Layer:
    """Weights of one layer; the projections that share an input are one matrix."""

    attention_norm: torch.Tensor
    qkv: torch.Tensor
    qk_norm: torch.Tensor
    out: torch.Tensor
    ffn_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True)
class Carry:
    """What one piece hands to the next: the residual stream [T, hidden], and what all layers share."""

    hidden: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor
    writes: torch.Tensor
    slots: torch.Tensor


class Decoder:
    """Weights, cache and forward pass of one rank: its heads, and its part of the feed-forward network.

    `pieces` = layers + 1. Piece i ends with the query of layer i; the last one ends with the sampled tokens.
    """

    def __init__(self, settings: Settings, group: Group = ALONE) -> None:
        config = group.local(settings.model)
        self.config = config
        self._group = group
        self.device = torch.device(settings.device)
        source = WeightSource(config, self.device, settings.seed)
        self._embedding = source.normal(config.vocab, config.hidden)
        self._layers = [self._layer(source, settings.model) for _ in range(config.layers)]
        self._norm = source.ones(config.hidden)
        self._head = self._embedding if config.tied_embedding else source.normal(config.vocab, config.hidden)
        self._cos, self._sin = self._rotations(settings.max_len)
        self.cache = Cache(config, self.device, settings.max_seqs, settings.max_len)
        self.attention = pick_attention(settings.attention, self.device, config.dtype)
        self.pieces = config.layers + 1

    def _layer(self, source: WeightSource, whole: ModelConfig) -> Layer:
        part = self._group.part
        query, key = whole.heads * whole.head_dim, whole.kv_heads * whole.head_dim
        heads = [part(query), part(key, query), part(key, query + key)]
        halves = [part(whole.ffn), part(whole.ffn, whole.ffn)]
        c = self.config
        return Layer(
            attention_norm=source.ones(c.hidden),
            qkv=source.normal(query + 2 * key, c.hidden, rows=heads),
            qk_norm=source.ones(c.heads + c.kv_heads, c.head_dim),
            out=source.normal(c.hidden, query, columns=part(query)),
            ffn_norm=source.ones(c.hidden),
            gate_up=source.normal(2 * whole.ffn, c.hidden, rows=halves),
            down=source.normal(c.hidden, whole.ffn, columns=part(whole.ffn)),
        )

    @property
    def collectives(self) -> int:
        """Sums over all ranks in one forward pass: after attention and after the feed-forward network."""
        return 2 * self.config.layers if self._group.size > 1 else 0

    def _rotations(self, max_len: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and signed sine of every position, [max_len, head size]: x·cos + swapped halves of x·sin."""
        half = self.config.head_dim // 2
        rates = self.config.rope_theta ** (-torch.arange(half, dtype=torch.float32) / half)
        angles = torch.arange(max_len, dtype=torch.float32)[:, None] * rates[None, :]
        cos = torch.cat((angles.cos(), angles.cos()), -1)
        sin = torch.cat((-angles.sin(), angles.sin()), -1)
        dtype = self._embedding.dtype
        return cos.to(self.device, dtype), sin.to(self.device, dtype)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Run the whole batch; the sampled tokens, int32 [B]."""
        carry, out = self.piece(0, batch, None, None)
        for layer in range(self.config.layers):
            attended = self.attend(layer, batch, out)
            carry, out = self.piece(layer + 1, batch, carry, attended)
        return out

    def attend(self, layer: int, batch: Batch, query: torch.Tensor) -> torch.Tensor:
        """Attention of one layer: [T, heads, head size] → the same."""
        run = flash_attention if self.attention == "flash" else math_attention
        return run(self.cache, layer, query, batch)

    def piece(
        self, index: int, batch: Batch, carry: Carry | None, attended: torch.Tensor | None
    ) -> tuple[Carry, torch.Tensor]:
        """Everything between two attention layers; the first piece takes neither carry nor attention."""
        if carry is None or attended is None:
            carry = self._begin(batch)
        else:
            carry = replace(
                carry, hidden=self._after_attention(self._layers[index - 1], carry.hidden, attended)
            )
        if index < self.config.layers:
            return carry, self._before_attention(index, carry)
        return carry, self._sample(batch, carry)

    def _begin(self, batch: Batch) -> Carry:
        slots = torch.div(batch.cache_offsets[:-1], self.cache.slot_length, rounding_mode="floor").long()
        ids = batch.ids
        if batch.last_rows is None:
            ids = torch.where(ids < 0, self.cache.last_token.index_select(0, slots), ids)
        return Carry(
            hidden=F.embedding(ids, self._embedding),
            cos=self._cos.index_select(0, batch.positions)[:, None, :],
            sin=self._sin.index_select(0, batch.positions)[:, None, :],
            writes=batch.writes.long(),
            slots=slots,
        )

    def _before_attention(self, index: int, carry: Carry) -> torch.Tensor:
        c = self.config
        layer = self._layers[index]
        normed = F.rms_norm(carry.hidden, (c.hidden,), layer.attention_norm, c.rms_eps)
        qkv = F.linear(normed, layer.qkv).unflatten(-1, (-1, c.head_dim))
        rotated_heads = c.heads + c.kv_heads
        qk = F.rms_norm(qkv[:, :rotated_heads], (c.head_dim,), None, c.rms_eps) * layer.qk_norm
        half = c.head_dim // 2
        swapped = torch.cat((qk[..., half:], qk[..., :half]), -1)
        qk = torch.addcmul(qk * carry.cos, swapped, carry.sin)
        self.cache.write(index, carry.writes, qk[:, c.heads :], qkv[:, rotated_heads:])
        return qk[:, : c.heads]

    def _after_attention(self, layer: Layer, hidden: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        c = self.config
        hidden = hidden + self._group.sum(F.linear(attended.flatten(1), layer.out))
        normed = F.rms_norm(hidden, (c.hidden,), layer.ffn_norm, c.rms_eps)
        gate, up = F.linear(normed, layer.gate_up).chunk(2, -1)
        return hidden + self._group.sum(F.linear(F.silu(gate) * up, layer.down))

    def _sample(self, batch: Batch, carry: Carry) -> torch.Tensor:
        hidden = carry.hidden if batch.last_rows is None else carry.hidden.index_select(0, batch.last_rows)
        normed = F.rms_norm(hidden, (self.config.hidden,), self._norm, self.config.rms_eps)
        tokens = choose(F.linear(normed, self._head), batch.temperatures, batch.noise_seeds)
        self.cache.last_token.index_copy_(0, carry.slots, tokens)
        return tokens
