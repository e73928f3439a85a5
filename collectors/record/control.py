"""The control page: shared memory through which the recorder tells recorded processes when to record.

The layout is `struct Control` of native/record.h; times are nanoseconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONTROL_NAME: Final = "control"
CONTROL_MAGIC: Final = 0x43434354
PAGE_BYTES: Final = 4096

FIELDS: Final = (
    ("magic", "I"),
    ("stopped", "I"),
    ("start_at_ns", "Q"),
    ("stop_at_ns", "Q"),
    ("steps_limit", "Q"),
    ("steps_seen", "Q"),
    ("bytes_limit", "Q"),
    ("bytes_written", "Q"),
)
"""Name and `struct` code of each field, in order, without padding."""

_OFFSETS: Final = {
    name: struct.calcsize("<" + "".join(code for _, code in FIELDS[:index]))
    for index, (name, _) in enumerate(FIELDS)
}
_CODES: Final = dict(FIELDS)
CONTROL_BYTES: Final = struct.calcsize("<" + "".join(code for _, code in FIELDS))


def offset_of(field: str) -> int:
    """Returns the offset of a field in bytes."""
    return _OFFSETS[field]


@dataclass(frozen=True)
class Window:
    """The part of a run that is recorded. None: no limit.

    Attributes:
        delay_s: seconds after the start of the command at which recording begins.
        duration_s: seconds from there to its end.
        steps: end after so many marked steps.
        max_bytes: end when the spools together hold so many bytes.
    """

    delay_s: float | None = None
    duration_s: float | None = None
    steps: int | None = None
    max_bytes: int | None = None

    @property
    def limited(self) -> bool:
        """True if recording ends before the command may."""
        return any(limit is not None for limit in (self.duration_s, self.steps, self.max_bytes))


class ControlPage:
    """The mapped control page. Create it before the command starts; recorded processes map the same file."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, PAGE_BYTES)
            self._map = mmap.mmap(descriptor, PAGE_BYTES)
        finally:
            os.close(descriptor)

    def arm(self, window: Window, now_ns: int) -> None:
        """Writes the window, counted from `now_ns`, and then the magic that makes the page valid."""
        start_ns = now_ns + round((window.delay_s or 0.0) * 1e9)
        self._set("start_at_ns", start_ns if window.delay_s else 0)
        self._set("stop_at_ns", 0 if window.duration_s is None else start_ns + round(window.duration_s * 1e9))
        self._set("steps_limit", window.steps or 0)
        self._set("bytes_limit", window.max_bytes or 0)
        self._set("magic", CONTROL_MAGIC)

    def stop(self) -> None:
        """Tells every recorded process to record nothing more."""
        self._set("stopped", 1)

    def ended_by(self, now_ns: int) -> str | None:
        """Returns what ended the window: duration, steps, max-bytes, stopped; None while it is open."""
        stop_at_ns = self.get("stop_at_ns")
        if stop_at_ns and now_ns >= stop_at_ns:
            return "duration"
        if self.get("steps_limit") and self.get("steps_seen") >= self.get("steps_limit"):
            return "steps"
        if self.get("bytes_limit") and self.get("bytes_written") >= self.get("bytes_limit"):
            return "max-bytes"
        return "stopped" if self.get("stopped") else None

    def get(self, field: str) -> int:
        """Returns a field's value."""
        # Native order ("@") is copied as one aligned word; an explicit order is assembled byte by byte and
        # could tear.
        value: int = struct.unpack_from("@" + _CODES[field], self._map, _OFFSETS[field])[0]
        return value

    def _set(self, field: str, value: int) -> None:
        struct.pack_into("@" + _CODES[field], self._map, _OFFSETS[field], value)

    def close(self) -> None:
        """Unmaps the page; the file stays."""
        self._map.close()
