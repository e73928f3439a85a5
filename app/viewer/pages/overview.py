"""The first page: the sentence that matters, the waterfall, doubts, and what to change."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, html
from dash.development.base_component import Component

from cctrace.analyzers.attribution.result import Breakdown
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.sentences import count_text, percent, plural, signed_time, time_text
from cctrace.analyzers.summary import summary_of
from cctrace.app.attribution_view import opening_blocks, share_blocks
from cctrace.app.blocks import Paragraph
from cctrace.app.detail_view import other_blocks, run_blocks, site_blocks
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.blocks import components, waterfall_graph
from cctrace.app.viewer.elements import attributes
from cctrace.app.viewer.grid import table
from cctrace.app.viewer.jobs import Pending
from cctrace.app.viewer.pages.findings import findings_cards
from cctrace.app.viewer.view import OFF, ON, ONE, Arm, View
from cctrace.app.waterfall import waterfall_of

PATH: Final = "/"
TITLE: Final = "Overview"
ALL: Final = "all"
MAX_FINDINGS: Final = 3
_DASH: Final = "–"
_RESULTS: Final = (
    ("tpot_ms", "TPOT, median", "ms"),
    ("ttft_ms", "TTFT, median", "ms"),
    ("output_throughput", "output throughput", "tokens/s"),
    ("request_throughput", "request throughput", "requests/s"),
    ("goodput", "goodput", "requests/s"),
)
"""What a load generator measured, as far as it was attached to the recordings."""


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
                html.Div(_numbers(view, report, one), className="narrow"),
            ],
            className="columns",
        ),
        *_shares(report, one, phase),
        html.H2("What to change"),
        *findings_cards(report, MAX_FINDINGS),
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


def _shares(report: Report, one: Breakdown, phase: str) -> list[Component]:
    refused = [
        Paragraph(f"Cannot attribute, because {reason}.", "warning")
        for reason in one.refused_because
        if one is not report  # the opening has said those
    ]
    notes = [Paragraph(f"- {note}.", "faint") for note in one.notes]
    left = [Paragraph(f"- without a counterpart: {text}.", "faint") for text in report.not_compared]
    blocks = (*refused, *share_blocks(one), *notes, *(left if phase == ALL else ()))
    return components(blocks, name="overview-shares")


def _numbers(view: View, report: Report, one: Breakdown) -> list[Component]:
    """The step and what a load generator measured, with denominators."""
    growth = one.on_step_us / one.off_step_us
    rows = [
        [
            "mean step",
            time_text(one.off_step_us),
            time_text(one.on_step_us),
            percent(growth - 1, signed=True),
        ],
        ["compared steps", count_text(one.off_steps), count_text(one.on_steps), ""],
        *_results(view),
    ]
    throughput = percent(1 - 1 / growth) if growth else _DASH
    return [
        table(("", "off", "on", "on ÷ off − 1"), rows, label="Steps and results of both arms"),
        html.P(
            f"{signed_time(one.delta_us)} a step. Step growth {percent(growth - 1, signed=True)} = on ÷ off "
            f"− 1, of the off arm's step. Throughput loss {throughput} = 1 − on ÷ off, of the off arm's "
            "tokens per second at equal batch.",
        ),
        html.P(f"100 %: {one.denominator}.", className="faint"),
        *([html.P(f"Intervals: {report.ci_kind}.", className="faint")] if report.ci_kind else []),
        *_no_results(view),
    ]


def _results(view: View) -> list[list[str]]:
    rows = []
    for key, name, unit in _RESULTS:
        off, on = (_mean(view.arm(arm), key) for arm in (OFF, ON))
        if off is None and on is None:
            continue
        change = percent(on / off - 1, signed=True) if off and on is not None else _DASH
        rows.append(
            [f"{name}, {unit}", *(_DASH if one is None else _number(one) for one in (off, on)), change]
        )
    return rows


def _number(value: float) -> str:
    """Four digits, and no power of ten."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _no_results(view: View) -> list[Component]:
    if _results(view):
        return []
    text = "TPOT and throughput: not known: no load generator's results are attached (record --results)."
    return [html.P(text, className="faint")]


def _mean(arm: Arm, key: str) -> float | None:
    found = [getattr(run.trace.metadata.acceptance.results, key) for run in arm.runs]
    known = [float(one) for one in found if one is not None]
    return statistics.fmean(known) if known else None


def _of_one(view: View, state: Address) -> list[Component]:
    from cctrace.app.summary_view import summary_blocks  # noqa: PLC0415

    summary = view.of_run(summary_of, view.run_of(view.arm(ONE), state))
    return components(summary_blocks(summary), name="overview-summary")


def _recordings(view: View) -> Component:
    """Which files are shown: known before anything is computed."""
    rows = [
        [
            arm.name,
            run.name,
            f"CC {run.trace.metadata.acceptance.security.cc_mode or 'not known'}",
            run.trace.metadata.acceptance.hardware.gpu_model or "not known",
            run.trace.metadata.recording.started_at or "not known",
            f"{run.trace.num_rows:,}",
        ]
        for arm in view.arms
        for run in arm.runs
    ]
    columns = ("arm", "recording", "state", "GPU", "recorded at", "rows")
    unusable: Sequence[str] = [line for arm in view.arms for line in arm.unusable]
    problems = [html.P(f"! left out: {line}", className="warning") for line in unusable]
    counted = plural(len(rows), "recording")
    return html.Section([html.H2(counted), table(columns, rows, numbers_from=5, label=counted), *problems])
