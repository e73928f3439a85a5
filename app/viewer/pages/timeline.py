"""Timeline: both arms on one axis, aligned at the start of a step.

This is the skeleton. `assets/timeline.mjs` starts when it appears and loads `assets/timeline/`, which asks
`timeline_api` for data, draws, and keeps the state in the address line.
"""

from __future__ import annotations

import json
from typing import Any, Final

import dash
from dash import html
from dash.development.base_component import Component

from cctrace.analyzers.viewport import TONES
from cctrace.app.palette import TONE_COLOURS
from cctrace.app.viewer.address import TIMELINE, Address
from cctrace.app.viewer.elements import attributes
from cctrace.app.viewer.view import ONE, Arm, View

PATH: Final = TIMELINE
TITLE: Final = "Timeline"
OWN_SEARCH: Final = True
API_PATH: Final = "/api/timeline"

_ROOT: Final = "timeline"  # the id that the scripts look for
_KEYS: Final = "timeline-describes"
_DESCRIPTION: Final = (
    "Arrow keys move from mark to mark: left and right within a row, up and down between rows. "
    "W and S zoom, A and D move, 0 shows the whole step, comma and full stop go to other steps, "
    "B goes to the next blocking copy, slash searches, question mark lists all keys."
)
_HINT: Final = (
    "Select a mark to see all that is known of it: click, or press ↓ while the lanes have the focus."
)


def layout(view: View, _: Address) -> Component:
    """The skeleton. The address is the scripts' business."""
    return html.Div(
        [
            html.H2(TITLE, className="timeline-unseen"),
            html.Div(className="timeline-bar"),
            html.Div(
                [
                    html.Div(className="timeline-search", role="search"),
                    html.P("Reading the recording …", className="timeline-note"),
                    html.P(className="timeline-status"),
                ],
                className="timeline-second",
            ),
            _lanes(view),
            html.Ul(className="timeline-legend", **attributes(aria_label="Colours")),
            html.Section(
                html.P(_HINT, className="faint"),
                className="timeline-detail",
                **attributes(aria_label="Selected row"),
            ),
            html.Div(className="timeline-live timeline-unseen", role="status"),
        ],
        id=_ROOT,
        className="timeline",
        style={f"--tone-{key}": colour for key, colour in TONE_COLOURS.items()},
        **_data(view),
    )


def register(app: dash.Dash, view: View) -> None:
    """No callbacks: the scripts ask the routes of `timeline_api`."""


def _lanes(view: View) -> Component:
    """Titles at the left, the canvas, and what floats above it."""
    shown = " and ".join(_title(arm) for arm in view.arms)
    canvas = html.Canvas(
        role="application",
        tabIndex=0,
        **attributes(aria_label=f"Timeline of {shown}", aria_describedby=_KEYS),
    )
    lanes = html.Div(
        [html.Div(className="timeline-gutter"), html.Div(canvas, className="timeline-host")],
        className="timeline-lanes",
    )
    return html.Div(
        [
            html.P(_DESCRIPTION, id=_KEYS, className="timeline-unseen"),
            html.Div(lanes, className="timeline-scroller"),
            html.Div("from the start of the step", className="timeline-corner"),
            html.Div(className="timeline-range", hidden=True),
            html.Div(className="timeline-tip", hidden=True, **attributes(aria_hidden="true")),
        ],
        className="timeline-frame",
    )


def _data(view: View) -> dict[str, Any]:
    """What the scripts need to know, as attributes."""
    arms = [
        {
            "name": arm.name,
            "title": _title(arm),
            "files": [{"file": run.name, "labels": list(run.trace.metadata.labels)} for run in arm.runs],
        }
        for arm in view.arms
    ]
    tones = " ".join(tone.key for tone in TONES)
    return {"data-arms": json.dumps(arms), "data-api": API_PATH, "data-tones": tones}


def _title(arm: Arm) -> str:
    """What an arm is called beside its lanes."""
    return "Recording" if arm.name == ONE else f"CC {arm.name}"
