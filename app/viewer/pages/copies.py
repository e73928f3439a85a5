"""Copies of both arms: time against size, what one costs by size, which of them block, and where."""

from __future__ import annotations

from typing import Any, Final

import dash
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from cctrace.analyzers.copy_law import DRAWS, MAX_MISFIT
from cctrace.analyzers.copy_points import copy_points
from cctrace.analyzers.sentences import percent
from cctrace.app.terminal import safe
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.charts import graph
from cctrace.app.viewer.choices import choice_row, choice_rows, notes
from cctrace.app.viewer.copy_charts import chart, shared_axes
from cctrace.app.viewer.copy_choice import (
    ALL,
    CALLS,
    DIRECTIONS,
    STEADY,
    ArmCopies,
    Choice,
    Options,
    choice_of,
    options_of,
    shown_directions,
)
from cctrace.app.viewer.copy_sizes import size_table
from cctrace.app.viewer.copy_tables import (
    blocking_sites,
    law_table,
    notes_of,
    row_link,
    slowest_table,
    step_table,
)
from cctrace.app.viewer.elements import waiting
from cctrace.app.viewer.jobs import Pending
from cctrace.app.viewer.view import ON, View
from cctrace.errors import CctraceError

PATH: Final = "/copies"
TITLE: Final = "Copies"
_SITES: Final = "copies-sites"


def layout(view: View, state: Address) -> Component:
    """The page. Raises Pending, or UnusableInputError."""
    arms = _arms(view, state)
    if not any(len(one.points) for one in arms):
        return _nothing(arms)
    options = options_of(arms)
    choice = choice_of(state, options)
    return html.Div(
        [
            html.H2("Time against size"),
            _controls(options, choice, state),
            *notes(notes_of(arms, choice)),
            *_charts(arms, choice),
            *_costs(arms, choice),
            *_per_step(arms),
            *_slowest(arms, choice, state),
            *_sites(view),
        ]
    )


def register(app: dash.Dash, view: View) -> None:
    """Adds the way from a point to the timeline, and the sites, which take longer than the rest."""
    for direction in DIRECTIONS:
        _register_clicks(app, view, direction)
    if view.is_pair:
        _register_sites(app, view)


