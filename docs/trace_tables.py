"""Writes the tables of docs/trace-format.md from `cctrace.trace`: columns, vocabularies, settable fields."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from cctrace.trace import COLUMNS, KINDS, OPERATIONS, SOURCES, settable_fields

PAGE: Final = Path(__file__).resolve().with_name("trace-format.md")


def columns_table() -> str:
    """The columns: name, type, unit, meaning, when null."""
    lines = ["| column | type | unit | meaning | null |", "|---|---|---|---|---|"]
    for column in COLUMNS:
        kind = "words" if pa.types.is_dictionary(column.type) else str(column.type)
        lines.append(f"| `{column.name}` | {kind} | {column.unit} | {column.meaning} | {column.null} |")
    return "\n".join(lines)


def words_table(words: Mapping[str, str]) -> str:
    """A vocabulary: word and meaning."""
    return "\n".join(["| value | meaning |", "|---|---|", *(f"| `{w}` | {m} |" for w, m in words.items())])


def fields_table() -> str:
    """The acceptance table: field, what a value looks like, meaning."""
    lines = ["| field | value | meaning |", "|---|---|---|"]
    for field in settable_fields().values():
        expects = field.expects.replace("|", "\\|")
        lines.append(f"| `{field.name}` | {expects} | {field.meaning} |")
    return "\n".join(lines)


TABLES: Final[dict[str, Callable[[], str]]] = {
    "columns": columns_table,
    "kinds": lambda: words_table(KINDS),
    "operations": lambda: words_table(OPERATIONS),
    "sources": lambda: words_table(SOURCES),
    "acceptance": fields_table,
}


def filled(page: str) -> str:
    """The page with every table between its markers written anew."""
    for name, table in TABLES.items():
        begin, end = f"<!-- table: {name} -->", f"<!-- end: {name} -->"
        before, marker, rest = page.partition(begin)
        _, end_marker, after = rest.partition(end)
        if not marker or not end_marker:
            raise ValueError(f"{PAGE.name}: the markers of the table '{name}' are missing")
        page = f"{before}{begin}\n{table()}\n{end}{after}"
    return page


def main() -> int:
    """Rewrites the page in place."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
