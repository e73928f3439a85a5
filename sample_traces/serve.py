#!/usr/bin/env python3
"""A small continuous-batching LLM server on torch, with random weights: something real to record.

With --bench it runs its own load in this process, prints one JSON object (fields of `vllm bench serve`) and
ends; without, it serves an OpenAI-style /v1/completions until SIGINT or SIGTERM. With --tp N these are N
processes with a GPU each, and one that watches over them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from server import on_demand, options
from server.configs import MODELS, Settings, model_config
from server.ranks import LOST, Leader, Place, RankLostError, messages, place, watch
from server.results import checksum, detail, header, step_times, summarize
from server.stops import on_stop

if TYPE_CHECKING:
    from server.engine import Engine
    from server.parallel import Group


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
        "--tp",
        type=options.positive,
        default=1,
        metavar="N",
        help="tensor parallel over N GPUs, a process each (default 1)",
    )
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
    if args.tp > 1 and args.device not in ("cuda", "cpu"):
        parser.error("--tp takes the first N GPUs; --device must be cuda or cpu")
    return args


def settings_of(args: argparse.Namespace, device: str) -> Settings:
    """The engine's settings."""
    return Settings(
        model=model_config(args.model, args.layers),
        device=device,
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


def build_engine(args: argparse.Namespace, here: Place | None) -> Engine:
    """Load the model and capture the graphs.

    Raises:
        UnusableError: torch, the device or its memory is missing, or the options contradict each other.
    """
    if args.bench and args.input_len + args.output_len > args.max_len:
        raise UnusableError("--input-len and --output-len exceed --max-len")
    if args.profiler and not args.device.startswith("cuda"):
        raise UnusableError("--profiler looks at the GPU's work; give --device cuda")
    with building():
        from server.engine import Engine  # noqa: PLC0415 - --help and usage errors work without torch

        settings, group = join(args, here)
        leader = Leader(here.pipes) if here else None
        return Engine(settings, sampled=args.temperature > 0, group=group, leader=leader)


def follow(args: argparse.Namespace, here: Place) -> int:
    """Be one of the other ranks: run what rank 0 tells, until it ends.

    Raises:
        UnusableError: as `build_engine`.
        RankLostError: rank 0 has failed.
    """
    with building():
        from server.runner import Runner  # noqa: PLC0415 - as above

        settings, group = join(args, here)
        runner = Runner(settings, group, sampled=args.temperature > 0)
    runner.follow(messages(here.pipes[0]))
    runner.close()
    return 0


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Around what imports torch, loads the model and captures its graphs.

    Raises:
        UnusableError: torch or the GPU's memory is missing, or the settings contradict each other.
    """
    try:
        yield
    except ImportError as error:
        raise UnusableError(f"needs torch ({error}); install it with: pip install 'cctrace[torch]'") from None
    except ValueError as error:
        raise UnusableError(str(error)) from None
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's own, which may not be there to name
            raise
        raise UnusableError(f"the GPU's memory is too small: {str(error).splitlines()[0]}") from None
    # The model and the captured graphs live as long as the process: no collection needs to look at them.
    gc.collect()
    gc.freeze()


def join(args: argparse.Namespace, here: Place | None) -> tuple[Settings, Group]:
    """The settings with this rank's device, and the group it belongs to.

    Raises:
        UnusableError: there is no such device, or there are too few.
        ValueError: the model cannot be split so.
    """
    import torch  # noqa: PLC0415 - as above
    from server import parallel  # noqa: PLC0415

    if here is None:
        check_device(torch, args.device)
        return settings_of(args, args.device), parallel.ALONE
    if args.device == "cuda" and torch.cuda.device_count() < here.size:
        raise UnusableError(f"--tp {here.size}: torch sees {torch.cuda.device_count()} GPUs")
    device = f"cuda:{here.rank}" if args.device == "cuda" else args.device
    settings = settings_of(args, device)
    parallel.Group(here.rank, here.size).local(settings.model)  # refused before the ranks meet
    return settings, parallel.join(here.rank, here.size, torch.device(device), here.store)


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
    """Build the engine, then serve or run the load; with several GPUs as one of several processes."""
    args = arguments()
    here = place() if args.tp > 1 else None
    if args.tp > 1 and here is None:
        return watch(args.tp)
    try:
        if here is not None and here.rank:
            return follow(args, here)
        engine = build_engine(args, here)
        return run_bench(engine, args) if args.bench else run_http(engine, args)
    except RankLostError:  # who watches says which
        return LOST
    except UnusableError as error:
        if here is None:
            print(f"serve: {error}", file=sys.stderr)
        else:
            here.report(str(error))
        return 2


class Stopper:
    """Makes SIGINT and SIGTERM end the round at hand, and the program.

    Attributes:
        caught: the first of them that came, else 0.
        waiting: for the next round to be asked for; a signal may then break off what is done.
    """

    def __init__(self, engine: Engine) -> None:
        self.caught = 0
        self.waiting = False
        self._engine = engine
        on_stop(self._stop)

    def _stop(self, number: int) -> None:
        self.caught = number
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
    try:
        on_demand.serve(run_round, profiler=args.profiler, changeable=["host_work_us"])
    finally:
        stopper.waiting = False  # from here on a signal must not break off what ends the other ranks


def run_load(engine: Engine, args: argparse.Namespace) -> dict[str, Any]:
    """Run the load once: its results."""
    from server.bench import Bench  # noqa: PLC0415 - needs torch

    bench = Bench(engine, options.load_of(args))
    bench.run()
    about = header(
        options.load_of(args), backend="cctrace-sample", model=engine.settings.model.name, label=args.label
    )
    about |= {"execution": args.execution, "readback": args.readback, "host_work_us": engine.host_work_us}
    about |= {"tp": args.tp, "collectives_per_step": engine.runner.model.collectives}
    about |= {"tokens_checksum": checksum([request.tokens for request in bench.requests])}
    result = summarize(bench.records, bench.duration, about | step_times(bench.steps))
    return result | (detail(bench.records) if args.save_detailed else {})


if __name__ == "__main__":
    sys.exit(main())
