"""Analyses that pages need: each computed once, beside the server, while pages stay quick."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final, TypeVar

from cctrace.errors import CctraceError, UnusableInputError

T = TypeVar("T")

MANY_ROWS: Final = 1_000_000
"""From this many rows on an analysis runs in a process of its own: in a thread it would hold up answers, and
starting a process takes about a second, more than the analysis of fewer rows."""
VERY_MANY_ROWS: Final = 40_000_000
"""From this many rows on work that needs much memory is done one after the other, and a process that has done
some ends, so that its memory is free again."""
WORKERS: Final = 2
"""Analyses at a time: of a pair, one for each arm."""
MAX_RESULTS: Final = 256
"""Results kept: a few for each recording of a large folder. The oldest go first."""
_PR_SET_PDEATHSIG: Final = 1


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

    Args:
        rows: rows of all recordings, which decide where the work is done.
    """

    def __init__(self, rows: int) -> None:
        self._in_processes: Final = rows >= MANY_ROWS
        self._one_by_one: Final = rows >= VERY_MANY_ROWS
        self._lock = threading.Lock()
        self._executor: Executor | None = None
        self._futures: dict[Hashable, Future[Any]] = {}

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
        except CctraceError:
            raise
        except BrokenProcessPool:
            self._forget(key)
            raise UnusableInputError(
                f"{doing}: the process that does it was ended; too little memory?"
            ) from None
        except MemoryError:
            raise UnusableInputError(f"{doing}: there is too little memory") from None
        return found

    def settle(self) -> None:
        """Waits until nothing is under way, where work is done one after the other; else returns at once."""
        if self._one_by_one:
            with self._lock:
                under_way = list(self._futures.values())
            wait_for(under_way)

    def close(self) -> None:
        """Ends the work that is under way."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def _future(self, key: Hashable, function: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        with self._lock:
            if key not in self._futures:
                while len(self._futures) >= MAX_RESULTS:
                    self._futures.pop(next(iter(self._futures)))
                self._futures[key] = self._running().submit(function, *args)
            return self._futures[key]

    def _running(self) -> Executor:
        if self._executor is None:
            self._executor = self._processes() if self._in_processes else ThreadPoolExecutor(WORKERS)
        return self._executor

    def _processes(self) -> Executor:
        spawn = multiprocessing.get_context("spawn")
        if not self._one_by_one:
            return ProcessPoolExecutor(WORKERS, spawn, _end_with_the_server)
        if sys.version_info < (3, 11):
            return ProcessPoolExecutor(1, spawn, _end_with_the_server)
        return ProcessPoolExecutor(1, spawn, _end_with_the_server, max_tasks_per_child=1)

    def _forget(self, key: Hashable) -> None:
        """Lets the next request try again, with new processes."""
        with self._lock:
            self._futures.pop(key, None)
            self._executor = None


def _end_with_the_server() -> None:
    """Ctrl-C is the server's to handle; without the server there is nothing to work for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
