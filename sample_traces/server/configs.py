"""Model shapes and the settings of one server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

Execution = Literal["eager", "graph", "piecewise"]
Readback = Literal["sync", "overlap", "worker"]
Attention = Literal["auto", "flash", "math"]
Marks = Literal["both", "hook", "nvtx", "none"]


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a Qwen3-style decoder. Sizes in elements; `weight_std`: spread of the random weights."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied_embedding: bool
    weight_std: float = 0.02
    dtype: str = "bfloat16"
    rms_eps: float = 1e-6
    rope_theta: float = 1e6


# The two real shapes are those of the published Qwen3-0.6B and Qwen3-8B configurations.
# `tiny` is for tests: float32 and a wide spread of weights, so that no two tokens come close to a tie.
MODELS: Final = {
    "0.6b": ModelConfig("qwen3-0.6b-shape", 1024, 28, 16, 8, 128, 3072, 151936, True),
    "8b": ModelConfig("qwen3-8b-shape", 4096, 36, 32, 8, 128, 12288, 151936, False),
    "tiny": ModelConfig("tiny", 64, 2, 4, 2, 16, 128, 512, False, weight_std=0.3, dtype="float32"),
}


@dataclass(frozen=True)
class Settings:
    """One server: its model, how it runs a step and how it reads the sampled tokens back."""

    model: ModelConfig
    device: str = "cuda"
    execution: Execution = "graph"
    readback: Readback = "overlap"
    attention: Attention = "auto"
    max_seqs: int = 16
    max_len: int = 1024
    max_prefill_tokens: int = 8192
    host_work_us: int = 0
    seed: int = 0
    marks: Marks = "both"

    def __post_init__(self) -> None:
        if self.max_prefill_tokens < self.max_len:
            raise ValueError(
                f"max_prefill_tokens={self.max_prefill_tokens} cannot hold a prompt of max_len={self.max_len}"
            )


def model_config(name: str, layers: int = 0) -> ModelConfig:
    """The shape called `name`, cut to `layers` layers unless that is 0."""
    config = MODELS[name]
    return replace(config, layers=layers) if layers else config


def buckets(max_seqs: int) -> list[int]:
    """Batch sizes that graphs are captured for: powers of two up to `max_seqs`, and `max_seqs` itself."""
    sizes = []
    size = 1
    while size < max_seqs:
        sizes.append(size)
        size *= 2
    return [*sizes, max_seqs]
