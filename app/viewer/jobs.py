"""Analyses that pages need: each computed once, beside the server, while pages stay quick."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Final, TypeVar

from cctrace.errors import UnusableInputError

T = TypeVar("T")

MANY_ROWS: Final = 1_000_000
"""From this many rows on an analysis runs in a process of its own: in a thread it would hold up answers, and
starting a process takes about a second, more than the analysis of fewer rows."""
VERY_MANY_ROWS: Final = 40_000_000
"""From this many rows on work that needs much memory is done one after the other, and a process that has done
some ends, so that its memory is free again."""
NICE: Final = 10
"""What processes that analyse leave to others: the browser shows its first page while they work."""
WORKERS: Final = 2
"""Analyses at a time: of a pair, one for each arm."""
MAX_RESULTS: Final = 256
"""Results kept: a few for each recording of a large folder. The oldest go first."""


class Pending(Exception):  # noqa: N818 - a state of affairs, no error
    """The result is being computed.

    Args:
        doing: what is going on, for people.
        meanwhile: parts of a page that can be shown already.
    """

    def __init__(self, doing: str, meanwhile: Sequence[Any] = ()) -> None:
        super().__init__(doing)
        self.meanwhile: Final = meanwhile


class Jobs:
    """Computes results in the background, each once.

    A job of large recordings has a process of its own, which ends with it: its memory is free again then, and
    whatever ends the process ends no other one. A pool of processes of the standard library cannot be closed
    while it works without now and then hanging at the end of the program.

    Args:
        rows: rows of all recordings, which decide where the work is done.

    Attributes:
        in_processes: whether work is done in processes of its own.
    """

    def __init__(self, rows: int) -> None:
        self.in_processes: Final = rows >= MANY_ROWS
        self._one_by_one: Final = rows >= VERY_MANY_ROWS
        self._threads: Final = ThreadPoolExecutor(1 if self._one_by_one else WORKERS)
        self._lock: Final = threading.Lock()
        self._futures: dict[Hashable, Future[Any]] = {}
        self._processes: set[SpawnProcess] = set()
        self._make_room: list[Callable[[], None]] = []
        self._closed = False

    def result(self, key: Hashable, doing: str, function: Callable[..., T], *args: Any, wait: bool) -> T:
        """The function's result for these arguments.

        Args:
            key: results with equal keys are equal.
            doing: what is going on meanwhile, for people.
            function: pure, of the top level of a module; it may run in another process.
            args: its arguments.
            wait: whether to wait for a result that is not there yet.

        Raises:
            Pending: it is not there yet.
            UnusableInputError: the function's, or the process that computed it has died.
        """
        future = self._future(key, function, args)
        if not wait and not future.done():
            raise Pending(doing)
        try:
            found: T = future.result()
        except _ProcessEnded:
            self._forget(key, future)
            raise UnusableInputError(
                f"{doing}: the process that does it was ended; too little memory?"
            ) from None
        except MemoryError:
            self._forget(key, future)
            raise UnusableInputError(f"{doing}: there is too little memory") from None
        return found

    def make_room_by(self, function: Callable[[], None]) -> None:
        """Has a function called before each job that needs much memory: it lets go what can be had again."""
        self._make_room.append(function)

    def settle(self) -> None:
        """Waits until nothing is under way, where work is done one after the other; else returns at once."""
        if self._one_by_one:
            with self._lock:
                under_way = list(self._futures.values())
            wait_for(under_way)

    def close(self) -> None:
        """Ends the work that is under way in processes, and does not begin what has not begun."""
        with self._lock:
            self._closed = True
            working = list(self._processes)
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in working:
            process.kill()

    def _future(self, key: Hashable, function: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        with self._lock:
            if key not in self._futures:
                while len(self._futures) >= MAX_RESULTS:
                    self._futures.pop(next(iter(self._futures)))
                work = self._in_process if self.in_processes else _at_once
                self._futures[key] = self._threads.submit(work, function, args)
            return self._futures[key]

    def _forget(self, key: Hashable, failed: Future[Any]) -> None:
        """Lets the next request try again."""
        with self._lock:
            if self._futures.get(key) is failed:
                del self._futures[key]

    def _in_process(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self._one_by_one:
            for make_room in self._make_room:
                make_room()
        spawn = multiprocessing.get_context("spawn")
        receiving, sending = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_work, args=(sending, function, args), daemon=True)
        with self._lock:
            if self._closed:
                raise _ProcessEnded
            process.start()
            self._processes.add(process)
        # Its end is seen by the pipe only when nobody else holds it open.
        sending.close()
        try:
            error, found = receiving.recv()
        except EOFError:
            raise _ProcessEnded from None
        finally:
            receiving.close()
            process.join()
            with self._lock:
                self._processes.discard(process)
        if error is not None:
            raise error
        return found


class _ProcessEnded(Exception):  # noqa: N818 - says what has happened
    """The process ended without a result."""


def _at_once(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return function(*args)


def _work(sending: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """What the process does: sends (error, result), one of them None."""
    _end_with_the_server()
    os.nice(NICE)
    try:
        answer: tuple[Exception | None, Any] = (None, function(*args))
    except Exception as error:  # whoever waits for the result gets it
        answer = (error, None)
    sending.send(answer)


def _end_with_the_server() -> None:
    """Ctrl-C is the server's to handle; without the server there is nothing to work for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_wait_for_the_server, daemon=True).start()


def _wait_for_the_server() -> None:
    # Not by PR_SET_PDEATHSIG: the kernel sends that when the thread ends that started this process.
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        os._exit(1)
