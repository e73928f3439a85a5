"""Runs the command in the foreground, relays signals, and waits for it and for what it leaves behind."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cctrace.collectors.environment.isolated import NvmlHelper
from cctrace.collectors.record.folder import recorded_pids
from cctrace.collectors.record.processes import become_subreaper, descendants, mapped
from cctrace.collectors.record.sentinel import GroupSentinel
from cctrace.collectors.record.signals import COLLECTED, RELAYED, stray_signals
from cctrace.errors import CctraceError

TICK_S: Final = 0.5
"""How often limits are looked at while the command runs."""

GRACE_S: Final = 10.0
"""How long recorded processes may outlive the command. Engine processes of a server end within a few seconds
of its front end; one that runs longer was left behind on purpose, and the trace must not wait for it."""
_GRACE_POLL_S: Final = 0.05
_GRACE_SILENT_S: Final = 1.0
"""Waiting longer than this is said: the user should not wonder what is going on."""

_DUPLICATE_S: Final = 0.02
"""A signal that comes twice within this time was sent once: nobody presses a key that fast."""

# What a shell returns for a command that it cannot find, or cannot execute.
_EXIT_NOT_FOUND: Final = 127
_EXIT_NOT_EXECUTABLE: Final = 126


class CommandNotStartedError(CctraceError):
    """The command could not be started; the exit code is the one of a shell."""

    def __init__(self, command: str, error: OSError) -> None:
        missing = isinstance(error, FileNotFoundError)
        super().__init__(f"{command}: {'command not found' if missing else error.strerror}")
        self.exit_code = _EXIT_NOT_FOUND if missing else _EXIT_NOT_EXECUTABLE


@dataclass(frozen=True)
class Ending:
    """How the command ended.

    Attributes:
        exit_code: None if a signal ended it.
        exit_signal: None if it exited.
        still_running: recorded processes that outlived it by more than the grace.
    """

    exit_code: int | None
    exit_signal: int | None
    still_running: tuple[int, ...]


def start_command(command: Sequence[str], variables: Mapping[str, str], mask: set[int]) -> int:
    """Starts the command in this process group and on this terminal. Returns its process id.

    Args:
        command: the program and its arguments; the program is looked for as a shell does.
        variables: its whole environment.
        mask: its signal mask.

    Raises:
        CommandNotStartedError: there is no such program, or it cannot be executed.
    """
    # Python ignores these two; a program expects them as the system has them.
    defaults = [signal.SIGPIPE, signal.SIGXFSZ]
    try:
        return os.posix_spawnp(command[0], list(command), variables, setsigmask=mask, setsigdef=defaults)
    except OSError as error:
        script = shutil.which(command[0])
        if error.errno == errno.ENOEXEC and script:  # a script without #!: a shell runs it itself
            with contextlib.suppress(OSError):
                return os.posix_spawn(
                    "/bin/sh", ["sh", script, *command[1:]], variables, setsigmask=mask, setsigdef=defaults
                )
        raise CommandNotStartedError(command[0], error) from error


class Supervisor:
    """Waits for one command. Signals must be blocked (`block_signals`) before it is made.

    Args:
        folder: spool folder; tells which processes are recorded.
        library: the collector, by which a process is known that will be recorded.
        helper: a child of this process that does not belong to the command.
        on_tick: called about every `TICK_S` seconds.
        say: prints one line for the user.
    """

    def __init__(
        self,
        folder: Path,
        library: Path,
        helper: NvmlHelper,
        on_tick: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._library = library
        self._helper = helper
        self._on_tick = on_tick
        self._say = say
        self._command: int = 0
        self._status: int | None = None
        self._strays: list[int] = []
        become_subreaper()

    def start(self, command: Sequence[str], variables: Mapping[str, str], mask: set[int]) -> int:
        """Starts the command; see `start_command`. Returns its process id."""
        self._sentinel = GroupSentinel(RELAYED)
        try:
            self._command = start_command(command, variables, mask)
        except BaseException:
            self._sentinel.close()
            raise
        if signal.sigpending() & set(RELAYED):  # sent before there was a command that could get it
            self._sentinel.forget()
        return self._command

    def wait(self) -> Ending:
        """Waits for the command and, for a while, for recorded processes that outlive it."""
        with stray_signals() as self._strays:
            try:
                while self._status is None:
                    self._handle_signals(TICK_S)
                    self._on_tick()
                remaining = self._await_tree()
            finally:
                self._sentinel.close()
        code = os.waitstatus_to_exitcode(self._status)
        return Ending(
            exit_code=code if code >= 0 else None,
            exit_signal=-code if code < 0 else None,
            still_running=tuple(sorted(remaining)),
        )

    def _handle_signals(self, timeout_s: float) -> None:
        """Waits for one signal, at most `timeout_s`; deals with it and with every child that has ended."""
        received = signal.sigtimedwait(COLLECTED, timeout_s)
        if received is None and not self._strays:
            self._sentinel.tend()
        elif received is not None and received.si_signo != signal.SIGCHLD:
            self._relay(received.si_signo, received.si_pid)
        while self._strays:
            self._relay(self._strays.pop(0), sender=0)
        self._reap()

    def _relay(self, signum: int, sender: int) -> None:
        """Forwards a signal unless the program has it already, or sent it."""
        if self._sentinel.received(signum):
            # `timeout` signals first its child and then the group: that is still one signal.
            signal.sigtimedwait([signum], _DUPLICATE_S)
            return
        if sender in descendants(os.getpid()):
            return
        targets = [self._command] if self._status is None else self._recorded()
        for pid in targets:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signum)

    def _reap(self) -> None:
        """Collects every child that has ended: the command, our own two, and adopted orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._command and self._status is None:
                self._status = status
            elif not self._sentinel.reaped(pid):
                self._helper.reaped(pid, status)

    def _recorded(self) -> set[int]:
        """Returns the living processes of the tree that are recorded, or could still come to be."""
        living = descendants(os.getpid()) - {self._sentinel.pid, self._helper.pid}
        written = recorded_pids(self._folder)
        # Nothing was recorded yet: the command may have left a server in the background that is still
        # starting.
        return living & written if written else mapped(self._library, living)

    def _await_tree(self) -> set[int]:
        """Gives recorded processes their grace. Returns those that still run."""
        begin = time.monotonic()
        said = False
        while (remaining := self._recorded()) and time.monotonic() < begin + GRACE_S:
            self._handle_signals(_GRACE_POLL_S)
            if not said and time.monotonic() > begin + _GRACE_SILENT_S:
                said = True
                self._say(
                    f"the command has ended; waiting up to {GRACE_S:.0f} s for {len(remaining)} recorded "
                    "process(es) that still run"
                )
        return remaining
