"""Reads and writes profile documents (TOML); a document that cannot be used is one clear line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from cctrace.errors import UnusableInputError
from cctrace.profiles.model import CAUSES, Profile
from cctrace.profiles.shipped import FOLDER, profile_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

MAX_FILE_BYTES: Final = 2**20
"""Five times what every key with the largest table and the longest note takes."""
MAX_DOTS: Final = 200
"""In one line: no key has as many parts, and no note as many sentences. The time to read a key grows with the
square of its parts."""
SUFFIX: Final = ".toml"

_SHOWN: Final = 60
"""Characters of a wrong value that a message repeats."""


def load_profile(name: str) -> Profile:
    """Returns a profile by its name, or from a TOML file if `name` ends in `.toml`.

    Raises:
        UnusableInputError: there is no such profile, or the file is no profile.
    """
    if name.endswith(SUFFIX):
        return read_profile(Path(name))
    if name not in profile_names():
        raise UnusableInputError(
            f"there is no platform profile {name!r}; known: {', '.join(profile_names())}, "
            f"or a path that ends in {SUFFIX}"
        )
    return read_profile(FOLDER / f"{name}{SUFFIX}")


def read_profile(path: Path) -> Profile:
    """Returns the profile in a file.

    Raises:
        UnusableInputError: the file cannot be read, or is no profile; the message names table and key.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnusableInputError(f"cannot read the profile {path}: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise UnusableInputError(
            f"the profile {path} is larger than {MAX_FILE_BYTES} bytes: it is no profile"
        )
    document = _document(content, path)
    try:
        return Profile.model_validate(document)
    except ValidationError as error:
        raise UnusableInputError(f"the profile {path}: {_first_error(error)}") from error


def _document(content: bytes, path: Path) -> dict[str, Any]:
    if any(line.count(b".") > MAX_DOTS for line in content.splitlines()):
        raise UnusableInputError(f"the profile {path} has a line with more than {MAX_DOTS} dots")
    try:
        document: dict[str, Any] = tomllib.loads(content.decode("utf-8-sig"))
    # A ValueError is also what Python raises for a number with thousands of digits.
    except (ValueError, RecursionError) as error:
        raise UnusableInputError(f"the profile {path} is not valid TOML: {error}") from error
    return document


def write_profile(profile: Profile, path: Path) -> None:
    """Writes a profile as a document that reads again as an equal one; a file that is there is replaced.

    Raises:
        UnusableInputError: the file cannot be written.
    """
    import tomlkit  # noqa: PLC0415 - only who writes pays for it

    document = tomlkit.dumps(profile.model_dump(mode="json", exclude_defaults=True))
    try:
        path.write_text(document, encoding="utf-8")
    except OSError as error:
        raise UnusableInputError(f"cannot write the profile {path}: {error.strerror}") from error


def _first_error(error: ValidationError) -> str:
    """Returns what is wrong first, and where: `[launch.kernel_us] high is missing`."""
    errors = error.errors(include_url=False)
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    where = _place(first["loc"])
    return f"{where}{_reason(first['type'], first['msg'], first['input'])}{more}"


def _place(location: tuple[int | str, ...]) -> str:
    """Returns `[launch.kernel_us] high ` for the path to a value; lists count from 1."""
    if not location:
        return ""
    depth = 1 if location[0] not in CAUSES else 2
    words = [f"number {item + 1}" if isinstance(item, int) else str(item) for item in location[depth:]]
    table = ".".join(str(item) for item in location[:depth])
    return f"[{table}] " + "".join(f"{word} " for word in words)


def _reason(kind: str, message: str, value: Any) -> str:
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return f"is not a key of a profile; the tables are profile, {', '.join(CAUSES)} (docs/profiles.md)"
    if kind in ("model_type", "model_attributes_type"):
        return f"is no table: {_short(value)}"
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    return f"{_short(value)}: {message[:1].lower()}{message[1:]}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
