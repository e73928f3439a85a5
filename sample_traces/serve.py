#!/usr/bin/env python3
"""A small continuous-batching LLM server on torch, with random weights: something real to record.

With --bench it runs its own load in this process, prints one JSON object (fields of `vllm bench serve`) and
ends; without, it serves an OpenAI-style /v1/completions until SIGINT or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from server import on_demand, options
from server.configs import MODELS, Settings, model_config
from server.results import detail, header, step_times, summarize

if TYPE_CHECKING:
    from server.engine import Engine


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", action="store_true", help="run the built-in load instead of serving HTTP")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--port", type=options.port, default=8000, help="0 takes any free port (default 8000)"
    )
    how = parser.add_argument_group("how a step runs")
    how.add_argument(
        "--execution",
        choices=["eager", "graph", "piecewise"],
        default="graph",
        help="launch by launch, one CUDA graph, or graphs cut at every attention layer (default graph)",
    )
    how.add_argument(
        "--readback",
        choices=["sync", "overlap", "worker"],
        default="overlap",
        help="sampled tokens: copied and waited for at once, read one step later, or by a worker thread "
        "(default overlap)",
    )
    how.add_argument(
        "--host-work-us",
        type=options.natural,
        default=0,
        metavar="N",
        help="extra busy time of the scheduler thread per step, µs (default 0)",
    )
    how.add_argument(
        "--attention",
        choices=["auto", "flash", "math"],
        default="auto",
        help="auto: flash on a GPU, math elsewhere",
    )
    how.add_argument(
        "--marks",
        choices=["both", "hook", "nvtx", "none"],
        default="both",
        help="how steps are marked for recorders (default both)",
    )
    model = parser.add_argument_group("model")
    model.add_argument("--model", choices=sorted(MODELS), default="0.6b", help="shape (default 0.6b)")
    model.add_argument(
        "--layers", type=options.natural, default=0, metavar="N", help="cut to N layers (0: all)"
    )
    model.add_argument("--device", default="cuda", help="cuda, cuda:1, cpu (default cuda)")
    model.add_argument(
        "--max-len",
        type=options.positive,
        default=1024,
        metavar="N",
        help="prompt and answer together, tokens (default 1024)",
    )
    model.add_argument(
        "--max-seqs",
        type=options.natural,
        default=0,
        metavar="N",
        help="running requests at most (0: as --concurrency)",
    )
    options.add_load(parser)
    on_demand.add(parser)
    args = parser.parse_args()
    on_demand.check(parser, args)
    if args.on_demand and not args.bench:
        parser.error("--on-demand needs --bench")
    return args


def settings_of(args: argparse.Namespace) -> Settings:
    """The engine's settings."""
    return Settings(
        model=model_config(args.model, args.layers),
        device=args.device,
        execution=args.execution,
        readback=args.readback,
        attention=args.attention,
        max_seqs=args.max_seqs or args.concurrency,
        max_len=args.max_len,
        max_prefill_tokens=max(8192, args.max_len),
        host_work_us=args.host_work_us,
        seed=args.seed,
        marks=args.marks,
    )


class UnusableError(Exception):
    """The server cannot run as it was asked to; the message is one line for the user."""


def build_engine(args: argparse.Namespace) -> Engine:
    """Load the model and capture the graphs.

    Raises:
        UnusableError: torch, the device or its memory is missing, or the options contradict each other.
    """
    if args.bench and args.input_len + args.output_len > args.max_len:
        raise UnusableError("--input-len and --output-len exceed --max-len")
    if args.profiler and not args.device.startswith("cuda"):
        raise UnusableError("--profiler looks at the GPU's work; give --device cuda")
    try:
        import torch  # noqa: PLC0415 - --help and usage errors work without torch
        from server.engine import Engine  # noqa: PLC0415
    except ImportError as error:
        raise UnusableError(f"needs torch ({error}); install it with: pip install 'cctrace[torch]'") from None
    check_device(torch, args.device)
    try:
        engine = Engine(settings_of(args), sampled=args.temperature > 0)
    except ValueError as error:
        raise UnusableError(str(error)) from None
    except torch.OutOfMemoryError as error:
        raise UnusableError(f"the GPU's memory is too small: {str(error).splitlines()[0]}") from None
    # The model and the captured graphs live as long as the process: no collection needs to look at them.
    gc.collect()
    gc.freeze()
    return engine


