"""Writes the tables of docs/profiles.md from the profiles that come with cctrace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cctrace.analyzers.sentences import bytes_text
from cctrace.app.profiles_view import number
from cctrace.profiles.files import load_profile
from cctrace.profiles.model import AnyEntry, Factor, Profile, Rule, SizeTable
from cctrace.profiles.shipped import profile_names

PAGE: Final = Path(__file__).resolve().with_name("profiles.md")
BEGIN: Final = "<!-- profiles -->"
END: Final = "<!-- end: profiles -->"


def section(profile: Profile) -> str:
    """The section of one platform: every value with range, source and derivation."""
    lines = [f"### {profile.name}", "", f"{profile.profile.title}.", ""]
    lines += ["| cost | value | low | high | source | derivation |", "|---|---|---|---|---|---|"]
    for cause, key, entry in profile.all_entries():
        lines.append(row(f"`{cause}.{key}`", entry))
        lines += by_size(entry)
    lines += ["", "Sources:", "", *(f"- {source}" for source in profile.profile.sources)]
    return "\n".join(lines)


def row(name: str, entry: AnyEntry) -> str:
    """The row of one entry; of a table over size, its source and derivation."""
    if isinstance(entry, SizeTable):
        cells = ["by size", "", ""]
    elif isinstance(entry, Rule):
        cells = ["yes" if one else "no" for one in (entry.value, entry.low, entry.high)]
    else:
        unit = "" if isinstance(entry, Factor) else " µs"
        cells = [f"{number(entry.value)}{unit}", number(entry.low), number(entry.high)]
    return "| " + " | ".join([name, *cells, entry.source, entry.note.replace("|", "\\|")]) + " |"


def by_size(entry: AnyEntry) -> Iterator[str]:
    """The rows of a table over size, one a node."""
    if isinstance(entry, SizeTable):
        for size, *numbers in zip(entry.bytes, entry.value, entry.low, entry.high, strict=True):
            value, low, high = (number(one) for one in numbers)
            yield f"| – {bytes_text(size)} | {value} µs | {low} | {high} | | |"


def filled(page: str) -> str:
    """The page with the sections between the markers written anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name}: the markers of the profiles are missing")
    sections = "\n\n".join(section(load_profile(name)) for name in profile_names() if name != "zero")
    return f"{before}{begin}\n\n{sections}\n\n{end}{after}"


def main() -> int:
    """Rewrites the page in place."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
