"""The frame around every page: header, navigation, the page itself, and what stands there while it waits."""

from __future__ import annotations

import traceback
from typing import Any, Final

import dash
import dash_mantine_components as dmc
from dash import ALL, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from cctrace.app.palette import ARM_COLOURS, CAUSE_COLOURS, STEP_COLOUR
from cctrace.app.terminal import safe
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.elements import attributes, problem, waiting
from cctrace.app.viewer.jobs import Pending
from cctrace.app.viewer.pages import Page
from cctrace.app.viewer.view import Arm, View
from cctrace.errors import CctraceError

MAX_PATH_CHARACTERS: Final = 80
"""Of an address that leads nowhere."""
MAX_NAMES: Final = 20
"""Paths in the tooltip of an arm."""
POLL_MS: Final = 200
"""How often a page asks whether what it waits for is there."""
_RUN: Final = "run-select"


def frame(view: View) -> Component:
    """The layout of the application."""
    framed: Component = dmc.MantineProvider(
        [
            dcc.Location(id="address", refresh="callback-nav"),
            dcc.Interval(id="tick", interval=POLL_MS, disabled=True),
            dcc.Store(id="shown"),
            html.A("Skip to the content", href="#page", className="skip"),
            html.Header(
                [_brand(view), html.Nav(id="nav", **attributes(aria_label="Pages"))], className="head"
            ),
            html.Main(id="page", tabIndex=-1),
        ],
        defaultColorScheme="auto",
        # Darker shades than the usual ones: white words on them can be read.
        theme={"fontFamily": "system-ui, sans-serif", "primaryShade": {"light": 8, "dark": 8}},
    )
    return framed


def _brand(view: View) -> Component:
    arms = [
        html.Span(
            [html.B(f"{arm.name}: " if view.is_pair else ""), _runs_text(arm)],
            className=f"arm arm-{arm.name}",
            title="\n".join(safe(str(run.path)) for run in arm.runs[:MAX_NAMES]),
        )
        for arm in view.arms
    ]
    labels = [html.Span(safe(label), className="label") for label in view.labels]
    runs = html.Span(id="runs", className="runs")
    return html.Div([html.Span("cctrace", className="brand"), *arms, *labels, runs], className="what")


def _runs_text(arm: Arm) -> str:
    first = safe(arm.runs[0].name)
    return first if len(arm.runs) == 1 else f"{len(arm.runs)} recordings, {first} …"


def _selectors(view: View, state: Address) -> list[Component]:
    """One select for each arm with several recordings: which of them pages about one recording show."""
    return [
        dmc.Select(
            id={"type": _RUN, "arm": arm.name},
            data=[{"value": str(number), "label": safe(run.name)} for number, run in enumerate(arm.runs)],
            value=str(arm.runs.index(view.run_of(arm, state))),
            allowDeselect=False,
            size="xs",
            **attributes(aria_label=f"recording of the {arm.name} arm"),
        )
        for arm in view.arms
        if len(arm.runs) > 1
    ]


def navigation(pages: tuple[Page, ...], state: Address) -> list[Component]:
    """Links to the pages. Which recordings are shown goes along."""
    return [
        dcc.Link(
            page.TITLE,
            id=f"nav-{page.TITLE.lower()}",
            href=str(state.elsewhere(page.PATH)),
            className="page-link current" if state.path == page.PATH else "page-link",
        )
        for page in pages
    ]


def register(app: dash.Dash, view: View, pages: tuple[Page, ...]) -> None:
    """Adds the callbacks that show the page of an address."""
    by_path = {page.PATH: page for page in pages}

    @app.callback(
        Output("page", "children"),
        Output("nav", "children"),
        Output("runs", "children"),
        Output("tick", "disabled"),
        Output("tick", "max_intervals"),
        Output("shown", "data"),
        Input("address", "pathname"),
        Input("address", "search"),
        Input("tick", "n_intervals"),
        State("shown", "data"),
    )
    def _route(path: str | None, search: str | None, ticks: int | None, shown: str | None) -> tuple[Any, ...]:
        state = Address.parse(path, search)
        page = by_path.get(state.path)
        now = str(state.elsewhere(state.path))
        stays = _path_of(shown) == state.path and getattr(page, "OWN_SEARCH", False)
        if stays and shown == now:
            raise PreventUpdate
        around = navigation(pages, state), _selectors(view, state)
        if stays:
            return no_update, *around, no_update, no_update, now
        content, waits = _content(page, view, state)
        # One more tick for each answer: ticks that come quicker than answers would outdate all of them.
        once_more = (ticks or 0) + 1
        return content, *around, not waits, once_more, None if waits else now

    if any(len(arm.runs) > 1 for arm in view.arms):
        _register_selectors(app)


def _path_of(address: str | None) -> str:
    return (address or "").partition("?")[0]


def _register_selectors(app: dash.Dash) -> None:
    @app.callback(
        Output("address", "search", allow_duplicate=True),
        Input({"type": _RUN, "arm": ALL}, "value"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def _choose(values: list[str], path: str | None, search: str | None) -> str:
        names = [one["id"]["arm"] for one in ctx.inputs_list[0]]
        chosen = {
            f"run_{name}": None if value == "0" else value for name, value in zip(names, values, strict=True)
        }
        return Address.parse(path, search).with_(**chosen).search


def _content(page: Page | None, view: View, state: Address) -> tuple[Component, bool]:
    """The page, and whether it waits for something."""
    if page is None:
        return problem(
            "There is no such page", f"{safe(state.path[:80])}: choose one of the pages above."
        ), False
    try:
        return page.layout(view, state), False
    except Pending as pending:
        return html.Div([waiting(safe(str(pending))), *pending.meanwhile]), True
    except CctraceError as error:
        return problem("This page cannot be shown", safe(str(error))), False
    except Exception as error:  # a page that fails must not take the viewer with it
        traceback.print_exc()
        what = f"{type(error).__name__}; the terminal of the viewer shows where. Please report it."
        return problem("This page failed", what), False


def colour_variables() -> str:
    """The palette as CSS variables: `--cause-launch`, `--arm-on` …; scripts read no others."""
    causes = [f"--cause-{name}: {colour};" for name, colour in CAUSE_COLOURS.items()]
    arms = [f"--arm-{name}: {colour};" for name, colour in ARM_COLOURS.items()]
    return ":root { " + " ".join([*causes, *arms, f"--step: {STEP_COLOUR};"]) + " }"
