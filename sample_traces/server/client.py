"""A load client for any OpenAI-style /v1/completions that takes token-id prompts. No torch."""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any, Final

import aiohttp

from server.results import Load, Record, header, summarize

NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10)
VOCAB: Final = 10_000
"""Token ids drawn for prompts: low enough for every model that is served in earnest."""


async def run(
    url: str, load: Load, *, model: str = "", label: str = "", vocab: int = VOCAB
) -> tuple[dict[str, Any], list[Record]]:
    """Send the load to `url` (scheme, host, port); the summary and one record per request.

    Raises:
        aiohttp.ClientError: the server cannot be reached at all.
    """
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=connector, timeout=NO_TIMEOUT) as session:
        model = model or await _first_model(session)
        gate = asyncio.Semaphore(load.concurrency)
        pauses = random.Random(load.seed)
        tasks = []
        begin = time.perf_counter()
        for number, prompt in enumerate(load.prompts(vocab)):
            if number and load.request_rate != float("inf"):
                await asyncio.sleep(pauses.expovariate(load.request_rate))
            tasks.append(asyncio.create_task(_gated(gate, session, _body(model, load, number, prompt))))
        records = list(await asyncio.gather(*tasks))
        duration = time.perf_counter() - begin
    return summarize(records, duration, header(load, backend="openai", model=model, label=label)), records


async def _first_model(session: aiohttp.ClientSession) -> str:
    async with session.get("/v1/models") as response:
        response.raise_for_status()
        return str((await response.json())["data"][0]["id"])


def _body(model: str, load: Load, number: int, prompt: list[int]) -> dict[str, Any]:
    return {
        "model": model,
        "prompt": prompt,
        "max_tokens": load.output_len,
        "temperature": load.temperature,
        "seed": load.seed + number,
        "ignore_eos": True,
        "stream": True,
    }


async def _gated(gate: asyncio.Semaphore, session: aiohttp.ClientSession, body: dict[str, Any]) -> Record:
    async with gate:
        return await _one(session, body)


async def _one(session: aiohttp.ClientSession, body: dict[str, Any]) -> Record:
    record = Record(len(body["prompt"]), time.perf_counter())
    try:
        async with session.post("/v1/completions", json=body) as response:
            if response.status != 200:
                record.error = f"HTTP {response.status}: {(await response.text())[:200]}"
                return record
            async for line in response.content:
                if _has_token(line):
                    record.token_times.append(time.perf_counter())
    except (aiohttp.ClientError, OSError) as error:
        record.error = f"{type(error).__name__}: {error}"
    if not record.error and not record.token_times:
        record.error = "the answer held no token"
    return record


def _has_token(line: bytes) -> bool:
    if not line.startswith(b"data: {"):
        return False
    choices = json.loads(line[6:]).get("choices")
    return bool(choices) and bool(choices[0].get("text") or choices[0].get("token_ids"))
