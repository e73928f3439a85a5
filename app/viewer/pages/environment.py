"""The environment: the acceptance table of the arms side by side, the recorder, and what it charged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, State, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate
from flask import Flask, Response, request

from cctrace.analyzers.acceptance_table import (
    DIFFERS,
    NEAR,
    PARTLY,
    SAME,
    UNKNOWN,
    AcceptanceTable,
    Area,
    acceptance_table,
)
from cctrace.analyzers.sentences import plural
from cctrace.app.terminal import safe
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.elements import attributes
from cctrace.app.viewer.field_table import MARKS, area_section, mark, section_id, worth_a_look
from cctrace.app.viewer.recorder_parts import recorder_parts
from cctrace.app.viewer.view import OFF, ON, ONE, Arm, Run, View
from cctrace.errors import UnusableInputError

PATH: Final = "/environment"
TITLE: Final = "Environment"
OWN_SEARCH: Final = True
DOCUMENT_PATH: Final = f"{PATH}/metadata.json"
ONLY, DIFFERENCES, FILTER = "only", "differences", "filter"
MAX_FILTER: Final = 100
_ORDER: Final = (OFF, ON, ONE)
"""Arms from left to right: off comes first, as in every table of a comparison."""
_TITLES: Final = {"environment_variables": "Environment variables", "document": "The document itself"}


def layout(view: View, state: Address) -> Component:
    """The page; it reads metadata only, which is in memory."""
    return html.Div(
        [
            html.H2("Acceptance table"),
            *_summary(_table_of(view)),
            _controls(state, several=sum(len(arm.runs) for arm in view.arms) > 1),
            html.Div(_fields(view), id="environment-fields"),
            html.P("No field fits the filter.", id="environment-nothing", hidden=True),
            html.H2("Recorder and emulator"),
            html.Div(_recorders(view, state), id="environment-recorders"),
        ]
    )


def register(app: dash.Dash, view: View) -> None:
    """Adds the filter, and the whole metadata of a recording as a document of its own."""
    _register_document(app.server, view)

    @app.callback(
        Output("address", "search", allow_duplicate=True),
        Input("environment-filter", "value"),
        Input("environment-only", "checked"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def _choose(text: str | None, only: bool | None, path: str | None, search: str | None) -> str:
        state = _here(path, search)
        asked = {FILTER: (text or "")[:MAX_FILTER] or None, ONLY: DIFFERENCES if only else None}
        changed = state.with_(**asked)
        if changed == state:
            raise PreventUpdate
        return changed.search

    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("environment", "filter"),  # assets/environment.js
        Output("environment-nothing", "hidden"),
        Input("address", "search"),
    )

    @app.callback(
        Output("environment-recorders", "children"),
        Input("address", "search"),
        State("address", "pathname"),
        prevent_initial_call=True,
    )
    def _show(search: str | None, path: str | None) -> list[Component]:
        if not any(len(arm.runs) > 1 for arm in view.arms):
            raise PreventUpdate
        return _recorders(view, _here(path, search))

    @app.callback(
        Output("environment-filter", "value", allow_duplicate=True),
        Output("environment-only", "checked", allow_duplicate=True),
        Input("address", "search"),
        State("environment-filter", "value"),
        State("environment-only", "checked"),
        State("address", "pathname"),
        prevent_initial_call=True,
    )
    def _say(search: str | None, text: str | None, only: bool | None, path: str | None) -> tuple[str, bool]:
        """Controls say what the address says, also after going back."""
        shown = _asked(_here(path, search))
        if shown == (text or "", bool(only)):
            raise PreventUpdate
        return shown


def _here(path: str | None, search: str | None) -> Address:
    """The address, if it is still this page's."""
    state = Address.parse(path, search)
    if state.path != PATH:
        raise PreventUpdate
    return state


def _asked(state: Address) -> tuple[str, bool]:
    """Text of the filter, and whether only differences are shown."""
    return state.get(FILTER)[:MAX_FILTER], state.get(ONLY) == DIFFERENCES


