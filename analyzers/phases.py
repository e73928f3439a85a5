"""Whether a step's label says prefill, decode or both."""

from __future__ import annotations

import re
from typing import Final

PHASES: Final = ("decode", "prefill", "mixed", "other", "unknown")

# vLLM: execute_context_2(300)_generation_16(16); requests before the bracket, tokens in it.
_VLLM: Final = re.compile(r"execute_context_(\d+)\(\d+\)_generation_(\d+)")
# TensorRT LLM: _forward_step 12: 1 ctx reqs, 100 ctx tokens, 4 gen reqs
_TENSORRT: Final = re.compile(r"(\d+) ctx reqs(?:, \d+ ctx tokens)?, (\d+) gen reqs")
_WORDS: Final = (
    ("mixed", re.compile(r"\bmixed\b", re.IGNORECASE)),
    ("decode", re.compile(r"\bdecode\b|\bgeneration\b", re.IGNORECASE)),
    # SGLang calls prefill EXTEND.
    ("prefill", re.compile(r"\bprefill\b|\bextend\b|\bcontext\b", re.IGNORECASE)),
)


def phase_of(label: str) -> str:
    """The phase that a step's label names, a word of PHASES; "unknown" if it names none."""
    for pattern in (_VLLM, _TENSORRT):
        counts = pattern.search(label)
        if counts:
            context, generation = int(counts.group(1)), int(counts.group(2))
            if context:
                return "mixed" if generation else "prefill"
            return "decode" if generation else "other"
    for phase, word in _WORDS:
        if word.search(label):
            return phase
    return "unknown"