def check_device(torch: Any, name: str) -> None:
    """Raise UnusableError unless torch has the device called `name`."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UnusableError(f"--device {name}: give cuda, cuda:N or cpu") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UnusableError(
            f"--device {name}: torch sees {torch.cuda.device_count()} GPUs; "
            "without one, try --device cpu --model tiny --execution eager"
        )
    if device.type not in ("cuda", "cpu"):
        raise UnusableError(f"--device {name}: give cuda, cuda:N or cpu")


def run_http(engine: Engine, args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM.

    Raises:
        UnusableError: aiohttp is missing, or the address cannot be used.
    """
    try:
        from server import http  # noqa: PLC0415 - the built-in load needs no aiohttp
    except ImportError as error:
        raise UnusableError(f"HTTP needs aiohttp ({error}); --bench does not") from None
    try:
        asyncio.run(http.serve(engine, args.host, args.port, args.temperature))
    except OSError as error:
        raise UnusableError(f"cannot listen on {args.host}:{args.port}: {error}") from None
    return 0


def main() -> int:
    """Build the engine, then serve or run the load."""
    args = arguments()
    try:
        engine = build_engine(args)
        return run_bench(engine, args) if args.bench else run_http(engine, args)
    except UnusableError as error:
        print(f"serve: {error}", file=sys.stderr)
        return 2


class Stopper:
    """Makes SIGINT and SIGTERM end the round at hand, and the program.

    Attributes:
        caught: the first of them that came, else 0.
        waiting: no round is running.
    """

    def __init__(self, engine: Engine) -> None:
        self.caught = 0
        self.waiting = False
        self._engine = engine
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self.caught = self.caught or number
        if self.waiting:
            sys.exit(self.exit_code)
        self._engine.stop()

    @property
    def exit_code(self) -> int:
        """What a shell reports of a program that such a signal ended; else 0."""
        return 128 + self.caught if self.caught else 0


def run_bench(engine: Engine, args: argparse.Namespace) -> int:
    """Run the load in this process and print its results; after a signal, of the requests that were done."""
    stopper = Stopper(engine)
    try:
        if args.on_demand:
            run_on_demand(engine, args, stopper)
        else:
            options.put_result(args, run_load(engine, args))
    finally:
        engine.close()
    return stopper.exit_code


def run_on_demand(engine: Engine, args: argparse.Namespace, stopper: Stopper) -> None:
    """Warm up, then run the load once for each line of standard input."""

    def run_round(host_work_us: int = args.host_work_us) -> dict[str, Any]:
        stopper.waiting = False
        engine.host_work_us = host_work_us
        result = run_load(engine, args)
        if stopper.caught:
            sys.exit(stopper.exit_code)
        stopper.waiting = True
        return result

    run_round()
    on_demand.serve(run_round, profiler=args.profiler, changeable=["host_work_us"])


def run_load(engine: Engine, args: argparse.Namespace) -> dict[str, Any]:
    """Run the load once: its results."""
    from server.bench import Bench  # noqa: PLC0415 - needs torch

    bench = Bench(engine, options.load_of(args))
    bench.run()
    about = header(
        options.load_of(args), backend="cctrace-sample", model=engine.settings.model.name, label=args.label
    )
    about |= {"execution": args.execution, "readback": args.readback, "host_work_us": engine.host_work_us}
    result = summarize(bench.records, bench.duration, about | step_times(bench.steps))
    return result | (detail(bench.records) if args.save_detailed else {})


if __name__ == "__main__":
    sys.exit(main())
