"""Reads a platform profile: `<cause>.<key>` → value, range, source."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from cctrace.errors import UnusableInputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

CAUSES: Final = ("launch", "pcie", "overlap", "nvlink")
"""The causes into which the cost of CC is split."""

_FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True)
class Cost:
    """One value of a profile, in the unit at the end of its key (`_us`: microseconds).

    Attributes:
        low: lower end of the range in which the true value may lie.
        high: upper end of it.
        source: who published it.
        note: how the value and the range were derived.
    """

    value: float
    low: float
    high: float
    source: str
    note: str


@dataclass(frozen=True)
class Profile:
    """A platform's costs by cause and key."""

    name: str
    title: str
    sources: tuple[str, ...]
    costs: Mapping[str, Mapping[str, Cost]]

    def values(self, cause: str) -> dict[str, float]:
        """Returns key → value of one cause; empty if the profile does not have it."""
        return {key: cost.value for key, cost in self.costs.get(cause, {}).items()}


def profile_names() -> list[str]:
    """Returns the names of the profiles that come with cctrace."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load_profile(name: str) -> Profile:
    """Returns a profile by its name, or from a TOML file if `name` ends in `.toml`.

    Raises:
        UnusableInputError: there is no such profile, or the file is no profile.
    """
    path = Path(name) if name.endswith(".toml") else _FOLDER / f"{name}.toml"
    if not name.endswith(".toml") and name not in profile_names():
        raise UnusableInputError(
            f"there is no platform profile {name!r}; known: {', '.join(profile_names())}, "
            "or a path that ends in .toml"
        )
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnusableInputError(f"cannot read the profile {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnusableInputError(f"the profile {path} is not valid TOML: {error}") from error
    return _parse(document, path)


def _parse(document: Mapping[str, Any], path: Path) -> Profile:
    head = document.get("profile")
    if not isinstance(head, dict) or not isinstance(head.get("name"), str):
        raise UnusableInputError(f"the profile {path} lacks the table [profile] with a name")
    unknown = sorted(set(document) - {"profile", *CAUSES})
    if unknown:
        raise UnusableInputError(
            f"the profile {path} has the unknown table [{unknown[0]}]; causes are {', '.join(CAUSES)}"
        )
    costs = {
        cause: MappingProxyType(
            {key: _cost(path, cause, key, entry) for key, entry in document[cause].items()}
        )
        for cause in CAUSES
        if isinstance(document.get(cause), dict)
    }
    return Profile(
        name=head["name"],
        title=str(head.get("title", head["name"])),
        sources=tuple(str(source) for source in head.get("sources", ())),
        costs=MappingProxyType(costs),
    )


def _cost(path: Path, cause: str, key: str, entry: object) -> Cost:
    where = f"the profile {path}: {cause}.{key}"
    if not isinstance(entry, dict):
        raise UnusableInputError(f"{where} is not a table with value, low, high and source")
    numbers = []
    for field in ("value", "low", "high"):
        number = entry.get(field)
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise UnusableInputError(f"{where} lacks a finite number {field}")
        numbers.append(float(number))
    value, low, high = numbers
    if not 0.0 <= low <= value <= high:
        raise UnusableInputError(f"{where}: 0 ≤ low ≤ value ≤ high does not hold")
    if not isinstance(entry.get("source"), str):
        raise UnusableInputError(f"{where} does not name its source")
    return Cost(value, low, high, entry["source"], str(entry.get("note", "")))
