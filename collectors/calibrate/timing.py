"""How a call is timed: back to back, by itself, and up to its completion."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from cctrace.collectors.calibrate.interface import Call, Device
from cctrace.collectors.calibrate.sampling import Clock
from cctrace.errors import CctraceError

LEAD: Final = 2
"""Calls before a burst that do not count: the first submission to an idle stream is another measurement."""


class Timed(NamedTuple):
    """Nanoseconds from the start of a call to its return, and to the end of what it submitted."""

    call: float
    complete: float


@dataclass(frozen=True)
class Timer:
    """Times the calls of one GPU.

    Attributes:
        device: the GPU; made the current one before each measurement.
        wait: waits for its stream.
        clock: nanoseconds.
    """

    device: Device
    wait: Call
    clock: Clock

    def burst(self, call: Call, calls: int) -> float:
        """Returns nanoseconds per call, back to back: the queue is never deeper than `calls` + `LEAD`."""
        self.device.activate()
        clock = self.clock
        results = [call() for _ in range(LEAD)]
        begin = clock()
        results += [call() for _ in range(calls)]
        end = clock()
        results.append(self.wait())
        self.device.check(results)
        return (end - begin) / calls

    def turned_down(self, call: Call) -> bool:
        """Returns whether the driver refuses a call."""
        self.device.activate()
        try:
            self.device.check([call()])
        except CctraceError:
            return True
        return False

    def bare(self, call: Call, calls: int) -> float:
        """Returns nanoseconds per call of one that may be turned down."""
        self.device.activate()
        clock = self.clock
        begin = clock()
        for _ in range(calls):
            call()
        end = clock()
        self.device.check([self.wait()])
        return (end - begin) / calls

    def single(self, call: Call, *, behind: Call | None = None) -> Timed:
        """Times one call on an idle stream.

        Args:
            call: what is timed.
            behind: submitted just before it, so that the stream is not idle.
        """
        self.device.activate()
        clock, wait = self.clock, self.wait
        results = [wait()]
        if behind is not None:
            results.append(behind())
        begin = clock()
        result = call()
        returned = clock()
        waited = wait()
        end = clock()
        self.device.check([*results, result, waited])
        return Timed(returned - begin, end - begin)

    def lasting(self, call: Call) -> tuple[float, object]:
        """Times a call that submits nothing; returns nanoseconds and what it returned."""
        self.device.activate()
        begin = self.clock()
        result = call()
        return self.clock() - begin, result


def timer(device: Device, clock: Clock) -> Timer:
    """Returns a timer for a GPU."""
    return Timer(device, device.synchronize().call, clock)


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
