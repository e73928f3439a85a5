"""Latencies and throughput of a load, as JSON in the field names of `vllm bench serve`. No torch."""

from __future__ import annotations

import json
import random
import statistics
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

PERCENTILE: Final = 99


@dataclass
class Record:
    """One request as its client saw it. Times are seconds of one monotonic clock."""

    prompt_len: int
    start: float
    token_times: list[float] = field(default_factory=list)
    error: str = ""

    def latencies(self) -> list[float]:
        """Time between one token and the next."""
        return [
            later - earlier for earlier, later in zip(self.token_times, self.token_times[1:], strict=False)
        ]


class Step(NamedTuple):
    """One turn of the scheduler, seconds: from one step's tokens to the next, of which it waited for them."""

    duration: float
    waited: float


@dataclass(frozen=True)
class Load:
    """What a client sends: `num_prompts` requests, at most `concurrency` of them at once.

    `input_len` and `output_len` are tokens per request; `request_rate` is requests a second, inf = no pause.
    """

    num_prompts: int
    concurrency: int
    input_len: int
    output_len: int
    temperature: float = 0.0
    seed: int = 0
    request_rate: float = float("inf")

    def prompts(self, vocab: int) -> list[list[int]]:
        """Random token ids; the same seed gives the same prompts."""
        rng = random.Random(self.seed)
        return [[rng.randrange(vocab) for _ in range(self.input_len)] for _ in range(self.num_prompts)]


def header(load: Load, *, backend: str, model: str, label: str = "") -> dict[str, Any]:
    """The fields that say what was run."""
    return {
        "date": time.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": backend,
        "backend": backend,
        "label": label or None,
        "model_id": model,
        "tokenizer_id": None,
        "num_prompts": load.num_prompts,
        "request_rate": "inf" if load.request_rate == float("inf") else load.request_rate,
        "burstiness": 1.0,
        "max_concurrency": load.concurrency,
    }


def summarize(records: Sequence[Record], duration: float, about: Mapping[str, Any]) -> dict[str, Any]:
    """One JSON object: `about`, then counts, throughputs (per second) and latencies (ms).

    Failed requests are counted apart and in nothing else. TPOT is a request's time from its first to its last
    token divided by the tokens after the first; ITL pools the single intervals of all requests.
    """
    good = [r for r in records if not r.error and r.token_times]
    inputs = sum(r.prompt_len for r in good)
    outputs = sum(len(r.token_times) for r in good)
    per_second, at_once = _by_second(good)
    result = {
        **about,
        "duration": duration,
        "completed": len(good),
        "failed": len(records) - len(good),
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": _rate(len(good), duration),
        "request_goodput": None,
        "output_throughput": _rate(outputs, duration),
        "total_token_throughput": _rate(inputs + outputs, duration),
        "max_output_tokens_per_s": per_second,
        "max_concurrent_requests": at_once,
    }
    several = [r for r in good if len(r.token_times) > 1]
    result |= _spread("ttft", [r.token_times[0] - r.start for r in good])
    result |= _spread("tpot", [float(np.mean(r.latencies())) for r in several])
    result |= _spread("itl", [gap for r in several for gap in r.latencies()])
    return result


def step_times(steps: Sequence[Step]) -> dict[str, Any]:
    """The number of steps; the median of their times and of what the scheduler did not wait of them, ms."""
    median = statistics.median
    return {
        "steps": len(steps),
        "median_step_ms": median(s.duration for s in steps) * 1e3 if steps else None,
        "median_host_ms": median(s.duration - s.waited for s in steps) * 1e3 if steps else None,
    }


def checksum(answers: Sequence[Sequence[int]]) -> str:
    """Of all tokens, in the order of the requests: equal if two runs gave the same answers."""
    return f"{zlib.crc32(json.dumps([list(tokens) for tokens in answers]).encode()):08x}"


def detail(records: Sequence[Record]) -> dict[str, Any]:
    """The lists per request that `--save-detailed` adds; values in seconds."""
    return {
        "input_lens": [r.prompt_len for r in records],
        "output_lens": [len(r.token_times) for r in records],
        "ttfts": [r.token_times[0] - r.start if r.token_times else 0.0 for r in records],
        "itls": [r.latencies() for r in records],
        "start_times": [r.start for r in records],
        "errors": [r.error for r in records],
    }


def _rate(count: int, duration: float) -> float:
    return count / duration if duration > 0 else 0.0


def _spread(name: str, seconds: Sequence[float]) -> dict[str, float]:
    ms = np.asarray(seconds if len(seconds) else [0.0]) * 1e3
    return {
        f"mean_{name}_ms": float(ms.mean()),
        f"median_{name}_ms": float(np.median(ms)),
        f"std_{name}_ms": float(ms.std()),
        f"p{PERCENTILE}_{name}_ms": float(np.percentile(ms, PERCENTILE)),
    }


def _by_second(records: Sequence[Record]) -> tuple[float, int]:
    """Most tokens within one second of the run, and most requests open within one."""
    if not records:
        return 0.0, 0
    origin = min(r.start for r in records)
    tokens = np.array([t - origin for r in records for t in r.token_times]).astype(int)
    seconds = np.arange(tokens.max() + 1)[:, None]
    begins = np.array([int(r.start - origin) for r in records])
    ends = np.array([int(r.token_times[-1] - origin) for r in records])
    return float(np.bincount(tokens).max()), int(((begins <= seconds) & (seconds <= ends)).sum(1).max())
