"""The acceptance table on a page: one section for each area, one row for each field, all arms side by side.

Texts of metadata are data that nobody checked: they are shown as text, long ones behind a line that opens.
All rows are there at once, and `assets/environment.js` hides those that a filter leaves out: hundreds of rows
take long to make anew. For the same reason a row is made of few parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from dash import html
from dash.development.base_component import Component

from cctrace.analyzers.acceptance_table import DIFFERS, NEAR, PARTLY, SAME, UNKNOWN, Area, Field, Said
from cctrace.analyzers.comparability.rules import EXPECTED, FORBIDS, IGNORED, INFORMS, WARNS
from cctrace.analyzers.sentences import plural
from cctrace.app.terminal import safe
from cctrace.app.viewer.elements import attributes

LONG_TEXT: Final = 160
"""Characters of a value beyond which it is cut, with a way to see all."""
GROUP: Final = 6
"""Entries of one object (a package, a GPU) from which on they are put away behind a line that opens."""
NOT_KNOWN: Final = "not known"
MARKS: Final = {
    FORBIDS: ("✕", "forbids shares"),
    WARNS: ("▲", "warns"),
    INFORMS: ("i", "informs"),
    EXPECTED: ("≠", "differs as meant"),
    IGNORED: ("≠", "differs"),
}
"""Severity of a difference → its sign and its words."""
_STATES: Final = {SAME: ("=", "same"), NEAR: ("≈", "nearly the same"), UNKNOWN: ("?", "not known")}

OUTCOMES: Final = ("results", "life_cycle")
"""Areas whose differences are what a comparison is made for, though they are no doubt about it."""


def area_section(area: Area, arms: Sequence[str], heading: str) -> Component:
    """One area.

    Args:
        area: the area.
        arms: names of the arms, as headings.
        heading: title of the section.
    """
    columns = ["field", *(arms if len(arms) > 1 else ["value"]), "difference"]
    if len(arms) == 1 and not any(one.differs for one in area.fields):
        columns.pop()
    rows = [row for name, group in _groups(area.fields) for row in _rows(name, group, columns)]
    left = f"{plural(area.left_out, 'more field')}: the whole document has them." if area.left_out else None
    return html.Section(
        [
            html.H3(heading, id=section_id(area)),
            html.P(f"{area.about}. {counts_text(area, compared=len(arms) > 1)}.", className="faint"),
            _table(columns, rows, heading),
            html.P(left),
        ],
        className="fields",
    )


def section_id(area: Area) -> str:
    """Id of an area's heading, which links lead to."""
    return f"environment-{area.name}"


def counts_text(area: Area, *, compared: bool) -> str:
    """`12 fields: 9 the same, 2 differ, 1 not known`."""
    differ, unknown = area.count(DIFFERS, PARTLY), area.count(UNKNOWN)
    parts = [f"{area.count(SAME, NEAR)} {'the same' if compared or differ else 'known'}"]
    parts += [f"{differ} differ"] if differ else []
    parts += [f"{unknown} not known"] if unknown else []
    return f"{plural(len(area.fields), 'field')}: {', '.join(parts)}"


def _table(columns: Sequence[str], rows: Sequence[Component], label: str) -> Component:
    head = html.Thead(html.Tr([html.Th(name, scope="col") for name in columns]))
    box = html.Table([head, html.Tbody(list(rows))], className=f"arms-{len(columns)}")
    return html.Div(box, className="table", tabIndex=0, role="region", **attributes(aria_label=label))


def _groups(fields: Sequence[Field]) -> Iterable[tuple[str, list[Field]]]:
    """Neighbours whose names begin with the same object, such as one GPU of `gpu_details`."""
    name, group = "", list[Field]()
    for one in fields:
        whole = one.label.rpartition(".")[0]
        if group and whole != name:
            yield name, group
            group = []
        name = whole
        group.append(one)
    if group:
        yield name, group


def _rows(name: str, group: Sequence[Field], columns: Sequence[str]) -> list[Component]:
    rows = []
    said = ""
    for one in group:
        # Entries of one object share its meaning: once is enough.
        rows.append(_row(one, columns, "" if name and one.meaning == said else _meaning(one)))
        said = one.meaning
    if not name or len(group) <= GROUP:
        return rows
    differ = sum(map(worth_a_look, group))
    words = f"{safe(name)}: {plural(len(group), 'field')}" + (f", {differ} differ" if differ else "")
    inner = html.Details([html.Summary(words), _table(columns, rows, name)], open=bool(differ) or None)
    return [html.Tr(html.Td(inner, colSpan=len(columns)), className="group")]


def worth_a_look(one: Field) -> bool:
    """Whether it differs, and not as a time or a reading does between any two recordings."""
    return one.differs and (one.severity != IGNORED or one.name.split(".")[0] in OUTCOMES)


def _meaning(one: Field) -> str:
    if not one.meaning:
        return ""
    return one.meaning + (f" [{one.unit}]" if one.unit else "")


def _row(one: Field, columns: Sequence[str], meaning: str) -> Component:
    name = html.Th([html.Code(safe(one.label)), html.Span(meaning, className="meaning")], scope="row")
    arms = columns[1 : 1 + len(one.said)]
    values = [
        html.Td(_said(said), **attributes(data_column=arm)) for said, arm in zip(one.said, arms, strict=True)
    ]
    verdict = [_verdict(one)] if len(columns) > 1 + len(one.said) else []
    # The filter looks at the words of the row, and at the whole name and the meaning, which it may leave out.
    searched = attributes(data_field=safe(f"{one.name} {one.meaning}"))
    kinds = [*(["differs"] if worth_a_look(one) else []), one.severity or ""]
    return html.Tr([name, *values, *verdict], className=" ".join(kinds).strip() or None, **searched)


def _verdict(one: Field) -> Component:
    if not one.differs:
        sign, words = _STATES[one.state]
        words += ", and it matters" if one.state == UNKNOWN and one.severity else ""
        return html.Td(f"{sign} {words}", className="unmarked")
    sign, words = MARKS[one.severity or IGNORED]
    messages = safe("; ".join(text.removeprefix(f"{one.name} differs: ") for text in one.messages))
    if one.severity == IGNORED:  # nothing to think about: the reason is there on demand
        words = "known in part" if one.state == PARTLY else words
        return html.Td(mark(sign, words, IGNORED), title=messages)
    return html.Td([mark(sign, words, one.severity or ""), f" {messages}"])


def mark(sign: str, words: str, kind: str) -> Component:
    """A sign with its words; `kind` only colours it."""
    return html.Span(f"{sign} {words}", className=f"mark {kind}")


def _said(said: Said) -> str | Component:
    if len(said.texts) == 1:
        return value(said.texts[0])
    entries = [
        html.Li([value(text), html.Span(f" {_runs(runs)}", className="faint")])
        for text, runs in zip(said.texts, said.runs, strict=True)
    ]
    return html.Ul(entries, className="repeats")


def _runs(runs: Sequence[int]) -> str:
    return f"run{'' if len(runs) == 1 else 's'} {', '.join(map(str, runs))}"


def value(text: str | None) -> str | Component:
    """A value; a long one is cut, and opens."""
    if text is None:
        return html.Span(NOT_KNOWN, className="unknown")
    text = safe(text)
    if len(text) <= LONG_TEXT:
        return text
    cut = f"{text[:LONG_TEXT]}…"
    return html.Details(
        [html.Summary([cut, html.Span(" show all", className="more")]), html.Div(text, className="whole")]
    )
