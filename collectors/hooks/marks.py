"""The marks: calls of the functions that the preloaded collector exports."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any


def _nothing(*arguments: object) -> None:
    """Stands in for the collector where nothing is recorded."""


def _load() -> tuple[Callable[[bytes], Any], Callable[[], Any], Callable[[], Any], bool]:
    path = os.environ.get("CCTRACE_LIBRARY")
    if not path or not os.environ.get("CCTRACE_SPOOL"):
        return _nothing, _nothing, _nothing, False
    try:
        # PyDLL keeps the GIL: releasing it around some 100 ns of work would let another thread of the
        # program take it in the middle of a step. A flush waits for the disk, so it alone goes through
        # CDLL.
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
_MAX_ENCODED = 4096
"""Labels are few; a program that numbers its steps must not fill the memory."""


def recording() -> bool:
    """Returns True if this program runs under the recorder."""
    return _loaded


def step_begin(label: str) -> None:
    """Begins a step, one scheduler iteration, on this thread. Nested steps end innermost first."""
    if _loaded:
        text = _encoded.get(label)
        if text is None:
            text = label.encode("utf-8", "replace").replace(b"\0", b" ")
            if len(_encoded) < _MAX_ENCODED:
                _encoded[label] = text
        _begin(text)


def step_end() -> None:
    """Ends the step that began last on this thread."""
    if _loaded:
        _end()


def flush() -> None:
    """Waits, for a bounded time, until everything recorded so far in this process is on disk.

    Worth a call before `os._exit`, which skips everything that would do it otherwise.
    """
    if _loaded:
        _flush()


class step:  # noqa: N801 - reads as a statement: `with step("decode bs=16"):`
    """Marks the body of a `with` statement as one step.

    Args:
        label: text of the step. Steps whose labels differ only in numbers are of one class.
    """

    __slots__ = ("_label",)

    def __init__(self, label: str) -> None:
        self._label = label

    def __enter__(self) -> None:
        step_begin(self._label)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        step_end()
