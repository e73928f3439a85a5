"""The server's CUDA paths. Run them on a machine with a GPU: pytest -m gpu tests/samples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from server.batch import Batch, Span  # noqa: E402
from server.bench import Bench  # noqa: E402
from server.cache import Cache, flash_attention, math_attention  # noqa: E402
from server.configs import MODELS, Settings  # noqa: E402
from server.engine import Engine  # noqa: E402
from server.results import Load  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"

# 32-bit arithmetic and plain attention: batch sizes and padding then change no token.
EXACT = Settings(model=MODELS["tiny"], device="cuda", attention="math", max_seqs=6, max_len=64, marks="none")
LOAD = Load(num_prompts=14, concurrency=6, input_len=9, output_len=23)


def tokens(settings: Settings, load: Load = LOAD) -> list[list[int]]:
    bench = Bench(Engine(settings), load)
    bench.run()
    assert not any(record.error for record in bench.records)
    return [request.tokens for request in bench.requests]


@pytest.fixture(scope="module")
def eager() -> list[list[int]]:
    found = tokens(replace(EXACT, execution="eager", readback="sync"))
    assert len({token for row in found for token in row}) > 50
    return found


@pytest.mark.parametrize("readback", ["sync", "overlap", "worker"])
@pytest.mark.parametrize("execution", ["eager", "graph", "piecewise"])
def test_every_execution_and_readback_gives_the_same_tokens(
    eager: list[list[int]], execution: Any, readback: Any
) -> None:
    assert tokens(replace(EXACT, execution=execution, readback=readback)) == eager


@pytest.mark.parametrize("execution", ["graph", "piecewise"])
def test_sampling_under_graphs(execution: Any) -> None:
    load = replace(LOAD, temperature=5.0)
    found = tokens(replace(EXACT, execution=execution), load)
    assert found == tokens(replace(EXACT, execution="eager", readback="sync"), load)


def test_gpu_tokens_equal_those_of_the_cpu(eager: list[list[int]]) -> None:
    assert tokens(replace(EXACT, device="cpu", execution="eager", readback="sync")) == eager


def batch_of(slots: list[int], counts: list[int], lengths: list[int], slot_length: int) -> Batch:
    """Rows for `counts` queries each, their sequences `lengths` long and stored in `slots`."""

    def ints(values: list[int]) -> Any:
        return torch.tensor(values, dtype=torch.int32, device="cuda")

    starts = [slot * slot_length for slot in slots]
    ends = [sum(counts[: i + 1]) for i in range(len(counts))]
    rows = ints([0] * sum(counts))
    spans = tuple(Span(end - n, n, start) for end, n, start in zip(ends, counts, starts, strict=True))
    return Batch(
        ids=rows, positions=rows, writes=rows, cache_offsets=ints([*starts, 0]), lengths=ints(lengths),
        query_offsets=ints([0, *ends]), max_query=max(counts), spans=spans if max(counts) > 1 else (),
    )  # fmt: skip


@pytest.mark.parametrize("shape", ["0.6b", "8b"])
@pytest.mark.parametrize("counts", [[1, 1, 1], [5, 1, 130]])
def test_flash_attention_reads_the_slots_it_is_told_to(shape: str, counts: list[int]) -> None:
    slot_length = 256
    config = replace(MODELS[shape], layers=1)
    cache = Cache(config, torch.device("cuda"), 5, slot_length)
    torch.manual_seed(0)
    cache.keys.normal_()
    cache.values.normal_()
    lengths = [17, 1, 256] if max(counts) == 1 else counts
    batch = batch_of([4, 0, 2], counts, lengths, slot_length)
    query = torch.randn(sum(counts), config.heads, config.head_dim, dtype=torch.bfloat16, device="cuda")
    flash = flash_attention(cache, 0, query, batch)
    torch.testing.assert_close(flash, math_attention(cache, 0, query, batch), atol=0.02, rtol=0.02)


def run_script(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=SAMPLES, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("execution", ["eager", "graph", "piecewise"])
def test_real_shape_completes_its_load(execution: str) -> None:
    result = run_script(
        "serve.py",
        "--bench",
        "--layers",
        "4",
        "--execution",
        execution,
        "--num-prompts",
        "32",
        "--output-len",
        "32",
    )
    assert (result["completed"], result["failed"]) == (32, 0)
    assert result["total_output_tokens"] == 32 * 32


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("execution", ["eager", "graph", "piecewise"])
def test_two_gpus_give_the_tokens_of_one(execution: str) -> None:
    exact = ["serve.py", "--bench", "--model", "tiny", "--num-prompts", "20", "--output-len", "40"]
    alone = run_script(*exact, "--execution", "eager", "--readback", "sync")
    both = run_script(*exact, "--execution", execution, "--tp", "2")
    assert both["tokens_checksum"] == alone["tokens_checksum"]
    assert (both["tp"], both["completed"]) == (2, 20)


@pytest.mark.parametrize("extra", ["0", "11"])
def test_launch_bench_graph_is_faster_than_eager(extra: str) -> None:
    steps = {
        m: run_script(
            "launch_bench.py", "--mode", m, "--kernel-us", "1", "--steps", "50", "--extra-submissions", extra
        )
        for m in ("eager", "graph")
    }
    assert steps["graph"]["median_step_us"] < steps["eager"]["median_step_us"]


def test_published_eager_step_is_limited_by_the_host_and_the_graph_step_by_the_gpu() -> None:
    eager, graph = (run_script("launch_bench.py", "--mode", m, "--steps", "60") for m in ("eager", "graph"))
    assert eager["median_submit_us"] > 0.95 * eager["median_step_us"]
    assert graph["median_submit_us"] < 0.2 * graph["median_step_us"]


def test_rounds_under_the_profiler_are_answered() -> None:
    done = subprocess.run(
        [sys.executable, "../bench/decode_step.py", "--steps", "5", "--on-demand", "--profiler"],
        cwd=SAMPLES, input="\n\n", capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    ready, *rounds = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert ready == {"ready": True}
    assert len(rounds) == 2
    assert all(0 < r["graph_step_us"] < r["eager_step_us"] for r in rounds)
    assert all(r["decode_step_us"] > 0 for r in rounds)
