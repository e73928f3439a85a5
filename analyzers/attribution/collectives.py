"""Which kernels exchange data between GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

COLLECTIVE: Final = re.compile(
    r"nccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce|multimem|(one|two)_?shot"
    r"|nvshmem|deep_?ep|symm_?mem",
    re.IGNORECASE,
)
"""Kernels of NCCL, NVSHMEM, DeepEP, and the custom all-reduces of vLLM, SGLang, TensorRT LLM and torch's
symmetric memory, by what their names have in common."""


def is_collective(name: str) -> bool:
    """Whether a kernel's symbol is that of a collective."""
    return COLLECTIVE.search(name) is not None


def any_collective(names: Iterable[str]) -> bool:
    """Whether one of the symbols is that of a collective."""
    return any(is_collective(name) for name in names)
