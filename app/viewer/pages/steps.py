"""The steps of both arms: over time, by class, the slowest ones, and a way to each in the timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import dash
import dash_mantine_components as dmc
import numpy as np
from dash import ALL, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from cctrace.analyzers.sentences import plural
from cctrace.analyzers.steady import EXCLUSIONS, STEADY
from cctrace.app.summary_view import how_found
from cctrace.app.terminal import safe
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.charts import graph
from cctrace.app.viewer.elements import attributes, problem
from cctrace.app.viewer.step_charts import over_time, whole_span
from cctrace.app.viewer.step_choice import ArmSteps, Choice, Group, arms_of, choice_of, groups_of
from cctrace.app.viewer.step_controls import (
    CONTROLS,
    PROCESS,
    WHOLE,
    address_of,
    control_values,
    metric_control,
    over_time_controls,
    zoomed,
)
from cctrace.app.viewer.step_distributions import (
    MIN_DRAWN,
    Facet,
    drawn_of,
    ecdfs,
    facets_of,
    histograms,
    quantile_table,
)
from cctrace.app.viewer.step_links import slowest, timeline_address
from cctrace.app.viewer.view import View

PATH: Final = "/steps"
TITLE: Final = "Steps"
OWN_SEARCH: Final = True
"""A zoom changes the address: the page must not be laid out anew under the mouse."""
_CAPTION: Final = (
    "A point is a step: a click opens it in the timeline. Drag to zoom; double-click beside the points to "
    "see all. Faint: steps that do not count."
)
_RECORDINGS: Final = ("run_", "pid_")
"""What parameters begin with that say which steps there are to choose from."""


def layout(view: View, state: Address) -> Component:
    """The page. Raises Pending."""
    return html.Div(_content(view, state, wait=False), id="steps-page")


def _content(view: View, state: Address, *, wait: bool) -> list[Component]:
    arms, reasons = arms_of(view, state, wait=wait)
    cannot = [problem("No steps to show", reason) for reason in reasons]
    if not arms:
        return cannot
    groups = groups_of(arms)
    choice = choice_of(state, arms, groups)
    return [
        dcc.Store(id="steps-recordings", data=_recordings(state)),
        dcc.Store(id="steps-distributed", data=_distributed(choice)),
        *cannot,
        *_over_time(arms, groups, choice),
        *_distributions(arms, groups, choice),
        html.H2("Slowest steps"),
        _open_form(arms),
        html.P(
            "The longest of the chosen steps of each arm, steady ones and hiccups; without warm-up, pauses "
            "and set-up. The median is that of the arm's steady steps of the class.",
            className="faint",
        ),
        html.Div(slowest(arms, choice, state), id="steps-slowest"),
    ]


def _recordings(state: Address) -> dict[str, str]:
    return {key: value for key, value in state.parameters.items() if key.startswith(_RECORDINGS)}


def _distributed(choice: Choice) -> list[str]:
    """What the distributions depend on: a zoom does not change them."""
    return [choice.metric.key, choice.y, choice.group.key]


def _over_time(arms: Sequence[ArmSteps], groups: Sequence[Group], choice: Choice) -> list[Component]:
    figure, notes = over_time(arms, choice)
    return [
        html.H2("Steps over time"),
        over_time_controls(arms, groups, choice),
        graph("steps-chart", figure, _CAPTION),
        html.Div(_notes(notes), id="steps-notes"),
        *_notes([_how_found(one) for one in arms]),
    ]


def _how_found(steps: ArmSteps) -> str:
    process = steps.process
    counts = np.bincount(process.exclusion, minlength=len(EXCLUSIONS))
    excluded = {
        word: int(counts[code]) for code, word in enumerate(EXCLUSIONS) if code != STEADY and counts[code]
    }
    found = how_found(process.origin, process.anchor, process.confidence, len(process), excluded)
    return f"{steps.prefix}{safe(found)}"


def _notes(notes: Sequence[str]) -> list[Component]:
    return [html.P(note, className="faint") for note in notes]


def _distributions(arms: Sequence[ArmSteps], groups: Sequence[Group], choice: Choice) -> list[Component]:
    facets = facets_of(arms, groups, choice)
    bars, notes = histograms(facets, choice)
    charts = [
        graph("steps-histogram", bars, "Histogram: part of the arm's steady steps in each bin", zoom=False),
        graph("steps-ecdf", ecdfs(facets, choice), "ECDF: part of them up to each value", zoom=False),
    ]
    return [
        html.H2("Distribution by step class"),
        html.Div(metric_control(arms, choice), className="step-controls"),
        html.Div([html.Div(one, className="half") for one in charts], className="columns"),
        html.Div(_distribution_notes(facets, notes), id="steps-distribution-notes"),
        html.Div(quantile_table(facets, arms, choice), id="steps-quantiles"),
    ]


def _distribution_notes(facets: Sequence[Facet], notes: Sequence[str]) -> list[Component]:
    if not facets:
        return [html.P("Cannot tell a distribution, because none of the chosen steps is steady.")]
    texts = [
        "Steady steps only: warm-up, hiccups, pauses, allocations and captures are left out. 100 %: the "
        "arm's steady steps of the class, of the whole recording.",
        *notes,
    ]
    left = len(facets) - len(drawn_of(facets))
    if left:
        why = f"with less time, or fewer than {MIN_DRAWN} steady steps"
        texts.append(f"Only in the table: {plural(left, 'class')} {why}.")
    return _notes(texts)


def _open_form(arms: Sequence[ArmSteps]) -> Component:
    """Opens any step without a mouse."""
    which = dmc.SegmentedControl(
        id="steps-open-arm",
        data=[{"value": one.arm, "label": one.arm} for one in arms],
        value=arms[0].arm,
        size="sm",
        display="none" if len(arms) == 1 else None,
        **attributes(aria_label="Arm of the step"),
    )
    number = dmc.NumberInput(
        id="steps-open-number",
        placeholder="step",
        value="",
        min=0,
        max=max(len(one.process) for one in arms) - 1,
        allowDecimal=False,
        hideControls=True,
        # The number goes along with Enter; without, it would be sent a moment later.
        debounce=True,
        size="sm",
        w=110,
        **attributes(aria_label="Number of the step to open"),
    )
    button = dmc.Button("Open in the timeline", id="steps-open", variant="default", size="sm")
    return html.Div([which, number, button], className="step-form")


def register(app: dash.Dash, view: View) -> None:
    """Adds the callbacks: controls and address, charts, and the ways to the timeline."""
    _register_controls(app, view)
    _register_content(app, view)
    _register_links(app, view)


def _here(path: str | None, search: str | None) -> Address:
    """The address, if it is still this page's."""
    state = Address.parse(path, search)
    if state.path != PATH:
        raise PreventUpdate
    return state


