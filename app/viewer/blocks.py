"""Blocks of a report as parts of a page: the same sentences and tables as in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from cctrace.app.blocks import Bar, Block, Cell, Paragraph, Sheet, Title, Waterfall
from cctrace.app.palette import CAUSE_COLOURS, STEP_COLOUR
from cctrace.app.terminal import safe
from cctrace.app.viewer.charts import figure, graph, plain
from cctrace.app.viewer.grid import table

_BAR_HEIGHT = 36
_FRAME_HEIGHT = 70


def components(blocks: Iterable[Block], *, name: str) -> list[Component]:
    """The blocks in order.

    Args:
        blocks: of a report.
        name: begin of the ids of charts.
    """
    return [_component(block, f"{name}-{number}") for number, block in enumerate(blocks)]


def _component(block: Block, name: str) -> Component:
    if isinstance(block, Title):
        return html.H2(safe(block.text)) if block.level == 2 else html.H3(safe(block.text))
    if isinstance(block, Paragraph):
        return html.P(safe(block.text), className=block.tone or None)
    if isinstance(block, Sheet):
        return _table(block)
    return waterfall_graph(f"{name}-waterfall", block)


def _table(sheet: Sheet) -> Component:
    rows = [[_cell(cell, first=not index) for index, cell in enumerate(row)] for row in sheet.rows]
    return table(sheet.columns, rows, numbers_from=sheet.numbers_from, label=", ".join(sheet.columns))


def _cell(cell: str | Cell, *, first: bool) -> str | Component:
    if not isinstance(cell, Cell):
        return cell
    if not first:
        return safe(cell.text)
    colour = CAUSE_COLOURS.get(cell.tone, STEP_COLOUR)
    return html.Span(safe(cell.text), className="cause", style={"borderColor": colour})


def waterfall_graph(
    name: str, waterfall: Waterfall, title: str = "From the off step to the on step"
) -> Component:
    """The waterfall as a chart: a bar for each cause, its name and length in words beside it."""
    bars = waterfall.bars
    return graph(name, _waterfall_figure(bars), title, zoom=False)


def _waterfall_figure(bars: tuple[Bar, ...]) -> go.Figure:
    words = [f"{plain(bar.name)}  {plain(bar.label)}" for bar in bars]
    trace = go.Bar(
        orientation="h",
        y=[plain(bar.name) for bar in bars],
        base=[min(bar.begin_us, bar.end_us) for bar in bars],
        x=[abs(bar.end_us - bar.begin_us) for bar in bars],
        marker={"color": [CAUSE_COLOURS.get(bar.cause, STEP_COLOUR) for bar in bars]},
        text=[plain(bar.label) for bar in bars],
        textposition="outside",
        cliponaxis=False,
        hovertext=words,
        hoverinfo="text",
        showlegend=False,
    )
    longest = max((max(bar.begin_us, bar.end_us) for bar in bars), default=1.0) or 1.0
    return figure(
        [trace],
        x="µs per step",
        height=_BAR_HEIGHT * len(bars) + _FRAME_HEIGHT,
        # Room for the words beside the longest bar.
        xaxis={"range": [0, longest * 1.45], "rangemode": "tozero"},
        yaxis={"autorange": "reversed"},
        bargap=0.35,
    )
