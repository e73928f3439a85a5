"""What to change: each finding as a card, with what it saves, what it rests on, and where to look at that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import dash
from dash import dcc, html
from dash.development.base_component import Component

from cctrace.analyzers.attribution.result import CAUSES
from cctrace.analyzers.findings import Checked, Evidence, Finding, find_in_file
from cctrace.analyzers.findings.find import amount_words
from cctrace.analyzers.findings.result import (
    CANNOT_TELL,
    COST,
    EXPECTED,
    INFORMATION,
    KINDS,
    NOTHING,
    RISK,
    UNKNOWN,
)
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.report.headline import BEGIN_US, CAUSE_NAMES
from cctrace.analyzers.sentences import bytes_text, count_text, percent, plural, time_text
from cctrace.app.terminal import safe
from cctrace.app.viewer.address import TIMELINE, Address
from cctrace.app.viewer.choices import choice_row, choice_rows
from cctrace.app.viewer.elements import attributes
from cctrace.app.viewer.view import ON, ONE, View

PATH: Final = "/findings"
TITLE: Final = "Findings"
MAX_EVIDENCE: Final = 4
"""Places of a finding that a card shows at once; the others are behind a line that opens."""
ALL, NO_CAUSE = "all", "none"
BY_RUN, BY_STEP = "run", "step"
_SORTS: Final = {BY_RUN: "part of the run", BY_STEP: "time per step"}
_KIND_WORDS: Final = {
    COST: ("▼", "costs time"),
    RISK: ("▲", "risk"),
    INFORMATION: ("i", "outside of the steps"),
}
_STEP_WORDS: Final = {"decode": "decode step", "prefill": "prefill step", "mixed": "mixed step"}
AROUND: Final = 0.5
MIN_AROUND_US: Final = 20.0
"""Time on each side of a call that the timeline shows with it: this part of the call, at least so much."""


@dataclass(frozen=True)
class Looked:
    """What was looked at, and what was found.

    Attributes:
        findings: largest part of the run first.
        checked: all that was looked for.
        notes: what a reader should know.
        place: parameters of addresses that lead to the recording the evidence is in.
        off_us: class of steps → mean step of the off arm, µs; empty without one.
        about: which recording or pair it is.
    """

    findings: tuple[Finding, ...]
    checked: tuple[Checked, ...]
    notes: tuple[str, ...]
    place: Mapping[str, str]
    off_us: Mapping[str, float] = field(default_factory=dict)
    about: str = ""


def layout(view: View, state: Address) -> Component:
    """All findings of a pair or of one recording. Raises Pending, or UnusableInputError."""
    looked = _in_pair(view.report(), view) if view.is_pair else _in_one(view, state)
    shown = _sorted(_of_cause(looked.findings, state.get("cause")), _sort_of(state))
    return html.Div(
        [
            html.H2("What to change"),
            html.P(safe(looked.about), className="faint"),
            *([_choices(looked, state)] if looked.findings else [_nothing(looked)]),
            *(_card(one, looked) for one in shown),
            *(html.P(safe(f"{note[:1].upper()}{note[1:]}."), className="faint") for note in looked.notes),
            *_checked(looked.checked),
        ]
    )


def register(app: dash.Dash, view: View) -> None:
    """Nothing: what is shown follows from the address."""


def findings_cards(report: Report, limit: int, view: View | None = None) -> list[Component]:
    """The first findings of a pair as cards, and a link to the others.

    Args:
        report: the comparison.
        limit: cards at most.
        view: the recordings; without it links lead to the first one of the on arm.
    """
    looked = _in_pair(report, view)
    cards = [_card(one, looked) for one in looked.findings[:limit]] or [_nothing(looked)]
    left = len(looked.findings) - limit
    text = f"{plural(left, 'more finding')}, and what was looked for" if left > 0 else "What was looked for"
    return [*cards, html.P(dcc.Link(text, href=PATH))]


# ---- what was looked at


def _in_pair(report: Report, view: View | None) -> Looked:
    pair = report.runs[report.calls_of_pair - 1]
    names = [str(run.path) for run in view.arm(ON).runs] if view is not None else []
    run = names.index(pair.on) if pair.on in names else 0
    several = f" (pair {pair.pair} of {len(report.runs)}, the one nearest to the mean)"
    return Looked(
        findings=report.findings,
        checked=report.checked,
        notes=report.finding_notes,
        place={"arm": ON, **({f"run_{ON}": str(run)} if run else {})},
        off_us={one.on_class: one.off_step_us for one in report.classes},
        about=f"Looked for in {pair.on}, measured against {pair.off}"
        f"{several if len(report.runs) > 1 else ''}.",
    )


def _in_one(view: View, state: Address) -> Looked:
    arm = view.arm(ONE)
    run = view.run_of(arm, state)
    found = view.of_run(find_in_file, run)
    number = arm.runs.index(run)
    return Looked(
        findings=found.findings,
        checked=found.checked,
        notes=found.notes,
        place={"arm": ONE, **({f"run_{ONE}": str(number)} if number else {})},
        about=f"Looked for in {run.path}.",
    )


# ---- what is shown of it


def _cause_of(one: Finding) -> str:
    return one.cause or NO_CAUSE


def _of_cause(findings: Sequence[Finding], cause: str) -> list[Finding]:
    """The findings of a cause; all of them if there are none, as for a word that is no cause."""
    chosen = [one for one in findings if _cause_of(one) == cause]
    return chosen or list(findings)


def _sort_of(state: Address) -> str:
    return state.choice("sort", tuple(_SORTS))


def _sorted(findings: list[Finding], sort: str) -> list[Finding]:
    if sort == BY_RUN:
        return findings
    return sorted(findings, key=lambda one: (KINDS.index(one.kind), -(one.saving.high_us or 0.0)))


def _choices(looked: Looked, state: Address) -> Component:
    """What filters and sorts the findings."""
    counts = Counter(map(_cause_of, looked.findings))
    names = {**{cause: cause for cause in CAUSES}, NO_CAUSE: "other"}
    causes = [(cause, f"{name} {counts[cause]}") for cause, name in names.items() if counts[cause]]
    every = [(ALL, f"all {len(looked.findings)}"), *causes]
    chosen = state.choice("cause", tuple(cause for cause, _ in every))
    return choice_rows(
        [
            choice_row("Cause", "cause", every, chosen, state),
            choice_row("Largest saving first, by", "sort", list(_SORTS.items()), _sort_of(state), state),
        ]
    )


def _nothing(looked: Looked) -> Component:
    unclear = sum(one.outcome == CANNOT_TELL for one in looked.checked)
    text = f"Nothing was found that could be changed; {plural(len(looked.checked), 'thing')} were looked for"
    return html.P(
        f"{text}, of which {unclear} cannot be told." if unclear else f"{text}.", className="strong"
    )


def _card(one: Finding, looked: Looked) -> Component:
    return html.Article(
        [
            html.Div(list(_badges(one)), className="badges"),
            html.H3(one.title),
            *_saving(one, looked),
            html.Ul([_evidence(seen, looked) for seen in one.evidence[:MAX_EVIDENCE]], className="evidence"),
            *_more_evidence(one, looked),
            html.P([html.B("Remedy: "), f"{one.remedy}."]),
            _reasons(one),
        ],
        className="finding",
        style={"borderLeftColor": f"var(--cause-{one.cause})"} if one.cause in CAUSES else {},
    )


def _badges(one: Finding) -> Iterable[Component]:
    icon, words = _KIND_WORDS[one.kind]
    yield html.Span(
        [html.Span(icon, **attributes(aria_hidden="true")), f" {words}"], className=f"badge {one.kind}"
    )
    if one.cause in CAUSES:
        swatch = html.Span(className="swatch", style={"background": f"var(--cause-{one.cause})"})
        yield html.Span([swatch, CAUSE_NAMES[one.cause or ""]], className="badge")
    if one.steps:
        yield html.Span(
            f"in {one.phase} steps" if one.phase in _STEP_WORDS else f"in {safe(one.steps)}",
            className="badge",
        )
    yield html.Span("expected with CC on" if one.state == EXPECTED else "measured", className="badge")


def _saving(one: Finding, looked: Looked) -> Iterable[Component]:
    """What the remedy saves, and of what: of the examined step, and of the off arm's where there is one."""
    saving = one.saving
    if one.kind != COST or saving.high_us is None or saving.low_us is None or not one.step_us:
        yield html.P(f"Saving: cannot tell; {saving.basis}.")
        return
    step = _STEP_WORDS.get(one.phase or "", "step")
    parts = []
    off_us = looked.off_us.get(one.steps or "")
    if off_us:
        parts.append(f"{percent(saving.high_us / off_us)} of the off {step} of {time_text(off_us)}")
    here = "on " if off_us else ""
    parts.append(f"{percent(saving.high_us / one.step_us)} of the {here}{step} of {time_text(one.step_us)}")
    verb = "Costs with CC on, on top of a step" if one.state == EXPECTED else "Saves per step"
    at_most = "at most " if saving.low_us != saving.high_us else ""
    yield html.P(
        [f"{verb}: ", html.B(amount_words(saving)), f" ({at_most}{', '.join(parts)})"], className="saving"
    )
    yield _bar(one, saving.low_us, saving.high_us)


