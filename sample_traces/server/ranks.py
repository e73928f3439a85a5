"""The processes of a server on several GPUs: one for each, and one that watches over them. No torch.

Rank 0 schedules and serves. It tells the others each step through a pipe, as engines do, so that the only
traffic between the GPUs is the model's. They never answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Final

from server.stops import STOPS, end_at_once, held

PLACE: Final = "SERVE_PLACE"
"""Environment variable that makes a process a rank."""
GRACE_S: Final = 30.0
"""For the other ranks to end when one has."""
PR_SET_PDEATHSIG: Final = 1
STOPPED: Final = tuple(128 + number for number in STOPS)
"""Exit codes of a rank 0 that was asked to stop, and did."""
LOST: Final = 3
"""Exit code of a rank that cannot go on because another one has ended, which alone tells why."""


class RankLostError(Exception):
    """Another rank has ended; the watching process says which. This one must end with `LOST`."""


@dataclass(frozen=True)
class Place:
    """What a process knows that is one rank of several.

    Attributes:
        rank: its number, from 0.
        size: how many there are.
        folder: a folder for all of them, which the watching process removes.
        pipes: file descriptors: of rank 0, where to write to each other one; of the others, where to read.
        watcher: process id of the one that watches.
    """

    rank: int
    size: int
    folder: str
    pipes: tuple[int, ...]
    watcher: int

    @property
    def store(self) -> Path:
        """The file through which the ranks meet."""
        return Path(self.folder) / "store"

    def report(self, message: str) -> None:
        """Leave the reason why this rank cannot run, for the watching process to print."""
        (Path(self.folder) / f"{self.rank}.error").write_text(message, encoding="utf-8")


def place() -> Place | None:
    """This process's place; None unless it was started as a rank. Such a process ends with its watcher.

    SIGINT and SIGTERM end rank 0 at once until it handles them (`on_stop`), which its watcher takes for the
    stop that it is. The others never see them: rank 0 says when to end.
    """
    text = os.environ.get(PLACE)
    if text is None:
        return None
    document = json.loads(text)
    found = Place(**{**document, "pipes": tuple(document["pipes"])})
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != found.watcher:  # it ended before that took effect
        sys.exit(1)
    if found.rank == 0:
        end_at_once()
    return found


class Leader:
    """Rank 0's end of the pipes; without other ranks it does nothing."""

    def __init__(self, pipes: Sequence[int] = ()) -> None:
        self._pipes = [Connection(pipe, readable=False) for pipe in pipes]

    def __bool__(self) -> bool:
        return bool(self._pipes)

    def tell(self, message: Any) -> None:
        """Send to every other rank.

        Raises:
            RankLostError: one has ended.
        """
        try:
            for pipe in self._pipes:
                pipe.send(message)
        except OSError:
            raise RankLostError from None

    def end(self) -> None:
        """Tell the others that there is nothing more."""
        with contextlib.suppress(RankLostError):
            self.tell(None)
        for pipe in self._pipes:
            pipe.close()
        self._pipes.clear()


def messages(pipe: int) -> Iterator[Any]:
    """What rank 0 tells, until there is nothing more.

    Raises:
        RankLostError: rank 0 ended without saying so.
    """
    with Connection(pipe, writable=False) as connection:
        try:
            while (message := connection.recv()) is not None:
                yield message
        except EOFError:
            raise RankLostError from None


def watch(size: int) -> int:
    """Run this program again as `size` ranks, until all have ended; the program's exit code.

    SIGINT and SIGTERM are passed on to rank 0, which ends the others. If one rank fails, all are ended.
    """
    folder = Path(tempfile.mkdtemp(prefix="serve-"))
    watcher = Watcher()
    for number in STOPS:
        signal.signal(number, watcher.pass_on)
    try:
        watcher.start(size, folder)
        return watcher.wait(folder)
    finally:
        watcher.kill()
        shutil.rmtree(folder, ignore_errors=True)


class Watcher:
    """Starts ranks and waits for them."""

    def __init__(self) -> None:
        self._ranks: list[subprocess.Popen[bytes]] = []
        self._ended: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self._passed_on: set[int] = set()

    def pass_on(self, number: int, _frame: FrameType | None) -> None:
        """Send a signal to rank 0. It may have it already, if it was sent to the whole group."""
        self._passed_on.add(number)
        for leader in self._ranks[:1]:
            leader.send_signal(number)

    @held()
    def start(self, size: int, folder: Path) -> None:
        """Start all ranks; only the first has this process's input and output."""
        pipes = [os.pipe() for _ in range(size - 1)]
        ends = [tuple(write for _, write in pipes), *((read,) for read, _ in pipes)]
        for rank, own in enumerate(ends):
            known = Place(rank, size, str(folder), own, os.getpid())
            process = subprocess.Popen(  # noqa: S603 - this very program
                [sys.executable, *sys.argv],
                env={**os.environ, PLACE: json.dumps(asdict(known))},
                pass_fds=own,
                stdin=None if rank == 0 else subprocess.DEVNULL,
                stdout=None if rank == 0 else sys.stderr,
            )
            self._ranks.append(process)
            threading.Thread(target=self._wait_for, args=(rank, process), daemon=True).start()
        for end in (end for pipe in pipes for end in pipe):
            os.close(end)

    def _wait_for(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        self._ended.put((rank, process.wait()))

    def wait(self, folder: Path) -> int:
        """Wait until all have ended, or one has failed or is late: then say so. The exit code."""
        codes: dict[int, int] = {}
        left = None  # as long as all goes well no rank ends; when one has, the others follow
        while len(codes) < len(self._ranks):
            try:
                rank, code = self._ended.get(timeout=left)
            except queue.Empty:
                late = [str(rank) for rank in range(len(self._ranks)) if rank not in codes]
                print(f"serve: rank {', '.join(late)} did not end within {GRACE_S:g} s", file=sys.stderr)
                return 1
            if rank == 0 and -code in self._passed_on:  # asked to stop before it handled that
                return 128 - code
            # A rank that lost another one may be seen first.
            if code not in (0, LOST) and not (rank == 0 and code in STOPPED):
                return explain(rank, code, folder)
            codes[rank] = code
            left = GRACE_S
        lost = [rank for rank, code in codes.items() if code == LOST]
        return explain(lost[0], LOST, folder) if lost else codes[0]

    def kill(self) -> None:
        """End those that still run."""
        for process in self._ranks:
            process.kill()  # nothing happens if it has ended
        for process in self._ranks:
            process.wait()


def explain(rank: int, code: int, folder: Path) -> int:
    """Print why a rank ended: its own reason if it left one. The program's exit code."""
    reason = folder / f"{rank}.error"
    if reason.exists():
        print(f"serve: {reason.read_text(encoding='utf-8')}", file=sys.stderr)
        return 2
    how = f"exit code {code}" if code > 0 else f"signal {-code}"
    print(f"serve: rank {rank} ended with {how}, so all were ended", file=sys.stderr)
    return code if code > 0 else 128 - code
