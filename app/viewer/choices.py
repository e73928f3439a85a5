"""Choices as links, which work in a new tab, with the keyboard, and in the history; and notes on arms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dash import dcc, html
from dash.development.base_component import Component

from cctrace.app.terminal import safe
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.elements import attributes


def choice_row(
    title: str, key: str, options: Sequence[tuple[str, str]], chosen: str, state: Address
) -> Component:
    """One line of choices.

    Args:
        title: what is chosen.
        key: the parameter of the address that says so.
        options: (value, text) of each; the first one is what an address without the parameter means.
        chosen: value of the current one.
        state: the address that links change.
    """
    usual = options[0][0] if options else ""
    links = [
        _choice(
            text,
            state.with_(**{key: None if value == usual else value}),
            name=f"choice-{key}-{number}",
            current=value == chosen,
        )
        for number, (value, text) in enumerate(options)
    ]
    return html.Div(
        [html.Span(title, className="faint"), *links],
        className="choices",
        role="group",
        **attributes(aria_label=title),
    )


def choice_rows(rows: Sequence[Component]) -> Component:
    """Several of them."""
    return html.Div(list(rows), className="choice-rows")


def _choice(text: str, to: Address, *, name: str, current: bool) -> Component:
    inside = html.Span(safe(text), **attributes(aria_current="true" if current else "false"))
    return dcc.Link(inside, id=name, href=str(to), className="choice current" if current else "choice")


def notes(of_arms: Iterable[tuple[str, str]]) -> list[Component]:
    """What a reader of the numbers must know; the same of both arms is said once.

    Args:
        of_arms: (what names of the arm's lines begin with, note).
    """
    found: dict[str, list[str]] = {}
    for prefix, note in of_arms:
        found.setdefault(note, []).append(prefix.removesuffix(": "))
    lines = []
    for note, names in found.items():
        whose = " and ".join(name for name in names if name)
        lines.append(f"{whose}: {note}" if whose else note[:1].upper() + note[1:])
    return [html.P(safe(line), className="warning") for line in lines]
