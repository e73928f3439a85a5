"""Charts of collectives: time and bus bandwidth against bytes, both arms in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from cctrace.analyzers.sentences import bytes_text, time_text
from cctrace.app.palette import ARM_COLOURS
from cctrace.app.viewer.axes import log_axis, size_axis
from cctrace.app.viewer.charts import ARM_DASHES, ARM_SYMBOLS, figure, plain
from cctrace.app.viewer.collective_rows import ArmCollectives, Cell, Line
from cctrace.app.viewer.copy_charts import rate_text

HEIGHT: Final = 330
LEGEND_LINE: Final = 11
SYMBOLS: Final = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "pentagon",
    "star",
    "hexagon",
)
"""Operations differ by shape; arms by colour, and by filled and hollow."""

Value = Callable[[Cell], float | None]


def time_chart(arms: Sequence[ArmCollectives], lines: Sequence[Line]) -> go.Figure | None:
    """Time of a collective against its bytes; None if no row has both."""
    return _chart(arms, lines, lambda cell: cell.us, y="time", text=time_text)


def bandwidth_chart(arms: Sequence[ArmCollectives], lines: Sequence[Line]) -> go.Figure | None:
    """Bus bandwidth against bytes; None if it is known of no row."""
    return _chart(
        arms, lines, lambda cell: cell.bandwidth.bus_gb_per_s, y="bus bandwidth, GB/s", text=rate_text
    )


def _chart(
    arms: Sequence[ArmCollectives],
    lines: Sequence[Line],
    value: Value,
    *,
    y: str,
    text: Callable[[float], str],
) -> go.Figure | None:
    operations = list(dict.fromkeys(line.some.operation for line in lines))
    traces: list[Any] = []
    sizes: list[float] = []
    values: list[float] = []
    for number, operation in enumerate(operations):
        for one in arms:
            cells = [
                line.cells[one.arm]
                for line in lines
                if line.some.operation == operation and one.arm in line.cells
            ]
            known = [(cell.row.bytes, value(cell), cell) for cell in cells if cell.row.bytes and value(cell)]
            known.sort(key=lambda point: point[0] or 0)
            if known:
                traces.append(_trace(one, operation, number, known, text))
                sizes += [float(size or 0) for size, _, _ in known]
                values += [found or 0.0 for _, found, _ in known]
    if not traces:
        return None
    axis = log_axis(min(values), max(values), timed=y == "time")
    return figure(
        traces,
        y=y,
        height=HEIGHT + LEGEND_LINE * len(traces),
        hovermode="closest",
        xaxis={**size_axis(min(sizes), max(sizes)), "title": {"text": "bytes of one rank", "standoff": 6}},
        yaxis=axis,
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
    )


def _trace(
    one: ArmCollectives, operation: str, number: int, known: Sequence[Any], text: Callable[[float], str]
) -> Any:
    symbol = SYMBOLS[number % len(SYMBOLS)] + ("-open" if ARM_SYMBOLS[one.arm].endswith("-open") else "")
    colour = ARM_COLOURS[one.arm]
    return go.Scatter(
        x=[size for size, _, _ in known],
        y=[found for _, found, _ in known],
        mode="lines+markers",
        name=f"{one.prefix}{plain(operation)}",
        line={"color": colour, "width": 1.5, "dash": ARM_DASHES[one.arm]},
        marker={"symbol": symbol, "color": colour, "size": 11, "line": {"width": 2, "color": colour}},
        hovertext=[
            f"{one.prefix}{plain(operation)}<br>{bytes_text(float(size))}, {_ranks(cell)}: {text(found)}"
            for size, found, cell in known
        ],
        hoverinfo="text",
    )


def _ranks(cell: Cell) -> str:
    return f"{cell.row.ranks} ranks" if cell.row.ranks else "ranks not known"