def _register_clicks(app: dash.Dash, view: View, direction: str) -> None:
    @app.callback(
        Output("address", "href", allow_duplicate=True),
        Input(_chart_id(direction), "clickData"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def _open(clicked: dict[str, Any] | None, path: str | None, search: str | None) -> str:
        place = (clicked or {"points": [{}]})["points"][0].get("customdata")
        if not place or place[0] not in {arm.name for arm in view.arms}:
            raise PreventUpdate
        return row_link(Address.parse(path, search), place[0], int(place[1]))


def _register_sites(app: dash.Dash, view: View) -> None:
    @app.callback(Output(_SITES, "children"), Input(_SITES, "id"))
    def _fill(_: str) -> list[Component]:
        try:
            return blocking_sites(view.report(wait=True), view)
        except CctraceError as error:
            return [html.P(safe(f"Cannot tell which places block: {error}."))]


def _arms(view: View, state: Address) -> list[ArmCopies]:
    """The copies of each arm; those of both are computed at the same time."""
    found: list[ArmCopies] = []
    pending: Pending | None = None
    for arm in view.arms:
        run = view.run_of(arm, state)
        try:
            found.append(ArmCopies(arm.name, run, view.of_run(copy_points, run)))
        except Pending as waits:
            pending = waits
    if pending is not None:
        raise pending
    # What is compared with comes before what is compared.
    return sorted(found, key=lambda one: one.arm == ON)


def _nothing(arms: list[ArmCopies]) -> Component:
    texts = []
    for one in arms:
        calls = one.points.calls
        what = f"{calls:,} copies, all of 0 or unknown bytes" if calls else "no copy"
        texts.append(f"{one.prefix}{one.run.name} holds {what}.")
    return html.Div([html.H2("No copies to show"), *(html.P(safe(text)) for text in texts)])


def _controls(options: Options, choice: Choice, state: Address) -> Component:
    wanted = (
        ("Direction", "direction", options.directions, choice.direction),
        ("Host memory", "memory", options.memories, choice.memory),
        ("Thread", "thread", options.threads, choice.thread),
        ("Within", "scope", options.scopes, choice.scope),
        ("Time of", "time", options.layers, choice.layer),
        ("Reference", "profile", options.profiles, choice.profile),
    )
    return choice_rows(
        [choice_row(title, key, of, now, state) for title, key, of, now in wanted if len(of) > 1]
    )


def _charts(arms: list[ArmCopies], choice: Choice) -> list[Component]:
    directions = shown_directions(arms, choice)
    if not directions:
        return [html.P("No copy is as chosen.", className="strong")]
    ranges = shared_axes(arms, choice, directions)
    charts = [
        html.Div(
            graph(
                _chart_id(one),
                chart(arms, choice, one, ranges),
                DIRECTIONS[one][:1].upper() + DIRECTIONS[one][1:],
            ),
            className=("wide", "half", "third")[min(len(directions), 3) - 1],
        )
        for one in directions
    ]
    return [
        html.Div(charts, className="columns"),
        html.P(
            "A point is a copy, or several of nearly its size and time: a larger one stands for more. A "
            "click opens it in the timeline. ✕ and ✚: the call kept its thread waiting. Lines hold the "
            "copies that did not wait, of all threads: the law where one holds, else, dotted, the medians.",
            className="faint",
        ),
    ]


def _chart_id(direction: str) -> str:
    return f"copies-{direction}"


def _costs(arms: list[ArmCopies], choice: Choice) -> list[Component]:
    what = "time in the call" if choice.layer == CALLS else "time on the GPU (CUPTI)"
    where = "within steady steps" if choice.scope == STEADY else "of the whole recording"
    threads = " of all threads" if choice.thread != ALL else ""
    return [
        html.H2("What a copy costs"),
        html.P(
            f"Copies {where}{threads} that did not wait for other work, {what}: fixed cost + bytes ÷ "
            "bandwidth, fitted to the medians by size. In brackets the 95 % interval of this recording "
            f"({DRAWS} draws of its copies). A law that misses a median by more than {percent(MAX_MISFIT)} "
            "is none.",
            className="faint",
        ),
        html.Div(law_table(arms, choice), id="copies-law"),
        html.H3("Median by size"),
        html.Div(size_table(arms, choice), id="copies-medians"),
    ]


def _per_step(arms: list[ArmCopies]) -> list[Component]:
    known = [one for one in arms if one.points.per_step]
    parts: list[Component] = [html.H2("Copies per step")]
    if known:
        parts.append(html.Div(step_table(known), id="copies-per-step"))
        names = {one.arm: one.points.step_class for one in known}
        classes = "; ".join(f"{arm}: {name}" if len(names) > 1 else name for arm, name in names.items())
        parts.append(
            html.P(
                safe(
                    f"Steady steps of the class that stands for each run ({classes}), all threads; waited: "
                    "copies that kept the host waiting, over all these steps."
                ),
                className="faint",
            )
        )
    for one in arms:
        if not one.points.per_step and one.points.no_steps_because is None:
            parts.append(html.P(f"{one.prefix}no copy lies within the steady steps."))
        elif not one.points.per_step:
            parts.append(html.P(f"{one.prefix}cannot tell, because there are no steady steps."))
    return parts


def _slowest(arms: list[ArmCopies], choice: Choice, state: Address) -> list[Component]:
    directions = shown_directions(arms, choice)
    if not directions:
        return []
    return [
        html.H2("Slowest copies"),
        html.Div(slowest_table(arms, choice, directions, state), id="copies-slowest"),
    ]


def _sites(view: View) -> list[Component]:
    if not view.is_pair:
        return []
    return [
        html.H2("Places that block"),
        html.Div(waiting("Comparing the runs"), id=_SITES),
        html.P(dcc.Link("What to change about it", href="/findings?cause=overlap")),
    ]
