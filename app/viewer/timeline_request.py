"""Parameters of the timeline's requests. They come from anywhere: what makes no sense is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

MAX_TIME_NS: Final = 1 << 53
"""Times within this, 104 days, are exact in browsers."""
MAX_NUMBER: Final = 1 << 53
MAX_TEXT: Final = 200
"""Characters of a text to search for."""
MAX_CLASS: Final = 4096
"""Characters of the name of a step class: programs choose their labels."""
_SHOWN: Final = 20


class BadRequestError(Exception):
    """A parameter that makes no sense; the message says which and why, in one line."""


class Parameters:
    """The parameters of one request."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str, default: str | None = None, most: int = MAX_TEXT) -> str:
        """A text of 1 to `most` characters."""
        value = self._given.get(name, default)
        if not value:
            raise BadRequestError(f"{name} is missing")
        if len(value) > most:
            raise BadRequestError(f"{name} has more than {most} characters")
        return value

    def choice(self, name: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """One of a few words."""
        value = self.text(name, default)
        if value not in allowed:
            raise BadRequestError(f"{name} must be {' or '.join(allowed)}, not {_shown(value)}")
        return value

    def integer(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """A whole number from `least` to `most`."""
        text = self.text(name, None if default is None else str(default))
        try:
            value = int(text)
        except ValueError:
            raise BadRequestError(f"{name} must be a whole number, not {_shown(text)}") from None
        if not least <= value <= most:
            raise BadRequestError(f"{name} must be from {least} to {most}, not {_shown(text)}")
        return value

    def time(self, name: str) -> float:
        """A time in ns, finite, no further than MAX_TIME_NS from 0."""
        text = self.text(name)
        try:
            value = float(text)
        except ValueError:
            raise BadRequestError(f"{name} must be a number of nanoseconds, not {_shown(text)}") from None
        if not math.isfinite(value) or abs(value) > MAX_TIME_NS:
            raise BadRequestError(f"{name} must be a time within 104 days, not {_shown(text)}")
        return value

    def integers(self, name: str, most: int) -> tuple[int, ...] | None:
        """Different whole numbers between commas, at most so many; None if there is no such parameter."""
        if name not in self._given:
            return None
        parts = self._given[name].split(",")
        if len(parts) > most:
            raise BadRequestError(f"{name} must be at most {most} numbers")
        try:
            numbers = tuple(dict.fromkeys(int(part) for part in parts))
        except ValueError:
            raise BadRequestError(
                f"{name} must be numbers between commas, not {_shown(self._given[name])}"
            ) from None
        return numbers


def _shown(text: str) -> str:
    """A value as it can stand in a message."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
