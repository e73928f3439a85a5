"""Rounds on demand: a driver keeps several programs ready and lets one work at a time.

When it is ready, the program prints `{"ready": true}`. Each line on its standard input then runs one round,
which is answered by one line of JSON; the end of the input ends the program. A line that is a JSON object
changes options for its round, if the program knows any that can be changed: `{"host_work_us": 800}`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
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


def serve(
    run_round: Callable[..., Mapping[str, Any]], *, profiler: bool = False, changeable: Sequence[str] = ()
) -> None:
    """Answer each line of standard input with the result of one round, until the input ends.

    Args:
        run_round: takes the changed options of the round by name.
        profiler: run each round under torch.profiler.
        changeable: the options that a line may change; others end the program.
    """
    put(READY)
    for line in sys.stdin:
        changes = changes_of(line, changeable)
        with profiled() if profiler else contextlib.nullcontext():
            result = run_round(**changes)
        put(result)


def changes_of(line: str, changeable: Sequence[str]) -> dict[str, Any]:
    """The options that a line changes; none unless it is a JSON object.

    Raises:
        SystemExit: it changes what cannot be changed.
    """
    try:
        changes = json.loads(line)
    except json.JSONDecodeError:
        return {}
    if not isinstance(changes, dict):
        return {}
    fixed = [name for name in changes if name not in changeable]
    if fixed:
        sys.exit(f"a round cannot change {', '.join(fixed)}, only {', '.join(changeable) or 'nothing'}")
    return changes


def profiled() -> AbstractContextManager[Any]:
    """torch.profiler as a user would start it to see what the GPU does."""
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415 - heavy

    started: AbstractContextManager[Any] = profile(activities=[ProfilerActivity.CUDA])
    return started
