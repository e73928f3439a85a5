"""The discrete-event core: an agenda, host threads that are generators, and GPU streams.

A host thread yields a number (it is busy for so many µs) or a signal (it sleeps until that fires). Time only
moves from one entry of the agenda to the next, so what two threads do to one stream happens in order of time;
nothing here knows of tolls or causes.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from itertools import count
from typing import Any

HostThread = Generator["float | Signal", None, None]


class Signal:
    """Something that happens once, and that threads and streams wait for."""

    __slots__ = ("_waiting", "fired")

    def __init__(self) -> None:
        self.fired = False
        self._waiting: list[tuple[Callable[[Any], None], Any]] = []

    def then(self, action: Callable[[Any], None], subject: Any) -> None:
        """Calls `action(subject)` when the signal fires."""
        self._waiting.append((action, subject))

    def fire(self) -> None:
        """Lets everything go on that waits."""
        self.fired = True
        for action, subject in self._waiting:
            action(subject)
        self._waiting.clear()


class GpuWork:
    """One kernel, copy, memset, collective, or an event's place in a stream (which takes no time)."""

    __slots__ = ("after", "available", "done", "duration", "end", "meeting", "start", "stream")

    def __init__(self, duration: float, *, meeting: object = None) -> None:
        self.duration = duration
        self.meeting = meeting
        self.after: tuple[Signal, ...] = ()
        self.available = self.start = self.end = 0.0
        self.done = Signal()
        self.stream: Stream


class Stream:
    """A queue of GPU work, done one after the other."""

    __slots__ = ("last", "queue", "running")

    def __init__(self) -> None:
        self.queue: deque[GpuWork] = deque()
        self.running = False
        self.last: GpuWork | None = None


class Machine:
    """Hosts and GPUs on one clock, µs from 0; `ranks` GPUs take part in each meeting (collective)."""

    def __init__(self, ranks: int) -> None:
        self.now = 0.0
        self._ranks = ranks
        self._agenda: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._order = count()
        self._meetings: dict[object, list[GpuWork]] = {}

    def run(self) -> None:
        """Goes on until nothing is left to happen.

        Raises:
            RuntimeError: a collective waits for a rank that never comes.
        """
        agenda = self._agenda
        while agenda:
            self.now, _, action, subject = heapq.heappop(agenda)
            action(subject)
        if self._meetings:
            raise RuntimeError(f"{len(self._meetings)} collectives lack a rank")

    def start(self, thread: HostThread) -> None:
        """Starts a host thread."""
        self._at(self.now, self._resume, thread)

    def submit(self, stream: Stream, work: GpuWork, available: float) -> None:
        """Puts work at the end of a stream, to begin at `available` at the earliest."""
        work.stream, work.available = stream, available
        stream.queue.append(work)
        stream.last = work
        if len(stream.queue) == 1 and not stream.running:
            self._at(max(available, self.now), self._advance, stream)

    def _at(self, time: float, action: Callable[[Any], None], subject: Any) -> None:
        heapq.heappush(self._agenda, (time, next(self._order), action, subject))

    def _resume(self, thread: HostThread) -> None:
        for request in thread:
            if not isinstance(request, Signal):
                self._at(self.now + request, self._resume, thread)
                return
            if not request.fired:
                request.then(self._resume_now, thread)
                return

    def _resume_now(self, thread: HostThread) -> None:
        self._at(self.now, self._resume, thread)

    def _advance(self, stream: Stream) -> None:
        """Begins the work at the head of a stream, if nothing holds it back."""
        while stream.queue and not stream.running:
            work = stream.queue[0]
            if work.available > self.now:
                self._at(work.available, self._advance, stream)
                return
            for signal in work.after:
                if not signal.fired:
                    signal.then(self._advance, stream)
                    return
            work.start = self.now
            if work.meeting is not None:
                stream.running = True
                self._meet(work)
            elif work.duration:
                stream.running = True
                self._at(self.now + work.duration, self._finish, work)
            else:
                self._end(work)

    def _meet(self, work: GpuWork) -> None:
        """A collective ends on all ranks together, its duration after the last one has begun."""
        present = self._meetings.setdefault(work.meeting, [])
        present.append(work)
        if len(present) == self._ranks:
            del self._meetings[work.meeting]
            end = self.now + max(one.duration for one in present)
            for one in present:
                self._at(end, self._finish, one)

    def _finish(self, work: GpuWork) -> None:
        work.stream.running = False
        self._end(work)
        self._advance(work.stream)

    def _end(self, work: GpuWork) -> None:
        work.end = self.now
        work.stream.queue.popleft()
        work.done.fire()
