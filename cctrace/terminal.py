"""What commands say on stderr: lines for people, and progress. Data goes to stdout, and only there.

Both are written with the letters that their encoding has.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.table import Table

SPELLINGS: Final = {
    "−": "-",
    "–": "-",
    "·": "-",
    "µ": "u",
    "×": "x",
    "÷": "/",
    "±": "+-",
    "≤": "<=",
    "≈": "~",
    "→": "->",
    "▸": ">",
    "…": "...",
    "°": "",
    "¹": "^1",
    "²": "2",
    "■": "#",
    "�": "?",
}
"""Letters of the output that an encoding may lack, and how they are written without it."""
_SPELLED: Final = "cctrace.spelled"


def _spelled(error: UnicodeError) -> tuple[str | bytes, int]:
    """Handler of `codecs`: a letter that the encoding lacks by its spelling, else by its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    error.end = error.start + 1
    letter = error.object[error.start]
    return (SPELLINGS[letter], error.end) if letter in SPELLINGS else codecs.backslashreplace_errors(error)


def spell_out(stream: TextIO | None) -> None:
    """Lets a stream write every text: `-5 us` instead of `−5 µs` where its encoding lacks these letters."""
    if isinstance(stream, io.TextIOWrapper):
        codecs.register_error(_SPELLED, _spelled)
        stream.reconfigure(errors=_SPELLED)


def say(line: str) -> None:
    """Prints one line on stderr; a closed stderr is nobody's error."""
    with contextlib.suppress(OSError, ValueError):
        print(f"cctrace: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """Shows a progress bar on stderr while the context lasts, if that is a terminal.

    Yields:
        A callback (done, all), or None if nothing is shown.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - not needed without a terminal
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def printable(text: str) -> str:
    """Returns `text` without control characters: what a trace holds is data and must not steer a terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)


def facts_table(title: str, facts: Iterable[tuple[str, str]]) -> Table:
    """Returns a table of names and values for a rich console; texts are shown as they are, markup too."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - rich is only loaded by commands that print tables
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(printable(name)), Text(printable(value)))
    return table
