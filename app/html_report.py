"""Blocks of a report as one HTML page that loads nothing from anywhere.

The page is built as a tree, whose texts are escaped when it is written: what a trace holds cannot become
markup. A content security policy in it forbids scripts and any request, should a text ever slip through.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from cctrace import __version__
from cctrace.app.blocks import FAINT, Bar, Block, Cell, Paragraph, Sheet, Title, Waterfall, text_of
from cctrace.app.palette import CAUSE_COLOURS, STEP_COLOUR
from cctrace.app.plots import Plot, add_plot
from cctrace.app.terminal import safe
from cctrace.app.waterfall import ZERO_US
from cctrace.errors import OutputExistsError, UnusableInputError

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.3rem 0 .3rem; }
p { margin: .35rem 0; overflow-wrap: anywhere; } .faint { opacity: .7; }
.strong { font-size: 1.15rem; font-weight: 600; }
.warning { border-left: 4px solid #E69F00; padding-left: .6rem; }
.table { overflow-x: auto; margin: .5rem 0; } table { border-collapse: collapse; }
th, td { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; max-width: 28rem; }
th { font-weight: normal; opacity: .7; border-bottom: 1px solid; }
td { white-space: pre-wrap; overflow-wrap: break-word; }
tbody tr + tr td { border-top: 1px solid rgba(128, 128, 128, .2); }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.cause { border-left: 6px solid; padding-left: .5rem; }
svg { display: block; min-width: 44rem; } svg text { font: 13px system-ui, sans-serif; fill: currentColor; }
.axes line { stroke: currentColor; opacity: .15; } .axes text { font-size: 12px; opacity: .8; }
@media print { body { max-width: none; } h2 { break-after: avoid; } tr, svg { break-inside: avoid; } }
"""
_ROW: Final = 24
_NAMES: Final = 70
_LABELS: Final = 170
_BARS: Final = 560
"""Height of a row and widths of the columns of the waterfall, pixels."""


def page(title: str, blocks: Iterable[Block | Plot]) -> str:
    """The whole page.

    Args:
        title: title of the page, and its first heading.
        blocks: what it shows.
    """
    html = Element("html", lang="en")
    head, body = SubElement(html, "head"), SubElement(html, "body")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": POLICY})
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    _text(head, "title", title)
    _text(head, "style", _STYLE)
    _text(body, "h1", title)
    for block in blocks:
        _add(body, block)
    _text(body, "p", f"Made by cctrace {__version__}.", {"class": FAINT})
    return "<!DOCTYPE html>\n" + tostring(html, encoding="unicode", method="html") + "\n"


def write_page(path: Path, title: str, blocks: Iterable[Block | Plot]) -> None:
    """Writes the page to a file. Raises UnusableInputError if it cannot be written."""
    try:
        path.write_text(page(title, blocks), encoding="utf-8", errors="replace")
    except OSError as error:
        raise UnusableInputError(f"{path}: cannot be written ({error.strerror})") from None


def check_target(path: Path, recordings: Sequence[Path], option: str, *, force: bool) -> None:
    """Makes sure that a page may be written to a file, before the work is done that it shows.

    Args:
        path: the file.
        recordings: files that must not be replaced.
        option: what named the file.
        force: whether another file may be replaced.

    Raises:
        UnusableInputError: it is no file in a folder that exists, or a recording.
        OutputExistsError: it exists.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise UnusableInputError(f"{path}: name a file in a folder that exists")
    if path.resolve() in [recording.resolve() for recording in recordings]:
        raise UnusableInputError(f"{path}: is one of the recordings; give {option} another name")
    if path.exists() and not force:
        raise OutputExistsError(f"{path} exists; --force overwrites it")


def _text(parent: Element, tag: str, text: str, attributes: dict[str, str] | None = None) -> Element:
    made = SubElement(parent, tag, attributes or {})
    made.text = text if tag == "style" else safe(text)
    return made


def _add(body: Element, block: Block | Plot) -> None:
    if isinstance(block, Title):
        _text(body, f"h{block.level}", block.text)
    elif isinstance(block, Paragraph):
        _text(body, "p", block.text, _tone(block.tone))
    elif isinstance(block, Sheet):
        _add_sheet(body, block)
    elif isinstance(block, Plot):
        add_plot(SubElement(body, "div", {"class": "table"}), block)
    else:
        _add_waterfall(SubElement(body, "div", {"class": "table"}), block)


def _tone(tone: str) -> dict[str, str]:
    if tone in CAUSE_COLOURS:
        return {"class": "cause", "style": f"border-left-color: {CAUSE_COLOURS[tone]}"}
    return {"class": tone} if tone else {}


def _add_sheet(body: Element, sheet: Sheet) -> None:
    made = SubElement(SubElement(body, "div", {"class": "table"}), "table")
    head = SubElement(SubElement(made, "thead"), "tr")
    for index, name in enumerate(sheet.columns):
        _text(head, "th", name, _number(index, sheet))
    rows = SubElement(made, "tbody")
    for row in sheet.rows:
        line = SubElement(rows, "tr")
        for index, cell in enumerate(row):
            attributes = _number(index, sheet)
            if isinstance(cell, Cell) and not index:
                attributes |= {"class": "cause", "style": f"border-left-color: {CAUSE_COLOURS[cell.tone]}"}
            _text(line, "td", text_of(cell), attributes)


def _number(index: int, sheet: Sheet) -> dict[str, str]:
    return {"class": "number"} if index >= sheet.numbers_from else {}


def _add_waterfall(body: Element, waterfall: Waterfall) -> None:
    """Bars with their names and lengths beside them: colour only repeats what the words say."""
    bars = waterfall.bars
    width, height = _NAMES + _LABELS + _BARS, _ROW * len(bars)
    words = "; ".join(f"{bar.name} {bar.label}" for bar in bars)
    drawing = SubElement(
        body, "svg", {"viewBox": f"0 0 {width} {height}", "width": "100%", "role": "img", "aria-label": words}
    )
    longest = max(max(bar.begin_us, bar.end_us) for bar in bars) or 1.0
    for number, bar in enumerate(bars):
        top = number * _ROW
        _text(drawing, "text", bar.name, {"x": "0", "y": f"{top + 16}"})
        _text(drawing, "text", bar.label, {"x": f"{_NAMES}", "y": f"{top + 16}"})
        if abs(bar.end_us - bar.begin_us) >= ZERO_US:
            SubElement(drawing, "rect", _rectangle(bar, top, _BARS / longest))


def _rectangle(bar: Bar, top: int, pixels_per_us: float) -> dict[str, str]:
    begin, end = sorted((bar.begin_us, bar.end_us))
    return {
        "x": f"{_NAMES + _LABELS + begin * pixels_per_us:.1f}",
        "y": f"{top + 3}",
        "width": f"{max((end - begin) * pixels_per_us, 1.0):.1f}",
        "height": f"{_ROW - 6}",
        "fill": CAUSE_COLOURS.get(bar.cause, STEP_COLOUR),
    }
