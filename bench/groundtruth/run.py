#!/usr/bin/env python3
"""Runs the verification suite on NVIDIA GPUs: one JSON result per scenario, which table.py reads.

  bench/groundtruth/run.py --output results --minutes 12 --cpus 0-7 --work-cpus 0-2
  bench/groundtruth/run.py --output results --gpus 2 --cpus 0-15 --work-cpus 0-5
  bench/groundtruth/table.py results

Scenarios come in the order of their weight. One that has a result, or that another run is measuring into the
same folder, is passed over: an ended run goes on where it was, and two runs with a GPU each
(CUDA_VISIBLE_DEVICES) share the work. Every step time is measured by the program itself; traces give the
injected truth.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import fnmatch
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from turns import MeasurementError, cpu_set, positive

from groundtruth import measuring
from groundtruth.scenarios import SCENARIOS, Scenario, smoke

FAILED: Final = 1
"""Exit code if a scenario failed; the others were run."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--output", type=Path, metavar="DIR", help="folder of the results")
    add("--list", action="store_true", help="print the scenarios and end")
    add("--gpus", type=int, default=1, help="scenarios for so many GPUs (default 1)")
    add("--only", default="*", metavar="PATTERN", help="scenarios by name, with * and ?")
    add("--minutes", type=float, default=float("inf"), metavar="M",
        help="start no scenario that would probably end later")  # fmt: skip
    add("--smoke", action="store_true", help="a quick look whether everything runs; its numbers mean nothing")
    add("--processes", type=positive, metavar="K", help="of each arm (default: the scenario's, 2 to 4)")
    add("--keep", type=Path, metavar="DIR", help="keep selected recordings there")
    add("--python", default=sys.executable, metavar="PATH", help="Python that has torch (default: this one)")
    add("--cctrace", type=shlex.split, default=shlex.split(os.environ.get("CCTRACE", "cctrace")),
        metavar="COMMAND", help="default: $CCTRACE, else cctrace")  # fmt: skip
    add("--gpu", default="stamps", metavar="MODE", help="of cctrace record (default stamps)")
    add("--cpus", type=cpu_set, metavar="LIST", help="CPUs of all processes, like 0-7 (default: all)")
    add("--work-cpus", type=cpu_set, metavar="LIST",
        help="CPUs that the programs measure on, once they are started (default: all)")  # fmt: skip
    add("--seed", type=int, default=0, help="of the order (default 0)")
    args = parser.parse_args(words)
    if args.output is None and not args.list:
        parser.error("--output is missing")
    if args.cpus and args.work_cpus and not args.work_cpus <= args.cpus:
        parser.error("--work-cpus are not among --cpus")
    return args


def chosen(args: argparse.Namespace) -> list[Scenario]:
    """The scenarios that the options name, in order."""
    found = [s for s in SCENARIOS if s.gpus == args.gpus and fnmatch.fnmatchcase(s.name, args.only)]
    if args.smoke:
        return [smoke(s) for s in found if s.smoke]
    return [replace(s, processes=args.processes or s.processes) for s in found]


@contextlib.contextmanager
def mine(path: Path) -> Iterator[bool]:
    """True while no other run has this result in hand, and it does not exist."""
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield not path.exists()


def run(scenarios: Sequence[Scenario], setup: measuring.Setup, folder: Path, minutes: float) -> list[str]:
    """Measure what is not measured yet, as far as the time allows: the names of those that failed."""
    end = time.monotonic() + minutes * 60
    failed = []
    for scenario in scenarios:
        path = folder / f"{scenario.name}.json"
        with mine(path) as free:
            if not free:
                continue
            if time.monotonic() + scenario.seconds > end:
                print(f"{scenario.name}: no time left", file=sys.stderr)
                continue
            try:
                result = measuring.run(scenario, setup)
            except MeasurementError as error:
                print(f"{scenario.name}: {error}", file=sys.stderr)
                failed.append(scenario.name)
                continue
            write(path, result)
            print(f"{scenario.name}: {result['seconds']:.0f} s", file=sys.stderr)
    return failed


def write(path: Path, result: object) -> None:
    """Write a result so that it is whole or absent."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(path)


def main() -> int:
    """Measure."""
    args = arguments()
    scenarios = chosen(args)
    if args.list:
        for s in scenarios:
            print(
                f"{s.name:28} {s.seconds:3} s  {s.processes} × {len(s.arms)} processes  {' '.join(s.checks)}"
            )
        return 0
    if not scenarios:
        print(f"run: no scenario for {args.gpus} GPUs is called {args.only}", file=sys.stderr)
        return 2
    if args.cpus:  # the programs inherit it
        os.sched_setaffinity(0, args.cpus)
    args.output.mkdir(parents=True, exist_ok=True)
    setup = measuring.Setup(
        python=args.python,
        cctrace=tuple(args.cctrace),
        gpu=args.gpu,
        work_cpus=frozenset(args.work_cpus) if args.work_cpus else None,
        keep=args.keep,
        seed=args.seed,
    )
    failed = run(scenarios, setup, args.output, args.minutes)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
