"""Command-line options that the scripts share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from server.results import Load


def positive(text: str) -> int:
    """An integer of at least 1, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def natural(text: str) -> int:
    """An integer of at least 0, for argparse."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def port(text: str) -> int:
    """A TCP port, 0 for any free one, for argparse."""
    value = int(text)
    if not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError("must lie between 0 and 65535")
    return value


def natural_float(text: str) -> float:
    """A number of at least 0, for argparse."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def positive_float(text: str) -> float:
    """A number above 0, for argparse."""
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def new_file(text: str) -> Path:
    """A path where no file is yet, for argparse."""
    path = Path(text)
    if path.exists():
        raise argparse.ArgumentTypeError(f"{path} exists")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    return path


def put_result(args: argparse.Namespace, result: Mapping[str, Any]) -> None:
    """Print a result as one line of JSON, and write it to --result-filename if that was given."""
    line = json.dumps(result)
    print(line, flush=True)
    if args.result_filename is not None:
        with args.result_filename.open("x") as file:
            file.write(line + "\n")


def add_load(parser: argparse.ArgumentParser) -> None:
    """Options of a load: how many requests, how long, how many at once."""
    group = parser.add_argument_group("load")
    group.add_argument(
        "--concurrency", type=positive, default=16, metavar="N", help="requests at once (default 16)"
    )
    group.add_argument(
        "--input-len", type=positive, default=128, metavar="N", help="tokens per prompt (default 128)"
    )
    group.add_argument(
        "--output-len", type=positive, default=128, metavar="N", help="tokens per answer (default 128)"
    )
    group.add_argument(
        "--num-prompts", type=positive, default=64, metavar="N", help="requests in all (default 64)"
    )
    group.add_argument(
        "--temperature", type=natural_float, default=0.0, metavar="T", help="0 is greedy (default)"
    )
    group.add_argument("--seed", type=int, default=0, help="of prompts and sampling (default 0)")
    group.add_argument("--label", default="", help="copied into the result")
    group.add_argument(
        "--result-filename", type=new_file, metavar="FILE", help="write the result there too; must not exist"
    )
    group.add_argument("--save-detailed", action="store_true", help="add the lists per request to the result")


def load_of(args: argparse.Namespace, **more: Any) -> Load:
    """The load that the options of `add_load` describe."""
    return Load(
        num_prompts=args.num_prompts,
        concurrency=args.concurrency,
        input_len=args.input_len,
        output_len=args.output_len,
        temperature=args.temperature,
        seed=args.seed,
        **more,
    )
