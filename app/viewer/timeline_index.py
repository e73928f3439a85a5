"""The indexes of the recordings that a viewer shows, each built when it is first asked for."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cctrace.analyzers.viewport import Index, build_index
from cctrace.app.viewer.jobs import Pending
from cctrace.app.viewer.view import Run, View
from cctrace.errors import UnusableInputError
from cctrace.trace import Trace, open_trace

MAX_BYTES: Final = 3 << 30
"""Indexes kept; those not asked for the longest go first. Two of a hundred million rows fit."""

STOP_S: Final = 5.0
"""Longest wait for a thread that was told to stop: it looks a few times a second."""

_State = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Indexed:
    """An index and its recording; `reading` is held by whoever reads rows of the recording."""

    index: Index
    trace: Trace
    reading: threading.Lock = field(default_factory=threading.Lock)


class _Building:
    """An index that is being built, or has been."""

    def __init__(self, path: Path, view: View, closed: threading.Event) -> None:
        self._path = path
        self._view = view
        self._closed = closed
        self.progress = 0.0
        self.found: Indexed | None = None
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._build, name=f"index of {path.name}", daemon=True)
        self.thread.start()

    def _build(self) -> None:
        try:
            self._view.settle()
            index = build_index(open_trace(self._path), self._note)
            # Arrow's reader is not made for several threads, and this one has kept buffers.
            self.found = Indexed(index, open_trace(self._path))
        except MemoryError:
            self.error = UnusableInputError(f"{self._path}: there is too little memory for its time line")
        except Exception as error:  # whoever asks for the index gets it
            self.error = error

    def _note(self, progress: float) -> None:
        if self._closed.is_set():
            raise UnusableInputError(f"{self._path}: the viewer has ended")
        self.progress = progress

    def result(self) -> Indexed:
        if self.error is not None:
            raise self.error
        if self.found is None:
            raise Pending(f"Indexing {self.progress:.0%}".replace("%", " %"))
        return self.found


class Indexes:
    """The indexes of a view's recordings. Safe to use from several threads."""

    def __init__(self, view: View) -> None:
        self._view: Final = view
        self._opened: Final = {run.path: _state(run.path) for arm in view.arms for run in arm.runs}
        self._lock = threading.Lock()
        self._kept: OrderedDict[Path, _Building] = OrderedDict()
        self._closed: Final = threading.Event()
        view.at_close(self.close)
        view.make_room_by(self.let_all_go)

    def of(self, run: Run) -> Indexed:
        """The index of a recording.

        Raises:
            Pending: it is being built.
            UnusableInputError: the file is damaged, gone, or another one than was opened.
        """
        state = _state(run.path)
        if state is None:
            raise UnusableInputError(f"{run.path}: cannot be read any more")
        if state != self._opened.get(run.path):
            raise UnusableInputError(
                f"{run.path}: has changed since it was opened; start `cctrace view` again"
            )
        with self._lock:
            if run.path not in self._kept:
                self._kept[run.path] = _Building(run.path, self._view, self._closed)
            self._kept.move_to_end(run.path)
            building = self._kept[run.path]
            self._let_go()
        return building.result()

    def close(self) -> None:
        """Stops indexes that are being built, and waits until they have stopped."""
        self._closed.set()
        with self._lock:
            building = [one.thread for one in self._kept.values()]
        for thread in building:
            thread.join(STOP_S)

    def let_all_go(self) -> None:
        """Drops the indexes that are ready; whoever asks for one again waits while it is built."""
        with self._lock:
            for path in [path for path, one in self._kept.items() if one.found is not None]:
                del self._kept[path]

    def _let_go(self) -> None:
        """Drops the indexes that were not asked for the longest, while all take too much."""
        ready = {path: one.found.index.nbytes for path, one in self._kept.items() if one.found is not None}
        for path in list(ready)[:-1]:
            if sum(ready.values()) <= MAX_BYTES:
                break
            del self._kept[path], ready[path]


def _state(path: Path) -> _State | None:
    """Size and time of change of a file; None if it is gone."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns
