"""`cctrace profiles` in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from cctrace.analyzers.sentences import bytes_text
from cctrace.app.palette import FAINT_STYLE
from cctrace.app.terminal import headline, line, notes, section, table
from cctrace.profiles.emulation import chargeable
from cctrace.profiles.model import CAUSES, AnyEntry, Factor, Profile, Rule, SizeTable

_SAY = {0.0: "no", 1.0: "yes"}


def show_profiles(out: Console, profiles: Sequence[Profile]) -> None:
    """Prints one line a profile: its name, what it is, and the causes that can be emulated with it."""
    rows = [(one.name, one.profile.title, ", ".join(chargeable(one)) or "–") for one in profiles]
    out.print(table(("profile", "platform", "causes"), rows, numbers_from=3))
    line(out, "cctrace profiles NAME prints the values of one.", style=FAINT_STYLE)


def show_profile(out: Console, profile: Profile) -> None:
    """Prints every value of a profile with its range and source, then how it was derived."""
    head = profile.profile
    what = "what CC adds" if head.kind == "tolls" else f"what the machine takes with CC {head.cc}"
    headline(out, f"{profile.name}: {head.title}")
    line(out, f"{head.gpu}, {head.tee}; {what}; times in µs", style=FAINT_STYLE)
    for cause in CAUSES:
        entries = profile.entries(cause)
        if entries:
            section(out, cause)
            rows = [row for key, entry in entries.items() for row in _rows(key, entry)]
            columns = ("key", "source", "size", "value", "low", "high", "CC off", "CC on")
            out.print(table(columns, rows, numbers_from=2))
    notes(out, [f"{cause}.{key}: {entry.note}" for cause, key, entry in profile.all_entries() if entry.note])
    section(out, "Sources")
    for source in head.sources:
        line(out, source)


def _rows(key: str, entry: AnyEntry) -> Iterator[tuple[str, ...]]:
    if isinstance(entry, SizeTable):
        for index, size in enumerate(entry.bytes):
            first = (key, entry.source) if index == 0 else ("", "")
            off, on = ("" if one is None else number(one[index]) for one in (entry.off, entry.on))
            ends = (number(one[index]) for one in (entry.value, entry.low, entry.high))
            yield (*first, bytes_text(size), *ends, off, on)
    elif isinstance(entry, Rule):
        words = (_SAY[entry.value], _SAY[entry.low], _SAY[entry.high])
        yield (key, entry.source, "", *words, "", "")
    else:
        unit = " GB/s" if isinstance(entry, Factor) else ""
        off, on = ("" if one is None else f"{number(one)}{unit}" for one in (entry.off, entry.on))
        yield (key, entry.source, "", number(entry.value), number(entry.low), number(entry.high), off, on)


def number(value: float) -> str:
    """Returns five digits at most, never a power of ten: 0.43, 12.195, 101.8, 13410."""
    return f"{value:.5g}" if value < 1e4 else f"{value:.0f}"
