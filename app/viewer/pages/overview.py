"""The first page: the sentence that matters, the waterfall, doubts, and what to change."""

from __future__ import annotations

from typing import Final

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, html
from dash.development.base_component import Component

from cctrace.analyzers.attribution.result import Breakdown
from cctrace.analyzers.summary import summary_of
from cctrace.app.attribution_view import opening_blocks
from cctrace.app.detail_view import other_blocks, run_blocks, site_blocks
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.blocks import components, waterfall_graph
from cctrace.app.viewer.elements import attributes
from cctrace.app.viewer.jobs import Pending
from cctrace.app.viewer.overview_blocks import ALL, number_blocks, part_blocks, recording_blocks
from cctrace.app.viewer.pages.findings import findings_cards
from cctrace.app.viewer.view import ONE, View
from cctrace.app.waterfall import waterfall_of

PATH: Final = "/"
TITLE: Final = "Overview"
MAX_FINDINGS: Final = 3


def layout(view: View, state: Address) -> Component:
    """The overview of a pair, or of one recording. Raises Pending."""
    try:
        content = _of_pair(view, state) if view.is_pair else _of_one(view, state)
    except Pending as pending:
        raise Pending(str(pending), [_recordings(view)]) from None
    return html.Div([*content, _recordings(view)])


def register(app: dash.Dash, view: View) -> None:
    """Adds the choice of a phase."""
    if not view.is_pair:
        return

    @app.callback(
        Output("address", "search", allow_duplicate=True),
        Input("overview-phase", "value"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def _choose(phase: str, path: str | None, search: str | None) -> str:
        return Address.parse(path, search).with_(phase=None if phase == ALL else phase).search


def _of_pair(view: View, state: Address) -> list[Component]:
    report = view.report()
    parts = {ALL: report, **dict(report.phases.found())}
    phase = state.choice("phase", tuple(parts))
    one = parts[phase]
    opening = components(opening_blocks(report), name="overview-opening")
    return [
        html.Section(opening, className="verdict", **attributes(aria_label="Verdict")),
        html.H2(f"From the off step to the on step ({_steps_words(phase)})"),
        _phase_choice(parts, phase),
        html.Div(
            [
                html.Div(waterfall_graph("overview-waterfall", waterfall_of(one)), className="wide"),
                html.Div(
                    components(number_blocks(view, report, one), name="overview-numbers"), className="narrow"
                ),
            ],
            className="columns",
        ),
        *components(part_blocks(report, one, phase), name="overview-shares"),
        html.H2("What to change"),
        *findings_cards(report, MAX_FINDINGS, view),
        *components((*site_blocks(report), *run_blocks(report), *other_blocks(report)), name="overview-rest"),
    ]


def _steps_words(phase: str) -> str:
    return "all compared steps" if phase == ALL else f"{phase} steps"


def _phase_choice(parts: dict[str, Breakdown], phase: str) -> Component:
    names = [ALL, *(name for name in parts if name != ALL)]
    control: Component = dmc.SegmentedControl(
        id="overview-phase", data=[{"value": name, "label": name} for name in names], value=phase, size="sm"
    )
    return control


def _of_one(view: View, state: Address) -> list[Component]:
    from cctrace.app.summary_view import summary_blocks  # noqa: PLC0415

    summary = view.of_run(summary_of, view.run_of(view.arm(ONE), state))
    return components(summary_blocks(summary), name="overview-summary")


def _recordings(view: View) -> Component:
    """Which files are shown: known before anything is computed."""
    return html.Section(components(recording_blocks(view), name="overview-recordings"))
