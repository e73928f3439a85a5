from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
aiohttp = pytest.importorskip("aiohttp")

import server as package  # noqa: E402
from aiohttp.test_utils import TestClient, TestServer  # noqa: E402
from server import client  # noqa: E402
from server.configs import MODELS, Settings  # noqa: E402
from server.engine import Engine  # noqa: E402
from server.http import Service  # noqa: E402
from server.results import Load  # noqa: E402

SAMPLES = Path(package.__file__).resolve().parents[1]
SETTINGS = Settings(
    model=MODELS["tiny"], device="cpu", execution="eager", readback="overlap", max_seqs=2, max_len=48,
    max_prefill_tokens=64, marks="none",
)  # fmt: skip


def with_server(test: Callable[[TestClient[Any, Any]], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with TestClient(TestServer(Service(Engine(SETTINGS)).application())) as session:
            await asyncio.wait_for(test(session), 60)

    asyncio.run(run())


async def events(response: Any) -> list[Any]:
    lines = [line async for line in response.content if line.strip()]
    assert all(line.startswith(b"data: ") for line in lines)
    assert lines[-1].strip() == b"data: [DONE]"
    return [json.loads(line[6:]) for line in lines[:-1]]


def test_streamed_tokens_equal_the_whole_answer() -> None:
    async def test(session: TestClient[Any, Any]) -> None:
        body = {"prompt": [5, 6, 7], "max_tokens": 6}
        whole = await (await session.post("/v1/completions", json=body)).json()
        response = await session.post(
            "/v1/completions", json={**body, "stream": True, "stream_options": {"include_usage": True}}
        )
        assert response.content_type == "text/event-stream"
        chunks = await events(response)
        tokens = [token for chunk in chunks for choice in chunk["choices"] for token in choice["token_ids"]]
        reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
        assert tokens == whole["choices"][0]["token_ids"]
        assert len(tokens) == 6
        assert reasons == [None] * 5 + ["length"]
        assert chunks[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9}
        assert whole["usage"] == chunks[-1]["usage"]
        assert whole["choices"][0]["text"] == "".join(f" {t}" for t in tokens)

    with_server(test)


def test_strings_become_ids_and_seeds_repeat_an_answer() -> None:
    async def test(session: TestClient[Any, Any]) -> None:
        async def ask(**body: Any) -> list[int]:
            answer = await (await session.post("/v1/completions", json=body)).json()
            return answer["choices"][0]["token_ids"]  # type: ignore[no-any-return]

        assert await ask(prompt="hé") == await ask(prompt=list("hé".encode()))
        hot = {"prompt": "x", "temperature": 5, "max_tokens": 12}
        assert await ask(**hot, seed=3) == await ask(**hot, seed=3)
        assert await ask(**hot, seed=3) != await ask(**hot, seed=4)

    with_server(test)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "prompt must be a list"),
        ({"prompt": []}, "empty"),
        ({"prompt": [1, "a"]}, "list of token ids"),
        ({"prompt": [[1], [2]]}, "one prompt per request"),
        ({"prompt": [9999]}, "between 0 and 511"),
        ({"prompt": [1], "max_tokens": 0}, "at least 1"),
        ({"prompt": [1], "max_tokens": 100}, "exceed 48"),
        ({"prompt": [1], "max_tokens": 1.5}, "must be an integer"),
        ({"prompt": [1], "temperature": -1}, "temperature"),
        ({"prompt": [1], "stop_token_ids": 3}, "stop_token_ids"),
        ([1], "JSON object"),
    ],
)
def test_bad_bodies_are_refused_with_a_reason(body: Any, message: str) -> None:
    async def test(session: TestClient[Any, Any]) -> None:
        response = await session.post("/v1/completions", json=body)
        assert response.status == 400
        assert message in (await response.json())["error"]["message"]

    with_server(test)


def test_body_that_is_not_json_is_refused() -> None:
    async def test(session: TestClient[Any, Any]) -> None:
        response = await session.post("/v1/completions", data=b"{")
        assert response.status == 400

    with_server(test)


def test_health_and_models() -> None:
    async def test(session: TestClient[Any, Any]) -> None:
        assert (await session.get("/health")).status == 200
        models = await (await session.get("/v1/models")).json()
        assert models["data"][0]["id"] == "tiny"
        assert models["data"][0]["max_model_len"] == 48

    with_server(test)


def test_client_that_hangs_up_does_not_block_the_others() -> None:
    async def test(session: TestClient[Any, Any]) -> None:
        body = {"prompt": [1], "max_tokens": 40, "stream": True}
        for _ in range(4):
            response = await session.post("/v1/completions", json=body)
            await response.content.readline()
            response.close()
        answer = await (await session.post("/v1/completions", json={"prompt": [2], "max_tokens": 3})).json()
        assert len(answer["choices"][0]["token_ids"]) == 3

    with_server(test)


def test_load_client_completes_a_load() -> None:
    async def run() -> None:
        async with TestServer(Service(Engine(SETTINGS)).application()) as server:
            load = Load(num_prompts=5, concurrency=3, input_len=4, output_len=6)
            summary, records = await client.run(str(server.make_url("/")), load, vocab=512)
        assert (summary["completed"], summary["failed"]) == (5, 0)
        assert summary["total_output_tokens"] == 30
        assert summary["model_id"] == "tiny"
        assert summary["max_concurrency"] == 3
        assert all(record.token_times[0] >= record.start for record in records)

    asyncio.run(run())


def test_load_client_counts_refused_requests_as_failed() -> None:
    async def run() -> None:
        async with TestServer(Service(Engine(SETTINGS)).application()) as server:
            load = Load(num_prompts=2, concurrency=2, input_len=4, output_len=100)
            summary, records = await client.run(str(server.make_url("/")), load, vocab=512)
        assert (summary["completed"], summary["failed"]) == (0, 2)
        assert "exceed 48" in records[0].error

    asyncio.run(run())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_server_process_serves_and_ends_cleanly_on_a_signal(number: signal.Signals) -> None:
    command = [sys.executable, str(SAMPLES / "serve.py"), "--device", "cpu", "--model", "tiny", "--execution",
               "eager", "--port", "0", "--max-seqs", "2"]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        sent = subprocess.run(
            [sys.executable, str(SAMPLES / "client.py"), url, "--num-prompts", "3", "--concurrency", "2",
             "--input-len", "3", "--output-len", "4", "--vocab", "512"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        server.send_signal(number)
        assert server.wait(30) == 0
    assert sent.returncode == 0, sent.stderr
    assert json.loads(sent.stdout)["total_output_tokens"] == 12