def _register_document(server: Flask, view: View) -> None:
    @server.get(DOCUMENT_PATH)
    def _document() -> Response:
        state = Address(PATH, dict(request.args))
        try:
            run = view.run_of(view.arm(state.get("arm", view.arms[0].name)), state)
        except UnusableInputError as error:
            return Response(f"{error}\n", 400, mimetype="text/plain")
        return Response(run.trace.metadata.to_json(indent=2), mimetype="application/json")


# ---- what is shown


def _arms(view: View) -> list[Arm]:
    return sorted(view.arms, key=lambda arm: _ORDER.index(arm.name))


def _table_of(view: View) -> AcceptanceTable:
    return acceptance_table(
        {arm.name: [(str(run.path), run.trace.metadata) for run in arm.runs] for arm in _arms(view)}
    )


def _fields(view: View) -> list[Component]:
    """All areas, and links to them."""
    found = _table_of(view)
    areas, others = (
        [area_section(area, found.arms, _title(area)) for area in several]
        for several in (found.areas, found.others)
    )
    return [_contents(found), *areas, html.Div([html.H2("The recordings"), *others], id="environment-others")]


def _recorders(view: View, state: Address) -> list[Component]:
    """What the recorder says about the recording that is chosen of each arm."""
    runs = [(arm, view.run_of(arm, state)) for arm in _arms(view)]
    return [part for arm, run in runs for part in _of_run(arm, run, pair=view.is_pair)]


def _summary(found: AcceptanceTable) -> Iterable[Component]:
    """How much differs, and what no field stands for: losses, the recorder's tax, emulation."""
    total = sum(len(area.fields) for area in found.areas)
    same, differ, unknown = (
        sum(area.count(*states) for area in found.areas)
        for states in ((SAME, NEAR), (DIFFERS, PARTLY), (UNKNOWN,))
    )
    known = "the same" if len(found.arms) > 1 else "known"
    parts = [f"{same} {known}", *([f"{differ} differ"] if differ else []), f"{unknown} not known"]
    yield html.P(f"{plural(total, 'field')}: {', '.join(parts)}.", className="strong")
    for one in found.observed:
        said = [f"{arm}: {text}" for arm, text in ((OFF, one.off), (ON, one.on)) if text is not None]
        values = f" ({'; '.join(said)})" if said else ""
        yield html.P([mark(*MARKS[one.severity], one.severity), safe(f" {one.message}{values}")])


def _controls(state: Address, *, several: bool) -> Component:
    text, only = _asked(state)
    return html.Div(
        [
            dmc.TextInput(
                id="environment-filter",
                value=text,
                placeholder="name, meaning or value",
                label="Filter fields",
                debounce=400,
                size="sm",
            ),
            dmc.Switch(
                id="environment-only",
                checked=only,
                label="differences only",
                # One recording alone differs from nothing.
                style=None if several else {"display": "none"},
                size="sm",
            ),
        ],
        className="field-controls",
    )


def _contents(found: AcceptanceTable) -> Component:
    """Links to the areas, with how much of them differs."""
    links = []
    for area in (*found.areas, *found.others):
        differ = sum(map(worth_a_look, area.fields))
        words = f"{_title(area)} ({differ} differ)" if differ else _title(area)
        links.append(html.A(words, href=f"#{section_id(area)}", className="choice"))
    return html.Nav(links, className="choices", **attributes(aria_label="Areas"))


def _title(area: Area) -> str:
    return _TITLES.get(area.name, area.name.replace("_", " ").capitalize())


def _of_run(arm: Arm, run: Run, *, pair: bool) -> list[Component]:
    number = arm.runs.index(run)
    link = f"{DOCUMENT_PATH}?arm={arm.name}&run_{arm.name}={number}"
    name = f"{arm.name}: {run.name}" if pair else run.name
    return [
        html.H3(safe(name), className=f"arm arm-{arm.name}"),
        html.P(html.A("All metadata of this recording, as JSON", href=link, target="_blank")),
        *recorder_parts(run.trace.metadata),
    ]
