"""OpenAI-style HTTP in front of an engine: /v1/completions (streaming or not), /v1/models, /health."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from aiohttp import web

from server.engine import Engine, Output
from server.scheduler import Request
from server.stops import on_stop

MAX_BODY_BYTES: Final = 8 << 20
"""Room for a prompt of some hundred thousand token ids."""
DEFAULT_MAX_TOKENS: Final = 16
"""What the OpenAI API documents for /v1/completions."""
_END: Final = None


class BadRequestError(ValueError):
    """The body cannot be served; the message says why."""


class Service:
    """Routes and the bridge between the event loop and the scheduler thread."""

    def __init__(self, engine: Engine, default_temperature: float = 0.0) -> None:
        self._engine = engine
        self._temperature = default_temperature
        self._streams: dict[Request, asyncio.Queue[int | None]] = {}
        self._numbers = itertools.count()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._schedule, name="scheduler")
        self._failure: BaseException | None = None
        self._down = asyncio.Event()

    def application(self) -> web.Application:
        """The aiohttp application; starting it starts the scheduler thread, its cleanup ends it."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._completions),
            ]
        )
        app.cleanup_ctx.append(self._lifetime)
        return app

    async def wait_down(self) -> None:
        """Return when the service was asked to end or its scheduler thread failed; raise that failure."""
        await self._down.wait()
        if self._failure is not None:
            raise self._failure

    def ask_down(self) -> None:
        """Ask `wait_down` to return; for signal handlers."""
        self._call(self._down.set)

    async def _lifetime(self, _app: web.Application) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        yield
        self._engine.stop()
        await asyncio.to_thread(self._thread.join)

    def _schedule(self) -> None:
        try:
            self._engine.run(self._on_outputs)
        except Exception as error:  # raised again in the main thread
            self._failure = error
        finally:
            self._engine.close()
        self._call(self._end_all)

    def _call(self, function: Any, *values: Any) -> None:
        # The loop may be closed already when the process ends.
        with contextlib.suppress(RuntimeError):
            assert self._loop is not None  # noqa: S101 - set before the thread starts
            self._loop.call_soon_threadsafe(function, *values)

    def _on_outputs(self, outputs: Sequence[Output]) -> None:
        self._call(
            self._deliver, [(o.request, o.token, o.request.finish_reason is not None) for o in outputs]
        )

    def _deliver(self, outputs: Sequence[tuple[Request, int, bool]]) -> None:
        for request, token, last in outputs:
            stream = self._streams.get(request)
            if stream is not None:
                stream.put_nowait(token)
                if last:
                    stream.put_nowait(_END)

    def _end_all(self) -> None:
        for stream in self._streams.values():
            stream.put_nowait(_END)
        self._down.set()

    async def _health(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {"status": "failed" if self._failure else "ok"}, status=503 if self._failure else 200
        )

    async def _models(self, _request: web.Request) -> web.Response:
        settings = self._engine.settings
        model = {
            "id": settings.model.name,
            "object": "model",
            "owned_by": "cctrace",
            "max_model_len": settings.max_len,
        }
        return web.json_response({"object": "list", "data": [model]})

    async def _completions(self, http: web.Request) -> web.StreamResponse:
        try:
            body = await http.json()
            request, options = self._parse(body)
            self._engine.check(request)
        except (ValueError, TypeError) as error:
            return web.json_response(
                {"error": {"message": str(error), "type": "invalid_request_error"}}, status=400
            )
        about = {
            "id": f"cmpl-{next(self._numbers)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": self._engine.settings.model.name,
        }
        self._streams[request] = asyncio.Queue()
        try:
            self._engine.submit(request)
            if options["stream"]:
                return await self._stream(http, request, about, options["include_usage"])
            return await self._whole(request, about)
        finally:
            if request.finish_reason is None:
                self._engine.cancel(request)
            del self._streams[request]

    async def _tokens(self, request: Request) -> AsyncIterator[int]:
        while (token := await self._streams[request].get()) is not None:
            yield token

    async def _whole(self, request: Request, about: dict[str, Any]) -> web.Response:
        tokens = [token async for token in self._tokens(request)]
        choice = _choice(tokens, request.finish_reason or "abort")
        return web.json_response({**about, "choices": [choice], "usage": _usage(request, len(tokens))})

    async def _stream(
        self, http: web.Request, request: Request, about: dict[str, Any], include_usage: bool
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        )
        await response.prepare(http)
        count = 0
        # A client that hangs up ends the stream; the caller then frees the request's slot.
        with contextlib.suppress(ConnectionResetError):
            async for token in self._tokens(request):
                count += 1
                last = count == len(request.tokens) and request.finish_reason is not None
                choice = _choice([token], request.finish_reason if last else None)
                await _event(response, {**about, "choices": [choice]})
            if include_usage:
                await _event(response, {**about, "choices": [], "usage": _usage(request, count)})
            await response.write(b"data: [DONE]\n\n")
        return response

    def _parse(self, body: Any) -> tuple[Request, dict[str, bool]]:
        if not isinstance(body, dict):
            raise BadRequestError("the body must be a JSON object")
        temperature = body.get("temperature")
        stream_options = body.get("stream_options") or {}
        if not isinstance(stream_options, dict):
            raise BadRequestError("stream_options must be an object")
        request = Request(
            prompt=token_ids(body.get("prompt"), self._engine.settings.model.vocab),
            max_tokens=_integer(body, "max_tokens", DEFAULT_MAX_TOKENS),
            temperature=self._temperature if temperature is None else _number(temperature, "temperature"),
            seed=_integer(body, "seed", next(self._numbers)),
            stop=frozenset(_id_list(body.get("stop_token_ids") or [], "stop_token_ids")),
        )
        return request, {
            "stream": body.get("stream") is True,
            "include_usage": bool(stream_options.get("include_usage")),
        }


