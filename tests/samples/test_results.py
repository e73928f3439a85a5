from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("numpy")

from server.results import Load, Record, detail, header, summarize

# What `vllm bench serve` 0.26 writes with its default percentile metrics.
LATENCIES = {
    f"{stat}_{name}_ms" for name in ("ttft", "tpot", "itl") for stat in ("mean", "median", "std", "p99")
}
VLLM_FIELDS = LATENCIES | {
    "date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate",
    "burstiness", "max_concurrency", "duration", "completed", "failed", "total_input_tokens",
    "total_output_tokens", "request_throughput", "request_goodput", "output_throughput",
    "total_token_throughput", "max_output_tokens_per_s", "max_concurrent_requests",
}  # fmt: skip


def summary(records: list[Record], duration: float = 2.0) -> dict[str, Any]:
    load = Load(num_prompts=len(records), concurrency=2, input_len=10, output_len=3)
    return summarize(records, duration, header(load, backend="test", model="m", label="x"))


def test_fields_are_those_of_vllm_bench_serve() -> None:
    result = summary([Record(10, 0.0, [0.1, 0.2])])
    assert set(result) == VLLM_FIELDS
    assert json.loads(json.dumps(result)) == result
    assert result["request_rate"] == "inf"


def test_latencies_and_throughputs() -> None:
    first = Record(10, 0.0, [0.10, 0.12, 0.16])  # TTFT 100, TPOT 30, ITL 20 and 40
    second = Record(30, 1.0, [1.30, 1.40])  # TTFT 300, TPOT 100, ITL 100
    result = summary([first, second])
    assert result["mean_ttft_ms"] == pytest.approx(200)
    assert result["std_ttft_ms"] == pytest.approx(100)
    assert result["median_tpot_ms"] == pytest.approx(65)
    assert result["mean_itl_ms"] == pytest.approx(160 / 3)
    assert result["median_itl_ms"] == pytest.approx(40)
    assert result["p99_itl_ms"] == pytest.approx(40 + 0.98 * 60)
    assert result["total_input_tokens"] == 40
    assert result["total_output_tokens"] == 5
    assert result["output_throughput"] == pytest.approx(2.5)
    assert result["total_token_throughput"] == pytest.approx(22.5)
    assert result["request_throughput"] == pytest.approx(1.0)
    assert result["max_output_tokens_per_s"] == 3
    assert result["max_concurrent_requests"] == 1


def test_failed_requests_are_counted_and_left_out() -> None:
    broken = Record(10, 0.0, [5.0], error="HTTP 503")
    result = summary([Record(10, 0.0, [0.1, 0.2]), broken, Record(10, 0.0)])
    assert (result["completed"], result["failed"]) == (1, 2)
    assert result["mean_ttft_ms"] == pytest.approx(100)
    assert result["total_output_tokens"] == 2


def test_nothing_completed_is_zero_not_an_error() -> None:
    result = summary([Record(10, 0.0, error="refused")], duration=0.0)
    assert (result["completed"], result["failed"]) == (0, 1)
    assert result["output_throughput"] == 0
    assert result["mean_tpot_ms"] == 0
    assert result["max_output_tokens_per_s"] == 0


def test_request_with_one_token_has_no_time_per_output_token() -> None:
    result = summary([Record(10, 0.0, [0.1]), Record(10, 0.0, [0.1, 0.3])])
    assert result["mean_tpot_ms"] == pytest.approx(200)


def test_details_are_in_seconds_per_request() -> None:
    lists = detail([Record(4, 1.0, [1.5, 2.0]), Record(6, 1.0, error="gone")])
    assert lists["ttfts"] == [0.5, 0.0]
    assert lists["itls"] == [[0.5], []]
    assert lists["output_lens"] == [2, 0]
    assert lists["errors"] == ["", "gone"]


def test_prompts_repeat_with_the_seed() -> None:
    load = Load(num_prompts=3, concurrency=1, input_len=5, output_len=1, seed=7)
    assert load.prompts(50) == load.prompts(50)
    assert load.prompts(50) != Load(3, 1, 5, 1, seed=8).prompts(50)
    assert all(0 <= token < 50 for prompt in load.prompts(50) for token in prompt)
