import json
from pathlib import Path

import pytest

from cctrace.collectors.record.results import fill_results, read_results
from cctrace.collectors.record.settings import default_output
from cctrace.errors import UnusableInputError
from cctrace.trace.acceptance import Acceptance, Model

BENCH = {
    "model_id": "Qwen3-8B", "num_prompts": 100, "completed": 98, "request_rate": 4.0, "max_concurrency": 64,
    "duration": 12.5, "median_ttft_ms": 31.5, "p99_ttft_ms": 80.0, "median_tpot_ms": 5.48,
    "output_throughput": 11137, "request_throughput": 9.0, "request_goodput": 8.5, "input_lens": [1, 2],
}  # fmt: skip


def test_fields_of_vllm_bench_serve() -> None:
    filled = fill_results(Acceptance(), BENCH)
    assert filled.results.ttft_ms == 31.5
    assert filled.results.output_throughput == 11137.0
    assert filled.results.goodput == 8.5
    assert filled.results.errors == 2
    assert filled.results.extra == {"duration": 12.5, "completed": 98, "p99_ttft_ms": 80.0}
    assert (filled.load.requests, filled.load.arrival_rate, filled.load.concurrency) == (100, 4.0, 64)
    assert filled.model.name == "Qwen3-8B"


def test_failed_is_taken_at_its_word() -> None:
    assert fill_results(Acceptance(), {**BENCH, "failed": 7}).results.errors == 7


def test_what_was_set_by_hand_stays() -> None:
    known = Acceptance(model=Model(name="mine"))
    assert fill_results(known, BENCH).model.name == "mine"


@pytest.mark.parametrize("value", [None, "fast", float("nan"), True, [1]])
def test_values_that_are_no_numbers_are_not_known(value: object) -> None:
    filled = fill_results(Acceptance(), {"median_ttft_ms": value})
    assert filled.results.ttft_ms is None
    assert filled.results.errors is None


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(BENCH),
        json.dumps(BENCH, indent=2),
        json.dumps({"old": 1}) + "\n" + json.dumps(BENCH) + "\n\n",
    ],
)
def test_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bench.json"
    path.write_text(text)
    assert read_results(path) == BENCH


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe", b"3"])
def test_files_without_results(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bench.json"
    path.write_bytes(content)
    with pytest.raises(UnusableInputError, match=r"bench\.json"):
        read_results(path)


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        (["python3", "/srv/serve one.py", "--x"], "cctrace-serve_one-"),
        (["/opt/bin/server"], "cctrace-server-"),
        (["./a b:c"], "cctrace-a_b_c-"),
        (["python3", "-m", "vllm"], "cctrace-python3-"),
    ],
)
def test_default_output(command: list[str], begins: str) -> None:
    output = default_output(command)
    assert output.parent == Path()
    assert output.name.startswith(begins)
    assert output.suffix == ".parquet"
