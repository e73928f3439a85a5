"""The waterfall: off → launch → pcie → overlap → nvlink → residual → on."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.text import Text

from cctrace.analyzers.attribution.result import CAUSES, Breakdown
from cctrace.analyzers.sentences import percent, signed_time, time_text
from cctrace.app.blocks import Bar, Waterfall
from cctrace.app.palette import CAUSE_COLOURS
from cctrace.app.terminal import safe

MIN_BAR_COLUMNS: Final = 16
"""A bar on fewer columns shows nothing; the words beside it then stand alone."""
MAX_BAR_COLUMNS: Final = 80
ZERO_US: Final = 0.005
"""Shorter is written as 0 µs, and drawn as nothing."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_PLAIN: Final = "#"


def waterfall_of(one: Breakdown) -> Waterfall:
    """The bars; of a breakdown without shares, the two steps alone."""
    bars = [Bar("off", "", 0.0, one.off_step_us, time_text(one.off_step_us))]
    reached = one.off_step_us
    for name, us in _parts(one):
        label = f"{signed_time(us)}  {percent(us / one.off_step_us, signed=True)}"
        bars.append(Bar(name, name, reached, reached + us, label))
        reached += us
    on = f"{time_text(one.on_step_us)}  {percent(one.delta_us / one.off_step_us, signed=True)}"
    return Waterfall((*bars, Bar("on", "", 0.0, one.on_step_us, on)))


def _parts(one: Breakdown) -> list[tuple[str, float]]:
    if one.shares is None or one.residual is None:
        return []
    shares = [(cause, getattr(one.shares, cause)) for cause in CAUSES]
    known = [(cause, share.share_us) for cause, share in shares if share is not None]
    return [*known, ("residual", one.residual.total_us)]


def show_waterfall(out: Console, waterfall: Waterfall) -> None:
    """Prints one line a bar: its name, its length in words and, where there is room, the bar."""
    names = max(len(bar.name) for bar in waterfall.bars)
    labels = max(len(bar.label) for bar in waterfall.bars)
    columns = min(out.width - names - labels - 4, MAX_BAR_COLUMNS)
    longest = max(max(bar.begin_us, bar.end_us) for bar in waterfall.bars)
    for bar in waterfall.bars:
        text = Text(f"{safe(bar.name):<{names}}  {bar.label:<{labels}}")
        if columns >= MIN_BAR_COLUMNS and longest > 0:
            drawn = bar_text(bar, longest, columns, plain=not _has_blocks(out))
            text = Text.assemble(text, "  ", (drawn, CAUSE_COLOURS.get(bar.cause, "")))
        text.rstrip()
        out.print(text, soft_wrap=True)


def bar_text(bar: Bar, longest_us: float, columns: int, *, plain: bool = False) -> str:
    """The bar at its place, in eighths of a column; `plain` in whole columns of "#".

    A bar that is not empty shows at least the thinnest mark.

    Args:
        bar: the bar.
        longest_us: what fills all columns, µs.
        columns: columns of the terminal.
        plain: whether the terminal lacks block elements.
    """
    begin, end = sorted(columns * us / longest_us for us in (bar.begin_us, bar.end_us))
    if abs(bar.end_us - bar.begin_us) < ZERO_US:
        return ""
    # Block elements fill a column from its left: the begin of a bar is rounded down, its length is kept.
    before = " " * min(int(begin), columns - 1)
    if plain:
        return before + _PLAIN * max(round(end - begin), 1)
    whole, rest = divmod(max(round(8 * (end - begin)), 1), 8)
    return before + _EIGHTHS[8] * whole + (_EIGHTHS[rest] if rest else "")


def _has_blocks(out: Console) -> bool:
    try:
        _EIGHTHS.encode(out.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
