"""What all charts share. Fonts and grid lines take their colours from the page, by its style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go
from dash import dcc, html

from cctrace.app.palette import ARM_COLOURS
from cctrace.app.terminal import safe
from cctrace.app.viewer.elements import attributes

MAX_TEXT_CHARACTERS: Final = 160
"""Of a text in a chart: kernel symbols can be thousands of characters long."""
HEIGHT: Final = 340
"""Of a chart, pixels."""
_CLEAR: Final = "rgba(0,0,0,0)"
_GREY: Final = "rgba(128,128,128,0.25)"
ARM_SYMBOLS: Final = {"on": "circle", "off": "circle-open", "one": "circle"}
ARM_DASHES: Final = {"on": "solid", "off": "dash", "one": "solid"}
"""Arms differ by more than colour: filled and solid is on, hollow and dashed is off."""


def plain(text: str) -> str:
    """A text of a trace for a chart: Plotly reads some HTML in its texts."""
    shown = safe(text)
    if len(shown) > MAX_TEXT_CHARACTERS:
        shown = shown[: MAX_TEXT_CHARACTERS - 1] + "…"
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def figure(
    traces: Sequence[Any] = (), *, x: str = "", y: str = "", height: int = HEIGHT, **layout: Any
) -> go.Figure:
    """A figure in the style of the viewer.

    Args:
        traces: Plotly traces.
        x: title of the horizontal axis, with its unit.
        y: title of the vertical axis, with its unit.
        height: pixels.
        layout: further layout of Plotly; `xaxis` and `yaxis` extend ours.
    """
    axis = {"gridcolor": _GREY, "zerolinecolor": _GREY, "linecolor": _GREY, "automargin": True}
    return go.Figure(
        list(traces),
        layout={
            "template": "none",
            "height": height,
            "paper_bgcolor": _CLEAR,
            "plot_bgcolor": _CLEAR,
            "font": {"family": "system-ui, sans-serif", "size": 13},
            "margin": {"l": 12, "r": 12, "t": 12, "b": 12},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "hoverlabel": {"namelength": -1},
            "colorway": [ARM_COLOURS["on"], ARM_COLOURS["off"]],
            "xaxis": {**axis, "title": {"text": x}, **layout.pop("xaxis", {})},
            "yaxis": {**axis, "title": {"text": y}, **layout.pop("yaxis", {})},
            **layout,
        },
    )


def graph(name: str, shown: go.Figure, title: str, *, zoom: bool = True) -> html.Figure:
    """A chart on a page: with its title, export buttons, and a name for screen readers.

    Args:
        name: id of the graph; also the name of exported files.
        shown: the figure.
        title: what it shows, a line.
        zoom: whether the wheel and the mouse may zoom.
    """
    buttons = [] if zoom else ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "autoScale2d", "resetScale2d"]
    config: Any = {
        "displaylogo": False,
        "displayModeBar": True,
        "responsive": True,
        "scrollZoom": False,
        "modeBarButtonsToRemove": ["select2d", "lasso2d", *buttons],
        "toImageButtonOptions": {"format": "png", "filename": name, "scale": 2},
    }
    return html.Figure(
        [
            html.Figcaption([title, _export(name)], className="chart-title"),
            html.Div(
                dcc.Graph(id=name, figure=shown, config=config, style={"height": f"{shown.layout.height}px"}),
                role="img",
                **attributes(aria_label=title),
            ),
        ],
        className="chart",
    )


def _export(name: str) -> html.Span:
    """Buttons that save the chart; `assets/export.js` does it."""
    return html.Span(
        [
            html.Button(
                kind.upper(),
                className="export",
                type="button",
                title=f"Save this chart as {kind.upper()}",
                **attributes(data_export=kind, data_graph=name),
            )
            for kind in ("png", "svg")
        ],
        className="exports",
    )
