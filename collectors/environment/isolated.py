"""Asks NVML from outside: starts the helper process of `probe`, and outlives whatever happens to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from cctrace.collectors.environment.sampler import sampling_report
from cctrace.collectors.environment.snapshot import Snapshot, snapshot_of, without_nvml

START_LIMIT_S: Final = 5.0
"""So long the start of a command may wait for NVML. It starts within 0.2 s with one GPU and about 1 s with
eight; a driver that is not kept loaded takes several. A later answer is used as well."""
PATIENT_LIMIT_S: Final = 30.0
"""The same where nothing waits but a user who has asked for the answer."""
END_LIMIT_S: Final = 5.0
"""One look of an NVML that is running takes milliseconds, and must wait for a sample at most: 40 ms a GPU."""
_CLOSE_LIMIT_S: Final = 2.0
"""An orderly end of NVML takes milliseconds."""
_POLL_S: Final = 0.05

_PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from {package}.probe import main; main()"
"""The helper finds modules where this process does, and nowhere else: not in the working folder."""


class NvmlHelper:
    """The helper process, in a session of its own: signals to the recorder's group do not reach it.

    Args:
        counters: `counters.jsonl`; None if nothing will be sampled.
        hz: samples a second; 0: none.

    Attributes:
        pid: its process id; None while there is none.
        failure: why it answers no more; None as long as it does.
    """

    def __init__(self, counters: Path | None = None, hz: float = 0.0) -> None:
        self.pid: int | None = None
        self.failure: str | None = None
        self._hz = hz
        self._started = False
        self._buffer = b""
        program = _PROGRAM.format(path=sys.path, package=__package__)
        arguments = [sys.executable, "-c", program, str(counters or os.devnull), str(hz)]
        its_input, self._requests = os.pipe()
        self._answers, its_output = os.pipe()
        os.set_blocking(self._requests, False)  # a helper that hangs reads nothing
        actions = [
            (os.POSIX_SPAWN_DUP2, its_input, 0),
            (os.POSIX_SPAWN_DUP2, its_output, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        try:
            self.pid = os.posix_spawn(
                sys.executable, arguments, os.environ, file_actions=actions, setsid=True, setsigmask=[]
            )
        except (OSError, ValueError, NotImplementedError) as error:
            self.failure = f"the helper process that asks NVML cannot be started ({error})"
        finally:
            os.close(its_input)
            os.close(its_output)

    def start(self, limit_s: float | None = None, poll: Callable[[], None] = lambda: None) -> Snapshot:
        """Returns the machine at the start.

        Args:
            limit_s: wait at most so long, None: `START_LIMIT_S`. The helper goes on, and `finish` may know
                more.
            poll: called while waiting; may raise.
        """
        limit_s = START_LIMIT_S if limit_s is None else limit_s
        found = self._snapshot(self._answer(limit_s, poll))
        if found is not None:
            self._started = True
            return found
        why = self.failure or f"the helper process that asks NVML does not answer within {limit_s:g} s"
        return without_nvml(why)

    def begin_sampling(self) -> None:
        """Begins the counters, if there is a rate."""
        if self._hz > 0:
            self._request({"sample": True})

    def finish(self, ours: Collection[int] = ()) -> tuple[Snapshot, dict[str, Any]]:
        """Ends the helper. Returns the machine now, and what was sampled: see `sampling_report`.

        Args:
            ours: process ids that do not count as other users of a GPU.
        """
        self._request({"end": sorted(ours)})
        # One that has not answered until now has had all the time of the recording.
        self._started = self._started or self._answer(0.0) is not None
        answer = self._answer(END_LIMIT_S) if self._started else None
        found = self._snapshot(answer)
        if found is None and self.failure is None:
            self.failure = "the helper process that asks NVML does not answer"
            self._kill()
        self.close()
        if found is not None and answer is not None:
            return found, dict(answer["counters"])
        state = f"stopped: {self.failure}" if self._hz > 0 else "off"
        report = sampling_report(state, self._hz, None if self._hz > 0 else 0)
        return without_nvml(str(self.failure)), report

    def reaped(self, pid: int, status: int) -> bool:
        """Takes note of a child that was waited for. Returns True if it was the helper."""
        if pid != self.pid:
            return False
        self.pid = None
        code = os.waitstatus_to_exitcode(status)
        self.failure = self.failure or f"the helper process that asks NVML {how_it_ended(code)}"
        return True

    def close(self) -> None:
        """Ends the helper; by force if it does not by itself."""
        for descriptor in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                if descriptor >= 0:
                    os.close(descriptor)
        self._requests = self._answers = -1
        if not self._await_end(_CLOSE_LIMIT_S):
            self._kill()
            self._await_end(_CLOSE_LIMIT_S)

    def _kill(self) -> None:
        if self.pid is not None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)

    def _await_end(self, limit_s: float) -> bool:
        """Waits for the end of the process. Returns False if it does not come in time."""
        deadline = time.monotonic() + limit_s
        while self.pid is not None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.pid = None
                return True
            if pid:
                self.reaped(pid, status)
            elif time.monotonic() > deadline:
                return False
            else:
                time.sleep(0.005)
        return True

    def _request(self, document: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # it is gone; the missing answer says so
            os.write(self._requests, json.dumps(document).encode() + b"\n")

    def _answer(self, limit_s: float, poll: Callable[[], None] = lambda: None) -> dict[str, Any] | None:
        """Returns the next answer, or None if it does not come in time or the helper is gone."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            if self._answers < 0 or (self.failure is not None and self.pid is None):
                return None
            poll()
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._answers], [], [], min(left, _POLL_S))[0]:
                if left <= 0:
                    return None
                continue
            read = os.read(self._answers, 65536)
            if not read:
                self.close()
                return None
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        return answer if isinstance(answer, dict) else None

    def _snapshot(self, answer: Mapping[str, Any] | None) -> Snapshot | None:
        try:
            return None if answer is None else snapshot_of(answer)
        except (KeyError, TypeError):
            return None


def take_snapshot() -> Snapshot:
    """Returns the machine now, its GPUs as NVML sees them in a process of its own."""
    helper = NvmlHelper()
    try:
        return helper.start(PATIENT_LIMIT_S)
    finally:
        helper.close()


def how_it_ended(code: int) -> str:
    """Returns the end of a sentence about a process with this exit code; below zero: a signal."""
    if code >= 0:
        return f"has ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
