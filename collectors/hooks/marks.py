"""The marks: calls of the functions that the preloaded collector exports."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Final


def _nothing(*arguments: object) -> None:
    """Stands in for the collector where nothing is recorded."""


def _load() -> tuple[Callable[[bytes], Any], Callable[[], Any], Callable[[], Any], bool]:
    path = os.environ.get("CCTRACE_LIBRARY")
    if not path or not os.environ.get("CCTRACE_SPOOL"):
        return _nothing, _nothing, _nothing, False
    try:
        # PyDLL keeps the GIL: a pair of marks then takes 0.3 µs instead of 0.6 µs, and no other thread of the
        # program can take over in the middle of a step. A flush waits for the disk, so it lets others run.
        marks, waiting = ctypes.PyDLL(path), ctypes.CDLL(path)
        begin, end, flush_now = marks.cctrace_step_begin, marks.cctrace_step_end, waiting.cctrace_flush
    except (OSError, AttributeError):
        return _nothing, _nothing, _nothing, False
    begin.argtypes, begin.restype = [ctypes.c_char_p], None
    end.argtypes, end.restype = [], None
    flush_now.argtypes, flush_now.restype = [], None
    return begin, end, flush_now, True


_begin, _end, _flush, _loaded = _load()
_encoded: dict[str, bytes] = {}
_MAX_ENCODED: Final = 4096
"""Labels are few; a program that numbers its steps must not fill the memory."""
_IDLE: Final[AbstractContextManager[None]] = nullcontext()


def recording() -> bool:
    """Returns True if this program runs under the recorder."""
    return _loaded


def step_begin(label: str) -> None:
    """Begins a step, one scheduler iteration, on this thread. It replaces one that has not ended yet."""
    if _loaded:
        text = _encoded.get(label)
        if text is None:
            text = label.encode("utf-8", "replace").replace(b"\0", b" ")
            if len(_encoded) < _MAX_ENCODED:
                _encoded[label] = text
        _begin(text)


def step_end() -> None:
    """Ends the step of this thread, if one has begun."""
    _end()


def flush() -> None:
    """Waits, for a bounded time, until everything recorded so far in this process is on disk.

    Worth a call before `os._exit`, which skips everything that would do it otherwise.
    """
    _flush()


class _Step:
    __slots__ = ("_label",)

    def __init__(self, label: str) -> None:
        self._label = label

    def __enter__(self) -> None:
        step_begin(self._label)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _end()


def step(label: str) -> AbstractContextManager[None]:
    """Returns a context that marks the body of a `with` statement as one step.

    Args:
        label: text of the step, at most 127 bytes. Steps of one label are of one class; a number that only
            counts the steps does not matter.
    """
    return _Step(label) if _loaded else _IDLE
