"""What a report is made of, whatever shows it: paragraphs, tables and a waterfall.

The terminal and the HTML page show the same blocks, so that they cannot say different things. Texts are
plain: what a trace holds is never interpreted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

WARNING: Final = "warning"
STRONG: Final = "strong"
FAINT: Final = "faint"


@dataclass(frozen=True)
class Cell:
    """Text of a table that stands for a cause: a key of `CAUSE_COLOURS`, or FAINT."""

    text: str
    tone: str


Row: TypeAlias = Sequence["str | Cell"]


def text_of(cell: str | Cell) -> str:
    """What a cell of a table says."""
    return cell.text if isinstance(cell, Cell) else cell


@dataclass(frozen=True)
class Title:
    """The heading of what follows; `level` is that of HTML: 3 for a part of what a 2 is about."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A text of its own; `tone` is empty, WARNING, STRONG, FAINT, or a cause that it is about."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Sheet:
    """A table; the columns from `numbers_from` on hold numbers."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    numbers_from: int = 1


@dataclass(frozen=True)
class Bar:
    """One bar of a waterfall.

    Attributes:
        name: what it is.
        cause: key of its colour; empty for a whole step.
        begin_us: where it begins, µs.
        end_us: where it ends; below `begin_us` for what makes the step shorter.
        label: its length in words.
    """

    name: str
    cause: str
    begin_us: float
    end_us: float
    label: str


@dataclass(frozen=True)
class Waterfall:
    """From the off arm's step to the on arm's, cause by cause."""

    bars: tuple[Bar, ...]


Block: TypeAlias = Title | Paragraph | Sheet | Waterfall
