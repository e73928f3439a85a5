"""What a thread knows to be done, and when: whether it awaits a copy at once, or only after the next launch.

A wait for an event proves that everything submitted before the event was recorded is done; a wait for a
stream or a context proves it for everything submitted before the wait. The running maximum of what waits
prove tells, for each call, up to which earlier call all is done. Streams are not told apart: what a wait
proves of one is taken for all, so that a copy counts as awaited early rather than late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.rows import host_rows, windows_of
from cctrace.analyzers.calls import COPY_KIND, Calls
from cctrace.analyzers.columns import BoolArray, IntArray
from cctrace.analyzers.steps import Steps
from cctrace.trace import Trace

SAMPLED_STEPS: Final = 128
"""Steps that are looked at: the order of calls is the same in all steps of a class."""
MIN_SHARE: Final = 0.5
"""What is so in at least this part of the sampled calls is what the class does."""


@dataclass(frozen=True, eq=False)
class Order:
    """Calls of the submitting thread in sampled steps, in order of time.

    Attributes:
        calls: the calls.
        done: for each call, the calls before this position are known to be done when it begins.
        next_launch: position of the next kernel or graph launch after each call; the number of calls if none.
        last_launch: position of the last one before each call, −1 if none.
    """

    calls: Calls
    done: IntArray
    next_launch: IntArray
    last_launch: IntArray

    def awaited_later(self, direction: str) -> bool | None:
        """Whether most copies of a direction are still unknown to be done when the next launch begins.

        None if the sample holds none of them.
        """
        copies = np.flatnonzero(self._copies(direction) & (self.next_launch < len(self.calls)))
        if not len(copies):
            return None
        later = self.done[self.next_launch[copies]] <= copies
        return bool(later.mean() >= MIN_SHARE)

    def behind_work(self, direction: str) -> bool | None:
        """Whether most copies of a direction are made while an earlier launch on their stream may still run.

        None if the sample holds none of them.
        """
        copies = np.flatnonzero(self._copies(direction))
        if not len(copies):
            return None
        last = self.last_launch[copies]
        compute = np.isin(self.calls.stream[copies], np.unique(self.calls.stream[_launches(self.calls)]))
        pending = (last >= 0) & (self.done[copies] <= last) & compute
        return bool(pending.mean() >= MIN_SHARE)

    def _copies(self, direction: str) -> BoolArray:
        mask: BoolArray = self.calls.is_copy & (self.calls.copy_kind == COPY_KIND[direction])
        return mask


def order_of(trace: Trace, steps: Steps, chosen: IntArray) -> Order | None:
    """The order of the submitting thread's calls in the middle of chosen steps.

    None if a wait for an event does not say which event it is.
    """
    middle = max(0, (len(chosen) - SAMPLED_STEPS) // 2)
    windows = windows_of(steps, chosen[middle : middle + SAMPLED_STEPS])
    rows = host_rows(trace, steps.pid, windows)
    own = rows.calls.tid == steps.submitting_tid
    calls, ref = rows.calls.pick(own), rows.ref[own]
    waits = calls.is_operation("event-sync")
    if bool((waits & (ref < 0)).any()):
        return None
    launches = np.flatnonzero(_launches(calls))
    position = np.arange(len(calls))
    following = np.searchsorted(launches, position, side="right")
    bounded = np.concatenate(([-1], launches, [len(calls)]))
    before = np.searchsorted(launches, position, side="left")
    return Order(calls, _done(calls, ref), bounded[following + 1], bounded[before])


def _launches(calls: Calls) -> BoolArray:
    mask: BoolArray = calls.is_work & calls.is_operation("kernel", "graph")
    return mask


def _done(calls: Calls, ref: IntArray) -> IntArray:
    """For each call the position before which all calls are known to be done."""
    position = np.arange(len(calls))
    proves = np.full(len(calls), 0, np.int64)
    whole = calls.is_operation("stream-sync", "context-sync")
    proves[whole] = position[whole]
    waits = np.flatnonzero(calls.is_operation("event-sync"))
    proves[waits] = _recorded_at(calls, ref)[waits]
    known = np.maximum.accumulate(proves) if len(proves) else proves
    return np.concatenate(([0], known[:-1])) if len(known) else known


def _recorded_at(calls: Calls, ref: IntArray) -> IntArray:
    """For each call the position of the last record of its event before it, 0 if there is none."""
    records = calls.is_operation("event-record") & (ref >= 0)
    order = np.lexsort((np.arange(len(calls)), ref))
    place = np.where(records[order], order, 0)
    # One event's records must not be taken for another's: each event has a range of numbers of its own.
    first = np.concatenate(([True], np.diff(ref[order]) != 0)) if len(order) else np.zeros(0, np.bool_)
    group = np.cumsum(first) * (len(calls) + 1)
    last = np.maximum.accumulate(place + group) - group if len(order) else place
    found = np.zeros(len(calls), np.int64)
    found[order] = np.maximum(last, 0)
    return found
