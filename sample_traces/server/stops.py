"""SIGINT and SIGTERM, which ask for an end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

STOPS: Final = (signal.SIGINT, signal.SIGTERM)


def on_stop(act: Callable[[int], None]) -> None:
    """Call `act` on the main thread with the first of `STOPS` that comes; ignore all later ones.

    They come more than once: a terminal or `timeout` sends to all processes of a group, and a process that
    watches over ranks passes on what it got. What ends the ranks in order must not be broken off by that.
    """

    def first(number: int, _frame: FrameType | None) -> None:
        for each in STOPS:
            signal.signal(each, signal.SIG_IGN)
        act(number)

    for each in STOPS:
        signal.signal(each, first)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Within it, `STOPS` wait; processes that are started within it hold them from their beginning."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_at_once() -> None:
    """Let `STOPS` end this process without a word, also one that was held."""
    for each in STOPS:
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
