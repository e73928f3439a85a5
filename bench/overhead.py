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
import contextlib
import json
import os
import queue
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

BARE: Final = "bare"
RECORDED: Final = "recorded"
PROFILED: Final = "profiled"
INSIDE: Final = "inside the spread of the bare runs"
GRACE_S: Final = 10.0
"""For a recorder to end its program and clear up after a failure."""
LOG_LINES: Final = 15
"""Of a program that failed, shown from the end of what it wrote."""

Values = dict[str, list[list[float]]]
"""Arm → process → rounds."""


class MeasurementError(Exception):
    """The measurement cannot go on; the message is for the user."""


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


def positive(text: str) -> int:
    """An integer of at least 1, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def cpu_set(text: str) -> set[int]:
    """A CPU list like 0-3,8, for argparse."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    missing = cpus - os.sched_getaffinity(0)
    if missing or not cpus:
        raise argparse.ArgumentTypeError(f"{text}: not among the CPUs of this process")
    return cpus


@dataclass
class Program:
    """One running program that answers each line with the results of one round."""

    arm: str
    index: int
    process: subprocess.Popen[str]
    log: Path
    timeout: float
    lines: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)

    @classmethod
    def start(cls, arm: str, index: int, command: Sequence[str], log: Path, timeout: float) -> Program:
        """Start it; `answer` then waits until it is ready."""
        with log.open("w") as errors:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
                )
            except OSError as error:
                raise MeasurementError(f"cannot start {shlex.join(command)}: {error}") from None
        program = cls(arm, index, process, log, timeout)
        threading.Thread(target=program._read, daemon=True).start()
        return program

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def answer(self) -> Mapping[str, Any]:
        """The next JSON object on its output; lines that are none, such as logs, are passed over."""
        end = time.monotonic() + self.timeout
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise self.failure(f"no answer within {self.timeout:g} s") from None
            if line is None:
                raise self.failure("it ended")
            with contextlib.suppress(json.JSONDecodeError):
                found = json.loads(line)
                if isinstance(found, dict):
                    return found

    def round(self, names: Sequence[str]) -> list[float]:
        """Run one round: the values of the fields `names`."""
        self._say("\n")
        found = self.answer()
        missing = [name for name in names if not isinstance(found.get(name), (int, float))]
        if missing:
            raise self.failure(f"its result has no number {', '.join(missing)}, only {', '.join(found)}")
        return [float(found[name]) for name in names]

    def _say(self, text: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(text)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.failure("it ended") from None

    def ask_to_end(self) -> None:
        """End its input."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def end(self) -> None:
        """Wait for its end, which for a recorded program includes the making of its trace."""
        try:
            code = self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            raise self.failure(f"it did not end within {self.timeout:g} s") from None
        if code != 0:
            raise self.failure(f"exit code {code}")

    def failure(self, reason: str) -> MeasurementError:
        """An error with the end of what the program wrote."""
        tail = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return MeasurementError("\n".join([f"{self.arm} process {self.index}: {reason}", *tail]))


def command_of(args: argparse.Namespace, arm: str, trace: Path) -> list[str]:
    """The command line of one process of an arm."""
    command = [*args.command, "--on-demand"]
    if arm == PROFILED:
        return [*command, "--profiler"]
    if arm == RECORDED:
        return [*args.cctrace, "record", "-o", str(trace), "--force", *args.record_options, "--", *command]
    return command


def batches(processes: int, arms: int, batch: int) -> list[range]:
    """Indices of the processes of each arm that are alive together: `batch` in all, at least one of each."""
    each = max(1, batch // arms)
    return [range(first, min(first + each, processes)) for first in range(0, processes, each)]


def order(programs: Sequence[Program], rounds: int, rng: random.Random) -> Iterator[Program]:
    """Whose turn it is: all processes once a round, those of one index (one of each arm) after each other."""
    groups: dict[int, list[Program]] = {}
    for program in programs:
        groups.setdefault(program.index, []).append(program)
    for _ in range(rounds):
        for group in rng.sample(list(groups.values()), len(groups)):
            yield from rng.sample(group, len(group))


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Values]:
    """Run all batches: for each field, its values by arm, process and round."""
    arms = [BARE, RECORDED, *([PROFILED] if args.profiler else [])]
    rng = random.Random(args.seed)
    values: dict[str, Values] = {
        name: {arm: [[] for _ in range(args.processes)] for arm in arms} for name in args.fields
    }
    for indices in batches(args.processes, len(arms), args.batch):
        with alive(args, arms, indices, folder) as programs:
            for program in order(programs, args.rounds, rng):
                found = program.round(args.fields)
                for name, value in zip(args.fields, found, strict=True):
                    values[name][program.arm][program.index].append(value)
        print(f"{indices.stop} of {args.processes} processes of each arm done", file=sys.stderr)
    return values


@contextlib.contextmanager
def alive(
    args: argparse.Namespace, arms: Sequence[str], indices: range, folder: Path
) -> Iterator[list[Program]]:
    """Processes that are ready; they are ended after use, and killed after a failure."""
    programs: list[Program] = []
    try:
        for index in indices:
            for arm in arms:
                name = folder / f"{arm}-{index}"
                command = command_of(args, arm, name.with_suffix(".parquet"))
                log = name.with_suffix(".log")
                programs.append(Program.start(arm, index, command, log, args.timeout))
        for program in programs:
            program.answer()
        yield programs
        for program in programs:
            program.ask_to_end()
        for program in programs:
            program.end()
    finally:
        stop(programs)


def stop(programs: Sequence[Program]) -> None:
    """End what still runs: first so that a recorder can end its program, then by force."""
    running = [program.process for program in programs if program.process.poll() is None]
    for program in programs:
        program.ask_to_end()
    for process in running:
        process.terminate()
    for process in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        process.kill()  # nothing happens if it has ended
        process.wait()


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
