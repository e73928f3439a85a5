"""Building blocks of terminal output. Texts of a trace are data: they are shown, never interpreted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cctrace.app.palette import FAINT_STYLE, HEADING_STYLE, WARNING_COLOUR


def console() -> Console:
    """A console on stdout; colours only on a terminal, and not with NO_COLOR."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False)


def safe(text: str) -> str:
    """The text without control characters, which could steer a terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)


def headline(out: Console, sentence: str, warnings: Iterable[str] = ()) -> None:
    """Prints the sentence that matters, then the labels that every output carries."""
    out.print(Text(safe(sentence), style=HEADING_STYLE))
    for warning in warnings:
        out.print(Text(f"This recording is {safe(warning)}.", style=f"bold {WARNING_COLOUR}"))


def line(out: Console, text: str, *, style: str = "") -> None:
    """Prints one line (or paragraph) of text."""
    out.print(Text(safe(text), style=style))


def section(out: Console, title: str) -> None:
    """Prints a title with an empty line above it."""
    out.print()
    out.print(Text(safe(title), style=HEADING_STYLE))


def notes(out: Console, texts: Sequence[str]) -> None:
    """Prints remarks, one paragraph each."""
    if not texts:
        return
    section(out, "Notes")
    for text in texts:
        out.print(Text(f"- {safe(text)}"))


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, numbers_from: int = 1) -> Table:
    """A table whose columns from `numbers_from` on are numbers, aligned right.

    Args:
        columns: headings.
        rows: cells; plain text is made safe.
        numbers_from: index of the first column of numbers.
    """
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style=FAINT_STYLE, show_edge=False)
    for index, name in enumerate(columns):
        number = index >= numbers_from
        made.add_column(name, justify="right" if number else "left", overflow="fold", no_wrap=number)
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(safe(cell)) for cell in row))
    return made
