"""Handles of the driver (addresses, reused after destruction) as small numbers that mean one object each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

LEGACY_STREAM: Final = 0
"""Key and number of the legacy default stream (its other handle, 1, is the same stream)."""

_PER_THREAD: Final = 2


class Births:
    """When each handle was created: a handle that is created again is another object."""

    def __init__(self, handles: npt.NDArray[np.uint64], times: npt.NDArray[np.uint64]) -> None:
        order = np.lexsort((times, handles))
        handles, times = handles[order], times[order]
        first = np.searchsorted(handles, handles, side="left")
        last = np.searchsorted(handles, handles, side="right")
        again = last - first > 1  # a handle created once never changes its meaning
        self._times: dict[int, npt.NDArray[np.uint64]] = {}
        if again.any():
            for handle in np.unique(handles[again]).tolist():
                self._times[handle] = times[handles == np.uint64(handle)]

    def generations(
        self, handles: npt.NDArray[np.uint64], times: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.uint64] | None:
        """How often each handle had been created again by then; None if none of them ever was."""
        if not self._times:
            return None
        found = None
        for handle, births in self._times.items():
            where = np.flatnonzero(handles == np.uint64(handle))
            if len(where):
                if found is None:
                    found = np.zeros(len(handles), dtype=np.uint64)
                reborn = np.searchsorted(births, times[where], side="right")
                found[where] = np.maximum(reborn, 1) - 1
        return found


class Numbering:
    """Dense numbers for (handle, generation), in order of first use, from `first` on."""

    def __init__(self, first: int = 0, reserved: Iterable[int] = ()) -> None:
        self._numbers: dict[tuple[int, int], int] = {(key, 0): first + i for i, key in enumerate(reserved)}
        self._next = first + len(self._numbers)

    def number(self, key: int, generation: int = 0) -> int:
        """The number of one object."""
        found = self._numbers.get((key, generation))
        if found is None:
            found = self._numbers[(key, generation)] = self._next
            self._next += 1
        return found

    def key_of(self, number: int) -> int | None:
        """The handle that a number stands for; None if no handle does."""
        for (key, _), found in self._numbers.items():
            if found == number:
                return key
        return None

    def fresh(self) -> int:
        """A number of an object that no handle stands for."""
        self._next += 1
        return self._next - 1

    def numbers(
        self, handles: npt.NDArray[np.uint64], generations: npt.NDArray[np.uint64] | None = None
    ) -> npt.NDArray[np.int64]:
        """Numbers of many handles."""
        if generations is None or not generations.any():
            return self._of_keys(handles, 0)
        result = np.empty(len(handles), dtype=np.int64)
        for generation in np.unique(generations).tolist():
            where = generations == np.uint64(generation)
            result[where] = self._of_keys(handles[where], int(generation))
        return result

    def _of_keys(self, handles: npt.NDArray[np.uint64], generation: int) -> npt.NDArray[np.int64]:
        if not len(handles):
            return np.zeros(0, dtype=np.int64)
        if bool(np.all(handles == handles[0])):
            return np.full(len(handles), self.number(int(handles[0]), generation), dtype=np.int64)
        # A handle mostly comes many times in a row: hashing the begin of each row is enough.
        begins = np.concatenate(([0], np.flatnonzero(handles[1:] != handles[:-1]) + 1))
        coded = pa.array(handles[begins]).dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        table = np.array([self.number(handle, generation) for handle in distinct], dtype=np.int64)
        codes = coded.indices.to_numpy()
        lengths = np.diff(np.append(begins, len(handles)))
        numbers: npt.NDArray[np.int64] = np.repeat(table[codes], lengths)
        return numbers


def stream_keys(streams: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Stream fields with the two handles of the legacy default stream made one.

    A thread's own default stream is told apart by the collector, which puts the thread id above the handle 2.
    """
    if bool(np.any(streams == 1)):
        return np.where(streams == 1, np.uint64(LEGACY_STREAM), streams)
    return streams


def stream_name(key: int) -> str | None:
    """Text for people about a stream that has no number of its own making."""
    if key == LEGACY_STREAM:
        return "default stream"
    if key & 0xFFFFFFFF == _PER_THREAD:
        return f"default stream of thread {key >> 32}"
    return None