def _chosen(view: View, state: Address) -> tuple[list[ArmSteps], tuple[Group, ...], Choice]:
    arms, _ = arms_of(view, state, wait=True)
    if not arms:
        raise PreventUpdate
    groups = groups_of(arms)
    return arms, groups, choice_of(state, arms, groups)


def _register_controls(app: dash.Dash, view: View) -> None:
    @app.callback(
        Output("address", "search", allow_duplicate=True),
        {key: Input(*place) for key, place in CONTROLS.items()},
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def _control(controls: dict[str, Any], path: str | None, search: str | None) -> str:
        return _changed(view, _here(path, search), controls)

    @app.callback(
        Output("address", "search", allow_duplicate=True),
        Input("steps-chart", "relayoutData"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def _zoom(moved: dict[str, Any] | None, path: str | None, search: str | None) -> str:
        state = _here(path, search)
        arms, _, choice = _chosen(view, state)
        return _changed(view, state, zoomed(control_values(choice), moved, whole_span(arms, choice)))

    @app.callback(
        Output("address", "search", allow_duplicate=True),
        Input(WHOLE, "n_clicks"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def _show_all(clicks: int | None, path: str | None, search: str | None) -> str:
        if not clicks:
            raise PreventUpdate
        return _new(_here(path, search), _here(path, search).with_(x0=None, x1=None))

    @app.callback(
        Output("address", "search", allow_duplicate=True),
        Input({"type": PROCESS, "arm": ALL}, "value"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def _process(pids: list[str], path: str | None, search: str | None) -> str:
        names = [one["id"]["arm"] for one in ctx.inputs_list[0]]
        chosen = {f"pid_{name}": pid for name, pid in zip(names, pids, strict=True)}
        return _new(_here(path, search), _here(path, search).with_(**chosen))

    @app.callback(
        {key: Output(*place, allow_duplicate=True) for key, place in CONTROLS.items()},
        Input("address", "search"),
        State("address", "pathname"),
        prevent_initial_call=True,
    )
    def _show(search: str | None, path: str | None) -> dict[str, Any]:
        """Controls say what the address says, also after going back."""
        return _shown(view, _here(path, search))


def _shown(view: View, state: Address) -> dict[str, Any]:
    return control_values(_chosen(view, state)[2])


def _changed(view: View, state: Address, controls: dict[str, Any]) -> str:
    arms, groups, _ = _chosen(view, state)
    return _new(state, address_of(state, controls, choice_of(Address(PATH), arms, groups)))


def _new(state: Address, changed: Address) -> str:
    """The parameters of a changed address; nothing happens if they are the same."""
    if changed.parameters == state.parameters:
        raise PreventUpdate
    return changed.search


def _register_content(app: dash.Dash, view: View) -> None:
    @app.callback(
        Output("steps-page", "children"),
        Input("address", "search"),
        State("address", "pathname"),
        State("steps-recordings", "data"),
        prevent_initial_call=True,
    )
    def _other_recordings(search: str | None, path: str | None, shown: dict[str, str]) -> list[Component]:
        state = _here(path, search)
        if _recordings(state) == shown:
            raise PreventUpdate
        return _content(view, state, wait=True)

    @app.callback(
        Output("steps-chart", "figure"),
        Output("steps-chart", "style"),
        Output("steps-notes", "children"),
        Input("address", "search"),
        State("address", "pathname"),
        prevent_initial_call=True,
    )
    def _chart(search: str | None, path: str | None) -> tuple[Any, ...]:
        arms, _, choice = _chosen(view, _here(path, search))
        figure, notes = over_time(arms, choice)
        return figure, _height(figure), _notes(notes)

    @app.callback(
        Output("steps-histogram", "figure"),
        Output("steps-histogram", "style"),
        Output("steps-ecdf", "figure"),
        Output("steps-ecdf", "style"),
        Output("steps-distribution-notes", "children"),
        Output("steps-quantiles", "children"),
        Output("steps-slowest", "children"),
        Output("steps-distributed", "data"),
        Input("address", "search"),
        State("address", "pathname"),
        State("steps-distributed", "data"),
        prevent_initial_call=True,
    )
    def _distribution(search: str | None, path: str | None, shown: list[str]) -> tuple[Any, ...]:
        state = _here(path, search)
        arms, groups, choice = _chosen(view, state)
        if _distributed(choice) == shown:
            raise PreventUpdate
        facets = facets_of(arms, groups, choice)
        bars, notes = histograms(facets, choice)
        curves = ecdfs(facets, choice)
        return (
            bars,
            _height(bars),
            curves,
            _height(curves),
            _distribution_notes(facets, notes),
            quantile_table(facets, arms, choice),
            slowest(arms, choice, state),
            _distributed(choice),
        )


def _height(figure: Any) -> dict[str, str]:
    return {"height": f"{figure.layout.height}px"}


def _register_links(app: dash.Dash, view: View) -> None:
    @app.callback(
        Output("address", "href", allow_duplicate=True),
        Input("steps-chart", "clickData"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def _open_point(clicked: dict[str, Any] | None, path: str | None, search: str | None) -> str:
        if not clicked:
            raise PreventUpdate
        arm, _, step = str(clicked["points"][0].get("customdata", "")).partition(" ")
        try:
            return _timeline(view, _here(path, search), arm, int(step or -1))
        except _NoSuchStepError:
            raise PreventUpdate from None

    @app.callback(
        Output("address", "href", allow_duplicate=True),
        Output("steps-open-number", "error"),
        Input("steps-open", "n_clicks"),
        Input("steps-open-number", "n_submit"),
        State("steps-open-arm", "value"),
        State("steps-open-number", "value"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def _open_number(*given: Any) -> tuple[Any, str]:
        clicks, entered, arm, step, path, search = given
        if not (clicks or entered):
            raise PreventUpdate
        try:
            return _timeline(view, _here(path, search), arm, step), ""
        except _NoSuchStepError as error:
            return no_update, str(error)


class _NoSuchStepError(Exception):
    """The message says which steps there are."""


def _timeline(view: View, state: Address, arm: Any, step: Any) -> str:
    """The address of a step in the timeline. Raises _NoSuchStepError."""
    for one in _chosen(view, state)[0]:
        if one.arm != arm:
            continue
        if isinstance(step, int) and 0 <= step < len(one.process):
            return str(timeline_address(state, one, step))
        raise _NoSuchStepError(f"0 to {len(one.process) - 1}")
    raise _NoSuchStepError("no such arm")
