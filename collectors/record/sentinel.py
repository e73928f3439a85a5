"""Tells whether a signal was sent to the whole process group, or to the recorder alone.

A terminal, `timeout`, a service manager or `kill -- -PGID` signal the recorder and the recorded program
alike; `kill PID` reaches only the recorder. In the first case forwarding would deliver the signal twice,
and a second SIGINT makes many servers drop their work at once. The kernel does not say which it was. So an
idle process that blocks these signals sits in the same group: if the signal is pending there too, the program
has it already. It need not get any processor time for that, however busy the machine is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

_SETTLE_POLLS: Final = 20
"""How often a signal is looked for before it counts as sent to the recorder alone. A group's members get one
within microseconds of each other, but `timeout` signals its child first. Counted, not timed: a machine that
stops the recorder for a while has mostly stopped who sends the signal, too."""
_POLL_S: Final = 0.005


class GroupSentinel:
    """One idle process in this process's group. It ends by itself when the recorder is gone.

    Args:
        signals: those to tell about. This process must block them.

    Attributes:
        pid: its process id; None while there is none, and every signal counts as sent to the recorder alone.
    """

    def __init__(self, signals: Collection[signal.Signals]) -> None:
        self._signals = frozenset(signals)
        self._noted: frozenset[int] = frozenset()
        # The write end lives in this process only: when it is gone, `cat` sees the end of its input.
        self._read_end, self._write_end = os.pipe2(os.O_CLOEXEC)
        self.pid = self._start()

    def _start(self) -> int | None:
        actions = [
            (os.POSIX_SPAWN_DUP2, self._read_end, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        try:
            # An empty environment: nothing of the recording may reach this process. Not a shell: some
            # unblock or catch signals.
            return os.posix_spawnp("cat", ["cat"], {}, file_actions=actions, setsigmask=self._signals)
        except OSError:
            return None

    def received(self, signum: int) -> bool:
        """Returns True if the whole group got `signum`, which this process has just received."""
        for _ in range(_SETTLE_POLLS):
            if signum in self._seen():
                break
            time.sleep(_POLL_S)
        else:
            return False
        # Pending signals stay, and are not counted: only a new process shows whether it comes once more.
        self._noted = self._renew() - {signum}
        return True

    def forget(self) -> None:
        """Lets no signal until now count as sent to the group."""
        self._renew()
        self._noted = frozenset()

    def tend(self) -> None:
        """Makes it ready for the next signal. Call it when this process has waited for one in vain."""
        if self.pid is None:
            self.pid = self._start()
        elif self._seen():  # by the sentinel only: it must not be taken for a later one to this process
            time.sleep(_POLL_S)  # unless it is on its way here
            if not self._seen() & signal.sigpending():
                self.forget()

    def reaped(self, pid: int) -> bool:
        """Takes note of a child that was waited for. Returns True if it was the sentinel."""
        if pid != self.pid:
            return False
        self.pid = None
        return True

    def _seen(self) -> frozenset[int]:
        """The signals that the group got, as far as they were not told yet."""
        return self._noted | (pending(self.pid) & self._signals)

    def _renew(self) -> frozenset[int]:
        """Replaces the process. Returns what was seen until the new one was there."""
        old, self.pid = self.pid, self._start()
        seen = self._noted | (pending(old) & self._signals)
        end(old)
        return seen

    def close(self) -> None:
        """Ends the sentinel."""
        if self._write_end < 0:
            return
        os.close(self._write_end)
        os.close(self._read_end)
        self._write_end = -1
        end(self.pid)
        self.pid = None


def pending(pid: int | None) -> frozenset[int]:
    """The signals that a process blocks and was sent; none if there is no such process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    masks = (line.split()[1] for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:")))
    bits = 0
    for mask in masks:
        bits |= int(mask, 16)
    return frozenset(number for number in range(1, bits.bit_length() + 1) if bits >> (number - 1) & 1)


def end(child: int | None) -> None:
    """Kills a child and waits for it."""
    if child is not None:
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
