"""Tables: short ones as HTML, long ones as a grid that sorts, filters and draws only what is in view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import dash_ag_grid as dag
from dash import html
from dash.development.base_component import Component

from cctrace.app.terminal import safe
from cctrace.app.viewer.elements import attributes

MAX_HEIGHT: Final = 480
"""Of a grid, pixels; more rows scroll."""
_ROW: Final = 34
_HEAD: Final = 44


def grid(
    name: str,
    columns: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    *,
    label: str,
    **options: Any,
) -> Component:
    """A grid. Its cells are text: no cell is ever read as HTML.

    Args:
        name: id of the grid.
        columns: definitions of AG Grid: `field`, `headerName`, `type` ("numericColumn") …
        rows: one mapping from `field` to value each.
        label: what the table holds, for screen readers.
        options: further `dashGridOptions`.
    """
    height = min(_HEAD + _ROW * max(len(rows), 1) + 4, MAX_HEIGHT)
    return html.Div(
        dag.AgGrid(
            id=name,
            columnDefs=[dict(column) for column in columns],
            rowData=[
                {key: safe(cell) if isinstance(cell, str) else cell for key, cell in row.items()}
                for row in rows
            ],
            defaultColDef={"sortable": True, "resizable": True, "filter": True, "minWidth": 90},
            columnSize="responsiveSizeToFit",
            dashGridOptions={
                "rowHeight": _ROW,
                "headerHeight": _HEAD,
                "suppressCellFocus": False,
                "animateRows": False,
                "enableCellTextSelection": True,
                **options,
            },
            className="ag-theme-quartz-auto-dark",
            style={"height": f"{height}px"},
        ),
        role="region",
        className="grid",
        **attributes(aria_label=label),
    )


def table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, numbers_from: int = 1, label: str = ""
) -> Component:
    """A short table.

    Args:
        columns: headings.
        rows: texts or components; of texts, control characters are replaced.
        numbers_from: columns from here on hold numbers, aligned right.
        label: what the table holds, for screen readers.
    """

    def kind(index: int) -> str:
        return "number" if index >= numbers_from else ""

    head = [html.Th(name, className=kind(index), scope="col") for index, name in enumerate(columns)]
    shown = [[safe(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    body = [
        html.Tr([html.Td(cell, className=kind(index)) for index, cell in enumerate(row)]) for row in shown
    ]
    # A box that scrolls must be reachable by keyboard.
    return html.Div(
        html.Table([html.Thead(html.Tr(head)), html.Tbody(body)]),
        className="table",
        tabIndex=0,
        role="region",
        **attributes(aria_label=label or "table"),
    )
