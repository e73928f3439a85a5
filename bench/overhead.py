#!/usr/bin/env python3
"""What recording costs a program: the same program bare, recorded and, if asked for, under torch.profiler.

  bench/overhead.py --field median_itl_ms -- python sample_traces/serve.py --bench

The program must know --on-demand (see sample_traces/server/on_demand.py), which is added to its command.
Several processes of each arm are alive at once on the same CPUs, but only one works at a time: rounds of the
arms alternate, in random order, so that what drifts (clocks, neighbours) meets all arms alike. The process is
the unit: each counts with the median of its rounds. A difference within the spread of the bare processes is
reported as such; the spread, not the ratio, then says how small a cost could have been seen. What recorders
do while their program waits (samples of counters, once a second) is not in the difference.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turns import Job, MeasurementError, alive, batches, cpu_set, order, positive

BARE: Final = "bare"
RECORDED: Final = "recorded"
PROFILED: Final = "profiled"
INSIDE: Final = "inside the spread of the bare runs"

Values = dict[str, list[list[float]]]
"""Arm → process → rounds."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--field", action="append", required=True, dest="fields", metavar="NAME",
        help="a number of the program's results to compare; repeatable")  # fmt: skip
    add("--processes", type=positive, default=5, metavar="K", help="of each arm (default 5)")
    add("--rounds", type=positive, default=4, metavar="N", help="of each process (default 4)")
    add("--batch", type=positive, default=4, metavar="N",
        help="processes alive at once, equally many of each arm (default 4)")  # fmt: skip
    add("--profiler", action="store_true", help="a third arm, with --profiler added to the command")
    add("--record-options", type=shlex.split, default=[], metavar="'OPTIONS'",
        help="of cctrace record, such as '--gpu none'; write --record-options='…'")  # fmt: skip
    add("--cctrace", type=shlex.split, default=shlex.split(os.environ.get("CCTRACE", "cctrace")),
        metavar="COMMAND", help="default: $CCTRACE, else cctrace")  # fmt: skip
    add("--cpus", type=cpu_set, metavar="LIST", help="CPUs of all processes, like 2-9 (default: all)")
    add("--seed", type=int, default=0, help="of the order (default 0)")
    add("--timeout", type=float, default=300.0, metavar="S", help="for start, round and end (default 300)")
    add(
        "--folder", type=Path, metavar="DIR", help="for traces, deleted at the end (default: a temporary one)"
    )
    add("--output", type=Path, metavar="FILE", help="write the result there as JSON; must not exist")
    add("command", nargs="+", metavar="CMD", help="the program, after --")
    args = parser.parse_args(words)
    if args.output is not None and args.output.exists():
        parser.error(f"--output: {args.output} exists")
    return args


def job(args: argparse.Namespace, arm: str, index: int, folder: Path) -> Job:
    """Process `index` of an arm."""
    name = folder / f"{arm}-{index}"
    return Job(arm, index, command_of(args, arm, name.with_suffix(".parquet")), name.with_suffix(".log"))


def command_of(args: argparse.Namespace, arm: str, trace: Path) -> list[str]:
    """The command line of one process of an arm."""
    command = [*args.command, "--on-demand"]
    if arm == PROFILED:
        return [*command, "--profiler"]
    if arm == RECORDED:
        own = ["-o", str(trace), "--no-state-check", "--force"]  # several recorders start at once
        return [*args.cctrace, "record", *own, *args.record_options, "--", *command]
    return command


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Values]:
    """Run all batches: for each field, its values by arm, process and round."""
    arms = [BARE, RECORDED, *([PROFILED] if args.profiler else [])]
    rng = random.Random(args.seed)
    values: dict[str, Values] = {
        name: {arm: [[] for _ in range(args.processes)] for arm in arms} for name in args.fields
    }
    for indices in batches(args.processes, len(arms), args.batch):
        jobs = [job(args, arm, index, folder) for index in indices for arm in arms]
        with alive(jobs, args.timeout) as programs:
            for program in order(programs, args.rounds, rng):
                found = program.round(args.fields)
                for name, value in zip(args.fields, found, strict=True):
                    values[name][program.arm][program.index].append(value)
        print(f"{indices.stop} of {args.processes} processes of each arm done", file=sys.stderr)
    return values


def compare(values: Values) -> dict[str, Any]:
    """Medians by process and arm, and for each other arm its ratio to the bare one and a verdict in words."""
    by_process = {arm: [statistics.median(rounds) for rounds in found] for arm, found in values.items()}
    bare = by_process[BARE]
    low, high, middle = min(bare), max(bare), statistics.median(bare)
    arms: dict[str, Any] = {}
    for arm, found in by_process.items():
        median = statistics.median(found)
        arms[arm] = {"median": median, "processes": found}
        if arm != BARE:
            arms[arm] |= {"ratio": median / middle if middle else None, "verdict": verdict(median, bare)}
    return {"arms": arms, "bare_spread": [low, high]}


def verdict(median: float, bare: Sequence[float]) -> str:
    """Inside the spread of the bare processes, or the difference to their median in percent."""
    middle = statistics.median(bare)
    if min(bare) <= median <= max(bare):
        return INSIDE
    return f"{median / middle - 1:+.2%}" if middle else "no ratio to 0"


def table(fields: Mapping[str, Mapping[str, Any]]) -> str:
    """The results as text."""
    lines = [f"{'field':22}{'arm':10}{'median':>12}{'min':>12}{'max':>12}{'ratio':>9}  verdict"]
    for name, result in fields.items():
        for arm, found in result["arms"].items():
            low, high = min(found["processes"]), max(found["processes"])
            ratio = found.get("ratio")
            lines.append(
                f"{name:22}{arm:10}{found['median']:12.4g}{low:12.4g}{high:12.4g}"
                f"{'' if ratio is None else format(ratio, '.4f'):>9}  {found.get('verdict', '')}".rstrip()
            )
    return "\n".join(lines)


def main() -> int:
    """Measure, print a table, write the result."""
    args = arguments()
    if args.cpus:  # the programs inherit it
        os.sched_setaffinity(0, args.cpus)
    folder = Path(tempfile.mkdtemp(prefix="cctrace-overhead-", dir=args.folder))
    try:
        fields = {name: compare(found) for name, found in measure(args, folder).items()}
    except MeasurementError as error:
        print(f"overhead: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    about = {
        "command": args.command,
        "record_options": args.record_options,
        "processes": args.processes,
        "rounds": args.rounds,
        "batch": args.batch,
        "cpus": sorted(args.cpus or os.sched_getaffinity(0)),
        "seed": args.seed,
    }
    print(table(fields))
    if args.output is not None:
        with args.output.open("x") as file:
            json.dump({**about, "fields": fields}, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
