"""Programs that take turns: several processes alive at once, of which only one works at a time.

Each is started with --on-demand (see sample_traces/server/on_demand.py) and runs one round for each line
that it is given.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import random
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

GRACE_S: Final = 10.0
"""For a recorder to end its program and clear up after a failure."""
LOG_LINES: Final = 15
"""Of a program that failed, shown from the end of what it wrote."""


class MeasurementError(Exception):
    """The measurement cannot go on; the message is for the user."""


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


@dataclass(frozen=True)
class Job:
    """A program to start: process `index` of an arm. What it says on stderr goes to `log`."""

    arm: str
    index: int
    command: Sequence[str]
    log: Path


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
    def start(cls, job: Job, timeout: float) -> Program:
        """Start it; `answer` then waits until it is ready."""
        with job.log.open("w") as errors:
            try:
                process = subprocess.Popen(
                    job.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
                )
            except OSError as error:
                raise MeasurementError(f"cannot start {shlex.join(job.command)}: {error}") from None
        program = cls(job.arm, job.index, process, job.log, timeout)
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

    def round(self, names: Sequence[str], changes: Mapping[str, Any] | None = None) -> list[float]:
        """Run one round, with `changes` to the program's options: the values of the fields `names`."""
        self._say(f"{json.dumps(changes) if changes else ''}\n")
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


@contextlib.contextmanager
def alive(jobs: Sequence[Job], timeout: float, pause: float = 0.0) -> Iterator[list[Program]]:
    """Processes that are ready; they are ended after use, and killed after a failure.

    They start together, or `pause` seconds after each other.

    Raises:
        MeasurementError: one cannot be started, ends early or badly, or takes longer than `timeout` seconds.
    """
    programs: list[Program] = []
    try:
        for number, job in enumerate(jobs):
            time.sleep(pause if number else 0.0)
            programs.append(Program.start(job, timeout))
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