def _bar(one: Finding, low_us: float, high_us: float) -> Component:
    """The saving within the step, drawn; the words before say the same."""
    step_us = max(one.step_us or 0.0, high_us)
    widths = (100 * low_us / step_us, 100 * (high_us - low_us) / step_us)
    colour = f"var(--cause-{one.cause})" if one.cause in CAUSES else "var(--step)"
    least, rest = (
        html.Span(className=name, style={"width": f"{width:.2f}%", "backgroundColor": colour})
        for name, width in zip(("least", "at-most"), widths, strict=True)
    )
    return html.Div([least, rest], className="saving-bar", **attributes(aria_hidden="true"))


def _evidence(seen: Evidence, looked: Looked) -> Component:
    link = timeline_link(seen, looked.place)
    jump: list[str | Component] = (
        [" ", dcc.Link("Show in the timeline", href=link, className="jump")] if link else []
    )
    text = f"{seen.text[:1].upper()}{seen.text[1:]}."
    return html.Li([html.Span(safe(text)), html.Span(safe(_facts(seen)), className="facts faint"), *jump])


def _facts(seen: Evidence) -> str:
    """`scheduler 1519 · call 10 of the step, 420 µs after its begin · 118 calls seen · 64 B`."""
    facts = [seen.thread] if seen.thread else []
    if seen.position is not None and seen.offset_us is not None:
        when = "at" if seen.offset_us < BEGIN_US else f"{time_text(seen.offset_us)} after"
        facts.append(f"call {seen.position + 1} of the step, {when} its begin")
    if seen.call and seen.call not in seen.text:
        facts.append(seen.call)
    if seen.per_step is not None:
        facts.append(f"{count_text(seen.per_step)} a step, {plural(seen.count, 'call')} looked at")
    elif seen.count > 1:
        facts.append(plural(seen.count, "time"))
    if seen.bytes is not None:
        facts.append(bytes_text(seen.bytes))
    if seen.us_per_step is not None:
        facts.append(f"{time_text(seen.us_per_step)} a step")
    return " · ".join(facts)


