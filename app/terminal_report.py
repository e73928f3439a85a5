"""Blocks of a report in the terminal: no line is cut off, however narrow it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from cctrace.app.blocks import FAINT, STRONG, WARNING, Block, Cell, Paragraph, Sheet, Title, text_of
from cctrace.app.palette import CAUSE_COLOURS, FAINT_STYLE, HEADING_STYLE, WARNING_COLOUR
from cctrace.app.terminal import line, safe, section, table
from cctrace.app.waterfall import show_waterfall

PARAGRAPH_STYLES: Final = {
    "": "",
    FAINT: FAINT_STYLE,
    STRONG: HEADING_STYLE,
    WARNING: f"bold {WARNING_COLOUR}",
    **CAUSE_COLOURS,
}
CELL_GAP: Final = 3
MIN_TEXT_COLUMNS: Final = 10
"""A column of texts is folded down to this; a table that needs it narrower is written as lines."""


def show_blocks(out: Console, blocks: Iterable[Block]) -> None:
    """Prints blocks in order."""
    for block in blocks:
        if isinstance(block, Title):
            section(out, block.text)
        elif isinstance(block, Paragraph):
            line(out, block.text, style=PARAGRAPH_STYLES[block.tone])
        elif isinstance(block, Sheet):
            _show_sheet(out, block)
        else:
            show_waterfall(out, block)


def _show_sheet(out: Console, sheet: Sheet) -> None:
    if _least_width(sheet) <= out.width:
        rows = [[_styled(cell) for cell in row] for row in sheet.rows]
        out.print(table(sheet.columns, rows, numbers_from=sheet.numbers_from))
        return
    for row in sheet.rows:
        texts = [text_of(cell) for cell in row]
        named = [f"{name} {text}" for name, text in zip(sheet.columns[1:], texts[1:], strict=True) if text]
        line(out, f"{texts[0].strip()}: {', '.join(named)}")


def _styled(cell: str | Cell) -> str | Text:
    if isinstance(cell, str):
        return cell
    return Text(safe(cell.text), style=FAINT_STYLE if cell.tone == FAINT else CAUSE_COLOURS[cell.tone])


def _least_width(sheet: Sheet) -> int:
    """Columns of the terminal that the table needs: numbers are not folded, texts down to a limit."""
    width = CELL_GAP * (len(sheet.columns) - 1)
    for index, name in enumerate(sheet.columns):
        texts = [name, *(text_of(row[index]) for row in sheet.rows)]
        longest = max(cell_len(text) for text in texts)
        width += longest if index >= sheet.numbers_from else min(longest, MIN_TEXT_COLUMNS)
    return width
