"""Tells whether a signal was sent to the whole process group, or to the recorder alone.

A terminal, `timeout`, a service manager or `kill -- -PGID` signal the recorder and the recorded program
alike; `kill PID` reaches only the recorder. In the first case forwarding would deliver the signal twice,
and a second SIGINT makes many servers drop their work at once. The kernel does not say which it was. So an
idle process sits in the same
group: if the signal reached it too, the program has it already.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

_SETTLE_S: Final = 0.1
"""A signal to a group is queued to all its members within microseconds; this allows for a busy machine."""
_POLL_S: Final = 0.005
_RECENT_S: Final = 1.0
"""The sentinel's death belongs to a signal that the recorder handles at most so much later."""


class GroupSentinel:
    """One idle process in this process's group. It ends by itself when the recorder is gone.

    Attributes:
        pid: its process id; None while there is none.
    """

    def __init__(self, signals: Collection[signal.Signals]) -> None:
        self._signals = signals
        self._died: tuple[int, float] | None = None
        self.pid: int | None = None
        # The write end lives in this process only: when it is gone, `read` sees the end of its input.
        self._read_end, self._write_end = os.pipe2(os.O_CLOEXEC)
        self._start()

    def _start(self) -> None:
        actions = [
            (os.POSIX_SPAWN_DUP2, self._read_end, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        try:
            # An empty environment: nothing of the recording may reach this process.
            self.pid = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", "read _"],
                {},
                file_actions=actions,
                setsigmask=[],
                setsigdef=self._signals,
            )
        except OSError:
            self.pid = None  # then every signal counts as sent to the recorder alone

    def reaped(self, pid: int, status: int) -> bool:
        """Takes note of a child that was waited for. Returns True if it was the sentinel."""
        if pid != self.pid:
            return False
        self.pid = None
        if os.WIFSIGNALED(status):
            self._died = (os.WTERMSIG(status), time.monotonic())
        return True

    def received(self, signum: int) -> bool:
        """Returns True if the whole group got `signum`, which the recorder has just received."""
        deadline = time.monotonic() + _SETTLE_S
        while self.pid is not None and not self._dying(self.pid) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if self.pid is not None and self._dying(self.pid):
            _, status = os.waitpid(self.pid, 0)
            self.reaped(self.pid, status)
        died, self._died = self._died, None
        if self.pid is None and self._write_end >= 0:
            self._start()
        return died is not None and died[0] == signum and time.monotonic() - died[1] < _RECENT_S

    @staticmethod
    def _dying(pid: int) -> bool:
        """True if the process is a zombie or has a signal pending, which for it means the end."""
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return True
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        if fields.get("State", "").startswith(("Z", "X")):
            return True
        return any(int(fields.get(name, "0"), 16) != 0 for name in ("SigPnd", "ShdPnd"))

    def close(self) -> None:
        """Ends the sentinel."""
        if self._write_end < 0:
            return
        os.close(self._write_end)
        os.close(self._read_end)
        self._write_end = -1
        if self.pid is not None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            self.pid = None
