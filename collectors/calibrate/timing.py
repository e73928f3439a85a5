"""How a call is timed: back to back, by itself, and up to its completion."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from typing_extensions import NamedTuple

from cctrace.collectors.calibrate.interface import Call, Device, Submission
from cctrace.collectors.calibrate.sampling import Clock

_Time = TypeVar("_Time")

LEAD: Final = 2
"""Calls before a burst that do not count: the first submission to an idle stream is another measurement."""


class Timed(NamedTuple):
    """Nanoseconds from the start of a call to its return, and to the end of what it submitted."""

    call: float
    complete: float


class Both(NamedTuple, Generic[_Time]):
    """What was taken with calls of the driver, and right after it with calls that do nothing."""

    taken: _Time
    bare: _Time


@dataclass(frozen=True)
class _Watch:
    """Times calls, whatever they call."""

    wait: Call
    check: Callable[[Iterable[int]], None]
    clock: Clock

    def burst(self, call: Call, calls: int) -> float:
        clock = self.clock
        codes = [call() for _ in range(LEAD)]
        begin = clock()
        codes += [call() for _ in range(calls)]
        end = clock()
        codes.append(self.wait())
        self.check(codes)
        return (end - begin) / calls

    def single(self, call: Call, behind: Call | None = None) -> Timed:
        clock, wait = self.clock, self.wait
        codes = [wait()]
        if behind is not None:
            codes.append(behind())
        begin = clock()
        code = call()
        returned = clock()
        waited = wait()
        end = clock()
        self.check([*codes, code, waited])
        return Timed(returned - begin, end - begin)


class Timer:
    """Times the calls of one GPU, each time beside calls that do nothing: the clock and Python are in both.

    Args:
        device: the GPU; made the current one before each measurement.
        clock: nanoseconds.
    """

    def __init__(self, device: Device, clock: Clock) -> None:
        wait = device.synchronize()
        self._device = device
        self._driver = _Watch(wait.call, device.check, clock)
        self._nothing = _Watch(wait.bare, lambda codes: None, clock)

    def burst(self, submission: Submission, calls: int) -> Both[float]:
        """Returns nanoseconds per call, back to back: the queue is never deeper than `calls` + `LEAD`."""
        self._device.activate()
        return Both(self._driver.burst(submission.call, calls), self._nothing.burst(submission.bare, calls))

    def single(self, submission: Submission) -> Both[Timed]:
        """Times one call on an idle stream."""
        self._device.activate()
        return Both(self._driver.single(submission.call), self._nothing.single(submission.bare))

    def alone(self, call: Call, *, behind: Call | None = None) -> Timed:
        """Times one call with all that Python adds.

        Args:
            call: what is timed.
            behind: submitted just before it, so that the stream is not idle.
        """
        self._device.activate()
        return self._driver.single(call, behind)


@contextmanager
def no_collector() -> Iterator[None]:
    """Keeps Python's garbage collector from running in the middle of a measurement."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
