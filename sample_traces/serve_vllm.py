#!/usr/bin/env python3
"""Drive vLLM's engine (AsyncLLM here, EngineCore in its own process) with random weights and a fixed load.

No weights, tokenizer or network are needed: the model is a configuration in a temporary folder, prompts are
token ids, every answer has the same length. Prints one JSON line per round, in the field names of
`vllm bench serve`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from server import on_demand, options
from server.configs import ModelConfig, buckets, model_config
from server.results import Load, Record, detail, header, summarize

GRAPH_MODES: Final = {"full": "FULL_AND_PIECEWISE", "piecewise": "PIECEWISE"}
"""vLLM's default (one graph per decode step), and graphs cut at every attention layer."""
MAX_SEQUENCES: Final = 64
"""Batch that the engine is set up for. A server is rarely full: at its limit vLLM has nothing to pad and
saves a kernel per step."""
PROMPT_IDS: Final = 100_000
"""Prompts draw ids below this: inside the vocabulary, away from its special tokens at the end."""
WARM_UP_TOKENS: Final = 8
"""Tokens per request of the round before the first: one batch that is not measured."""
LINGER_S: Final = 1.5
"""EngineCore ends without exit handlers: wait longer than a recorder's flush period before it is told to."""
GPU_SHARE: Final = 0.1
"""vLLM starts only if so much of the GPU's memory is free; what it takes is --kv-gib and the weights. Its
default of 0.9 would allow one engine per GPU."""


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    engine = parser.add_argument_group("engine")
    engine.add_argument("--model-shape", choices=["0.6b", "8b"], default="0.6b", help="default 0.6b")
    engine.add_argument(
        "--layers", type=options.natural, default=0, metavar="N", help="cut to N layers (0: all)"
    )
    engine.add_argument(
        "--execution",
        choices=["full", "eager", "piecewise"],
        default="full",
        help="one graph per decode step (vLLM's default), no graphs, graphs cut at every attention layer",
    )
    engine.add_argument(
        "--async-scheduling", choices=["auto", "on", "off"], default="auto", help="default auto"
    )
    engine.add_argument(
        "--max-model-len", type=options.positive, default=2048, metavar="N", help="default 2048"
    )
    engine.add_argument(
        "--kv-gib", type=options.positive_float, default=4.0, metavar="G", help="KV cache (default 4)"
    )
    engine.add_argument(
        "--pin", default="", metavar="CLIENT:ENGINE", help="CPUs of the two processes, e.g. 8-15:0-7"
    )
    parser.add_argument(
        "--rounds", type=options.positive, default=1, metavar="N", help="measured rounds (default 1)"
    )
    options.add_load(parser)
    on_demand.add(parser, profiler=False)
    args = parser.parse_args()
    on_demand.check(parser, args)
    try:
        args.pin = parse_pin(args.pin)
    except ValueError as error:
        parser.error(f"--pin: {error}")
    if args.result_filename and args.rounds > 1:
        parser.error("--result-filename takes one round")
    if args.input_len + args.output_len > args.max_model_len:
        parser.error("--input-len and --output-len exceed --max-model-len")
    return args


def parse_pin(text: str) -> tuple[set[int], set[int]]:
    """`CLIENT:ENGINE` as two sets of CPUs, each a list like 0-3,8; empty sets for an empty text.

    Raises:
        ValueError: it is something else.
    """
    if not text:
        return set(), set()
    client, colon, engine = text.partition(":")
    if not colon:
        raise ValueError("two CPU lists with a colon between them are needed, like 8-15:0-7")
    return parse_cpus(client), parse_cpus(engine)


def parse_cpus(text: str) -> set[int]:
    """A CPU list like 0-3,8.

    Raises:
        ValueError: it is none.
    """
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    if not cpus:
        raise ValueError(f"{text!r} names no CPU")
    return cpus


