"""The recorder's own signals: collected while the command runs, and an orderly end afterwards."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Final, NoReturn

RELAYED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals that a user or a service manager may send to the recorder and means for the program."""
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Those that ask for an end."""
COLLECTED: Final = (*RELAYED, signal.SIGCHLD)


class Interrupted(BaseException):
    """The recorder was asked to end. Not an `Exception`, so that no handler on the way swallows it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def block_signals() -> set[int]:
    """Blocks the signals that the supervisor collects.

    Returns:
        The mask before; the command must start with it.

    Call it before anything starts threads: a thread that does not block them would receive them instead.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # Inherited from a parent that does not wait: the kernel would throw the command's exit status away.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, COLLECTED)}


def raise_pending() -> None:
    """Raises `Interrupted` if a blocked signal that asks for an end has arrived."""
    for number in ENDING:
        if number in signal.sigpending() and signal.getsignal(number) is not signal.SIG_IGN:
            raise Interrupted(number)


@contextlib.contextmanager
def stray_signals() -> Iterator[list[int]]:
    """Yields a list that gets the numbers of signals which another thread of this process has received.

    No thread of the recorder should, but one of a library may have been there before `block_signals`.
    """
    strays: list[int] = []
    before = {}
    for number in RELAYED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, lambda signum, _: strays.append(signum))
    try:
        yield strays
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def interruptible(mask: set[int]) -> Iterator[None]:
    """Within it, a signal that asks for an end raises `Interrupted`; `mask` is the mask to work under."""

    def handler(signum: int, frame: FrameType | None) -> None:
        del frame
        raise Interrupted(signum)

    before = {}
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, COLLECTED)
        for number, old in before.items():
            signal.signal(number, old)


def forbid_core_dump() -> None:
    """Lets this process end by any signal without leaving a core file."""
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def end_by_signal(signum: int) -> NoReturn:
    """Ends this process by a signal, as the recorded program ended, so that the caller sees the same."""
    sys.stdout.flush()
    sys.stderr.flush()
    forbid_core_dump()
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler to reset
        signal.signal(signum, signal.SIG_DFL)
    with contextlib.suppress(OSError, ValueError):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signum])
        os.kill(os.getpid(), signum)
    os._exit(128 + signum)
