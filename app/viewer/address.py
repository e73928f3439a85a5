"""The address of a page: its path and parameters, which are the whole state of what is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode

MAX_PARAMETERS: Final = 64
MAX_VALUE_CHARACTERS: Final = 400
"""Addresses come from anywhere. What is longer is no address of ours; it is left out."""
TIMELINE: Final = "/timeline"
"""The page that all others lead to."""
_MAX_INTEGER: Final = 1 << 62


@dataclass(frozen=True)
class Address:
    """Path and parameters of a page."""

    path: str = "/"
    parameters: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, path: str | None, search: str | None) -> Address:
        """Reads what a browser shows; what makes no sense is left out."""
        try:
            found = parse_qsl((search or "").removeprefix("?"), max_num_fields=MAX_PARAMETERS)
        except ValueError:
            found = []
        kept = {key: value for key, value in found if len(value) <= MAX_VALUE_CHARACTERS}
        return cls(path or "/", kept)

    def get(self, key: str, default: str = "") -> str:
        """A parameter as text."""
        return self.parameters.get(key, default)

    def number(self, key: str) -> float | None:
        """A parameter as a finite number; None if it is none."""
        try:
            value = float(self.get(key))
        except ValueError:
            return None
        return value if math.isfinite(value) else None

    def integer(self, key: str) -> int | None:
        """A parameter as an integer; None if it is none."""
        try:
            value = int(self.get(key))
        except ValueError:
            return None
        return value if abs(value) < _MAX_INTEGER else None

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """A parameter that is one of a few words; the first of them if it is not."""
        value = self.get(key)
        return value if value in allowed else allowed[0]

    def with_(self, **changes: object) -> Address:
        """A copy with parameters set; None takes one out."""
        merged = {**self.parameters, **{key: value for key, value in changes.items() if value is not None}}
        kept = {key: str(value) for key, value in merged.items() if changes.get(key, "") is not None}
        return Address(self.path, kept)

    def elsewhere(self, path: str) -> Address:
        """Another page, of the same recordings."""
        return Address(path, {key: value for key, value in self.parameters.items() if key.startswith("run_")})

    @property
    def search(self) -> str:
        """The parameters as in the address line, with "?"; empty if there are none."""
        return f"?{urlencode(self.parameters)}" if self.parameters else ""

    def __str__(self) -> str:
        return self.path + self.search