def token_ids(prompt: Any, vocab: int) -> list[int]:
    """A prompt as token ids: a list as it is, a string byte by byte (there is no tokenizer).

    Raises:
        BadRequestError: it is neither, or several prompts at once.
    """
    if isinstance(prompt, str):
        return [byte % vocab for byte in prompt.encode()]
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        return token_ids(prompt[0], vocab)
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], (str, list)):
        raise BadRequestError("one prompt per request")
    return _id_list(prompt, "prompt")


def _id_list(value: Any, name: str) -> list[int]:
    if not isinstance(value, list) or any(type(item) is not int for item in value):
        raise BadRequestError(f"{name} must be a list of token ids")
    return value


def _integer(body: dict[str, Any], name: str, default: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int:
        raise BadRequestError(f"{name} must be an integer")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
        raise BadRequestError(f"{name} must be a number from 0 to 100")
    return float(value)


def _choice(tokens: Sequence[int], finish_reason: str | None) -> dict[str, Any]:
    text = "".join(f" {token}" for token in tokens)
    return {
        "index": 0,
        "text": text,
        "token_ids": list(tokens),
        "logprobs": None,
        "finish_reason": finish_reason,
    }


def _usage(request: Request, completion: int) -> dict[str, int]:
    prompt = len(request.prompt)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


async def _event(response: web.StreamResponse, payload: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n")


async def serve(engine: Engine, host: str, port: int, default_temperature: float = 0.0) -> None:
    """Serve until SIGINT or SIGTERM, then end the scheduler thread and return.

    Raises:
        OSError: the address cannot be used.
    """
    service = Service(engine, default_temperature)
    runner = web.AppRunner(service.application(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        on_stop(lambda _number: service.ask_down())
        address = runner.addresses[0]
        print(f"listening on http://{address[0]}:{address[1]}", flush=True)
        await service.wait_down()
    finally:
        await runner.cleanup()
