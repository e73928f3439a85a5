"""Charts of copies: time against size, one chart for each direction, both arms in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.copy_law import MIN_COPIES, Law
from cctrace.analyzers.copy_points import CopyGroup, CopyPoints
from cctrace.analyzers.copy_rows import BLOCKING, RETURNED, WAITED, WAITING
from cctrace.analyzers.sentences import bytes_text, plural, time_text
from cctrace.app.palette import ARM_COLOURS, STEP_COLOUR
from cctrace.app.viewer.axes import log_axis, size_axis
from cctrace.app.viewer.charts import ARM_DASHES, ARM_SYMBOLS, figure, plain
from cctrace.app.viewer.copy_choice import CALLS, NONE, ArmCopies, Choice, memory_name
from cctrace.profiles.files import load_profile
from cctrace.profiles.model import SizeTable
from cctrace.profiles.tables import at

HEIGHT: Final = 360
LEGEND_LINE: Final = 10
"""Height that an entry of the legend takes: two share a line, where there is room."""
MAX_DRAWN: Final = 2500
"""Points of one arm in a chart: more are drawn as one where they would cover each other."""
PIXELS_PER_DECADE: Final = 40
"""Closer points cover each other: a marker is 7 pixels wide, a decade about 120."""
_SYMBOLS: Final = {WAITED: "x", BLOCKING: "cross"}
_LINE_POINTS: Final = 60


def chart(arms: Sequence[ArmCopies], choice: Choice, direction: str, ranges: dict[str, Any]) -> go.Figure:
    """Time against size of the copies of one direction.

    Args:
        arms: the arms.
        choice: what is shown of them.
        direction: of the copies.
        ranges: axes that all charts share, of `shared_axes`.
    """
    traces: list[Any] = []
    for one in arms:
        traces += _points(one, choice, direction)
    for one in arms:
        traces += _lines(one, choice, direction)
    traces += _reference(choice, direction, ranges)
    return figure(
        traces,
        y="time in the call" if choice.layer == CALLS else "time on the GPU",
        height=HEIGHT + LEGEND_LINE * len(traces),
        hovermode="closest",
        xaxis={**ranges["x"], "title": {"text": "size of the copy", "standoff": 6}},
        yaxis=ranges["y"],
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
    )


def shared_axes(arms: Sequence[ArmCopies], choice: Choice, directions: Sequence[str]) -> dict[str, Any]:
    """Logarithmic axes that hold all shown points, with ticks in units for people."""
    masks = [np.logical_or.reduce([choice.mask(one, each) for each in directions]) for one in arms]
    size = np.concatenate([one.points.bytes[mask] for one, mask in zip(arms, masks, strict=True)])
    us = np.concatenate([one.points.us[mask] for one, mask in zip(arms, masks, strict=True)])
    return {
        "x": size_axis(float(size.min()), float(size.max())),
        "y": log_axis(float(us.min()), float(us.max()), timed=True),
    }


# ---- points


def _points(one: ArmCopies, choice: Choice, direction: str) -> Iterator[Any]:
    points, chosen = one.points, choice.mask(one, direction)
    for waiting, words in enumerate(WAITING):
        rows = np.flatnonzero(chosen & (points.waiting == waiting))
        if len(rows):
            name = f"{one.prefix}{words}" if choice.layer == CALLS else f"{one.prefix}copy"
            yield _scatter(one, _apart(points, rows), name, _symbol(one.arm, waiting))


def _symbol(arm: str, waiting: int) -> str:
    if waiting == RETURNED:
        return ARM_SYMBOLS[arm]
    return _SYMBOLS[waiting] + ("-open" if ARM_SYMBOLS[arm].endswith("-open") else "")


def _scatter(one: ArmCopies, rows: IntArray, name: str, symbol: str) -> Any:
    points = one.points
    colour = ARM_COLOURS[one.arm]
    return go.Scatter(
        x=points.bytes[rows],
        y=points.us[rows],
        mode="markers",
        name=name,
        marker={
            "symbol": symbol,
            "color": colour,
            "size": np.minimum(7 + 2.0 * np.log10(points.count[rows]), 16),
            "opacity": 0.75,
            "line": {"width": 1.5 if symbol.endswith("-open") else 0.5, "color": colour},
        },
        customdata=[[one.arm, row] for row in points.row[rows].tolist()],
        hovertext=[_hover(one, row) for row in rows.tolist()],
        hoverinfo="text",
    )


def _apart(points: CopyPoints, rows: IntArray) -> IntArray:
    """At most about MAX_DRAWN points: of those that would cover each other the one that stands for most."""
    if len(rows) <= MAX_DRAWN:
        return rows
    cells = np.stack(
        [
            np.floor(np.log10(values[rows]) * PIXELS_PER_DECADE).astype(np.int64)
            for values in (points.bytes, points.us)
        ]
    )
    order = np.lexsort((-points.count[rows], cells[1], cells[0]))
    cells = cells[:, order]
    first = np.concatenate(([True], (cells[:, 1:] != cells[:, :-1]).any(axis=0)))
    return rows[order[first]]


def _hover(one: ArmCopies, row: int) -> str:
    points = one.points
    thread, count = int(points.thread[row]), int(points.count[row])
    parts = [
        f"{one.prefix}{bytes_text(float(points.bytes[row]))}, {time_text(float(points.us[row]))}",
        f"{memory_name(int(points.memory[row]))}, {WAITING[int(points.waiting[row])]}",
    ]
    if thread >= 0:
        parts.append(plain(points.threads[thread].name))
    if count > 1:
        low, high = (time_text(float(end[row])) for end in (points.low_us, points.high_us))
        parts.append(f"one of {plural(count, 'copy')} of {low} to {high}")
    if not points.steady[row]:
        parts.append("outside of steady steps")
    return "<br>".join(parts)


# ---- lines


def law_text(law: Law) -> str:
    """`16.9 µs + bytes ÷ 9.5 GB/s`."""
    fixed = time_text(law.fixed_us)
    return fixed if law.gb_per_s is None else f"{fixed} + bytes ÷ {rate_text(law.gb_per_s)}"


def rate_text(gb_per_s: float) -> str:
    """`9.5 GB/s`."""
    return f"{gb_per_s:.2f} GB/s" if gb_per_s < 10 else f"{gb_per_s:.1f} GB/s"


def _lines(one: ArmCopies, choice: Choice, direction: str) -> Iterator[Any]:
    """The law of each kind of copies; where there is none, its medians."""
    for group in choice.groups(one):
        if group.direction != direction or (one.points.distorted and choice.layer == CALLS):
            continue
        memory = f"{group.host_memory}: " if group.host_memory else ""
        line = _law_line(group) or _median_line(group)
        if line is not None:
            x, y, text, dash = line
            yield go.Scatter(
                x=x,
                y=y,
                mode="lines",
                name=f"{one.prefix}{memory}{text}",
                line={"color": ARM_COLOURS[one.arm], "width": 2, "dash": dash or ARM_DASHES[one.arm]},
                hoverinfo="name",
            )


def _law_line(group: CopyGroup) -> tuple[Any, Any, str, str] | None:
    law = group.fit.law
    known = [row.bytes for row in group.sizes if row.copies]
    if law is None or not known:
        return None
    x = np.geomspace(min(known), max(known), _LINE_POINTS)
    return x, law.at_us(x), law_text(law), ""


def _median_line(group: CopyGroup) -> tuple[Any, Any, str, str] | None:
    """Through the medians; sizes that few copies have would only make it jump."""
    known = [row for row in group.sizes if row.copies >= MIN_COPIES]
    if len(known) < 2:
        return None
    return [row.bytes for row in known], [row.median_us for row in known], "medians by size", "dot"


# ---- a published platform


def _reference(choice: Choice, direction: str, ranges: dict[str, Any]) -> Iterator[Any]:
    """What a platform's profile says of copies in a direction."""
    if choice.profile == NONE or choice.layer != CALLS or direction not in ("h2d", "d2h"):
        return
    profile = load_profile(choice.profile)
    adds = profile.profile.kind == "tolls"
    launch = profile.launch.copy_us.value if adds and profile.launch.copy_us else 0.0
    low, high = (10.0**end for end in ranges["x"]["range"])
    for key, dash in ((f"{direction}_us", "dashdot"), (f"{direction}_pageable_us", "longdashdot")):
        table = profile.entries("pcie").get(key)
        if not isinstance(table, SizeTable):
            continue
        x = np.geomspace(low, high, _LINE_POINTS)
        memory = "pageable" if "pageable" in key else "pinned"
        yield go.Scatter(
            x=x,
            y=at(table, x) + launch,
            mode="lines",
            name=f"{profile.name}, {memory}: {'CC adds' if adds else 'measured'}",
            line={"color": STEP_COLOUR, "width": 2, "dash": dash},
            hoverinfo="name",
        )
