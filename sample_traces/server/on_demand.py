"""Rounds on demand: a driver keeps several programs ready and lets one work at a time.

When it is ready, the program prints `{"ready": true}`. Each line on its standard input then runs one round,
which is answered by one line of JSON; the end of the input ends the program.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

READY: Final = {"ready": True}


def add(parser: argparse.ArgumentParser, *, profiler: bool = True) -> None:
    """The option --on-demand, and --profiler for programs whose GPU work is this process's own."""
    parser.add_argument(
        "--on-demand",
        action="store_true",
        help='print {"ready": true}, then run a round for each line on standard input',
    )
    if profiler:
        parser.add_argument(
            "--profiler",
            action="store_true",
            help="with --on-demand: run each round under torch.profiler, GPU activities",
        )


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End with a usage error if the options of `add` do not fit the others."""
    if getattr(args, "profiler", False) and not args.on_demand:
        parser.error("--profiler needs --on-demand")
    if args.on_demand and getattr(args, "result_filename", None):
        parser.error("--result-filename takes one round, --on-demand has many")


def put(result: Mapping[str, Any]) -> None:
    """Print one line of JSON, at once."""
    print(json.dumps(result), flush=True)


def serve(run_round: Callable[[], Mapping[str, Any]], *, profiler: bool = False) -> None:
    """Answer each line of standard input with the result of one round, until the input ends."""
    put(READY)
    for _ in sys.stdin:
        with profiled() if profiler else contextlib.nullcontext():
            result = run_round()
        put(result)


def profiled() -> AbstractContextManager[Any]:
    """torch.profiler as a user would start it to see what the GPU does."""
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415 - heavy

    started: AbstractContextManager[Any] = profile(activities=[ProfilerActivity.CUDA])
    return started