def set_environment() -> None:
    """Make vLLM run without a network and alike on both sides of a pair; what is set already stays.

    The V1 model runner is chosen because the V2 runner lets kernels read pinned host memory, which gave wrong
    results under confidential computing: an on and an off run must use the same one.
    """
    defaults = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "VLLM_HOST_IP": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
    }
    if importlib.util.find_spec("flashinfer") is None:
        defaults["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def hf_config(model: ModelConfig) -> dict[str, Any]:
    """The config.json of a Qwen3 model of this shape."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": model.hidden,
        "intermediate_size": model.ffn,
        "num_hidden_layers": model.layers,
        "max_window_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "vocab_size": model.vocab,
        "tie_word_embeddings": model.tied_embedding,
        "rms_norm_eps": model.rms_eps,
        "rope_theta": int(model.rope_theta),
        "max_position_embeddings": 40960,
        "hidden_act": "silu",
        "attention_bias": False,
        "use_sliding_window": False,
        "torch_dtype": model.dtype,
        "bos_token_id": 151643,
        "eos_token_id": 151645,
    }


def engine_options(args: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Keyword arguments of vLLM's AsyncEngineArgs."""
    chosen: dict[str, Any] = {
        "model": folder,
        "skip_tokenizer_init": True,
        "load_format": "dummy",
        "dtype": "bfloat16",
        "seed": args.seed,
        "max_model_len": args.max_model_len,
        "max_num_seqs": max(args.concurrency, MAX_SEQUENCES),
        "kv_cache_memory_bytes": int(args.kv_gib * 2**30),
        "gpu_memory_utilization": GPU_SHARE,
        "disable_log_stats": True,
    }
    if args.execution == "eager":
        chosen["enforce_eager"] = True
    else:
        chosen["compilation_config"] = {
            "cudagraph_mode": GRAPH_MODES[args.execution],
            "cudagraph_capture_sizes": buckets(args.concurrency),
        }
    if args.async_scheduling != "auto":
        chosen["async_scheduling"] = args.async_scheduling == "on"
    return chosen


class Client:
    """Sends loads to an engine, one after the other."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    async def send(self, name: str, load: Load) -> tuple[list[Record], float]:
        """All requests of a load, `load.concurrency` at once: their records, and the seconds it took."""
        gate = asyncio.Semaphore(load.concurrency)
        sampling = sampling_params(load)
        begin = time.perf_counter()
        records = await asyncio.gather(
            *(
                self._request(gate, f"{name}-{number}", prompt, sampling)
                for number, prompt in enumerate(load.prompts(PROMPT_IDS))
            )
        )
        return list(records), time.perf_counter() - begin

    async def _request(
        self, gate: asyncio.Semaphore, request_id: str, prompt: list[int], sampling: Any
    ) -> Record:
        async with gate:
            record = Record(len(prompt), time.perf_counter())
            answers = self._engine.generate({"prompt_token_ids": prompt}, sampling, request_id)
            async for answer in answers:
                record.token_times += [time.perf_counter()] * len(answer.outputs[0].token_ids)
        return record


def sampling_params(load: Load) -> Any:
    """Sampling parameters for vLLM: exactly `load.output_len` tokens, handed over as they come."""
    from vllm import SamplingParams  # noqa: PLC0415 - heavy
    from vllm.sampling_params import RequestOutputKind  # noqa: PLC0415

    return SamplingParams(
        temperature=load.temperature,
        seed=load.seed if load.temperature > 0 else None,
        min_tokens=load.output_len,
        max_tokens=load.output_len,
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


def full_steps(load: Load) -> int:
    """Decode steps of a load if all run at its concurrency; the engine's own count stays in the engine."""
    return math.ceil(load.num_prompts / load.concurrency) * load.output_len


async def rounds(args: argparse.Namespace) -> AsyncIterator[int]:
    """Numbers of the rounds to run: --rounds of them, or one for each line of standard input."""
    if not args.on_demand:
        for number in range(args.rounds):
            yield number
        return
    number = 0
    wishes = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(wishes), sys.stdin
    )
    while await wishes.readline():
        yield number
        number += 1


async def drive(args: argparse.Namespace, folder: str) -> None:
    """Start the engine, run the rounds, print a line for each, stop the engine."""
    from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: PLC0415 - heavy
    from vllm.v1.engine.async_llm import AsyncLLM  # noqa: PLC0415

    client_cpus, engine_cpus = args.pin
    pin(engine_cpus)  # the engine's process inherits them
    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**engine_options(args, folder)))
    try:
        pin(client_cpus)
        load = options.load_of(args)
        client = Client(engine)
        short = replace(load, num_prompts=load.concurrency, output_len=min(WARM_UP_TOKENS, load.output_len))
        await client.send("warm-up", short)
        about = header(load, backend="vllm", model=model_config(args.model_shape, args.layers).name)
        about |= {"label": args.label or None, "execution": args.execution}
        if args.on_demand:
            on_demand.put(on_demand.READY)
        async for number in rounds(args):
            records, duration = await client.send(f"round{number}", load)
            result = summarize(records, duration, about | {"round": number, "steps": full_steps(load)})
            options.put_result(args, result | (detail(records) if args.save_detailed else {}))
        await asyncio.sleep(LINGER_S)
    finally:
        engine.shutdown()


def pin(cpus: Sequence[int] | set[int]) -> None:
    """Bind all threads of this process to `cpus`; nothing if it is empty."""
    if cpus:
        for task in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(task), cpus)


def main() -> int:
    """Write the model's configuration and drive the engine."""
    args = arguments()
    set_environment()
    if importlib.util.find_spec("vllm") is None:
        print("serve_vllm: needs vllm (written for 0.26); install it into this Python", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="cctrace-model-") as folder:
        config = hf_config(model_config(args.model_shape, args.layers))
        (Path(folder) / "config.json").write_text(json.dumps(config, indent=1))
        # A plain SIGTERM would leave the engine's process behind.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            asyncio.run(drive(args, folder))
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