def timeline_link(seen: Evidence, place: Mapping[str, str]) -> str | None:
    """Address of the timeline at a call that shows evidence; None for what lies outside of steps."""
    example = seen.example
    if example is None:
        return None
    parameters = {**place, "step": str(example.step)}
    if seen.position is not None:  # of several calls a step, the whole step shows more
        call = (example.begin_us, example.begin_us + example.duration_us)
        around = max(AROUND * example.duration_us, MIN_AROUND_US)
        parameters |= {
            "from_us": f"{max(call[0] - around, 0.0):.1f}",
            "to_us": f"{call[1] + around:.1f}",
            "range_us": f"{call[0]:.3f},{call[1]:.3f}",  # the box around the call itself
        }
    return str(Address(TIMELINE, parameters))


def _more_evidence(one: Finding, looked: Looked) -> Iterable[Component]:
    rest = one.evidence[MAX_EVIDENCE:]
    if rest:
        places = html.Ul([_evidence(seen, looked) for seen in rest], className="evidence")
        yield html.Details([html.Summary(f"{plural(len(rest), 'more place')}"), places])


def _reasons(one: Finding) -> Component:
    saving = one.saving
    rows = [html.P(f"Rule {one.rule}.")]
    if saving.kind != UNKNOWN and one.kind == COST:
        rows.append(html.P(f"Saving by {saving.kind}: {saving.basis}."))
    if one.known_from:
        rows.append(html.P(f"Known from: {'; '.join(one.known_from)}."))
    if one.share_of_run and saving.high_us is not None:
        rows.append(
            html.P(f"At most {percent(one.share_of_run)} of the time of all steady steps of this recording.")
        )
    return html.Details([html.Summary("Where this is from"), *rows], className="faint")


def _checked(checked: Sequence[Checked]) -> Iterable[Component]:
    nothing = [one.looks_for for one in checked if one.outcome == NOTHING]
    unclear = [one for one in checked if one.cannot_tell_because]
    if nothing:
        yield html.H2("Looked for, and not found")
        yield html.Ul([html.Li(text) for text in nothing], className="looked-for")
    if unclear:
        yield html.H2("Cannot tell")
        yield html.Ul(
            [html.Li(f"{one.looks_for}: {one.cannot_tell_because}") for one in unclear],
            className="looked-for",
        )
