"""Small parts that pages are made of."""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component


def attributes(**given: str) -> dict[str, Any]:
    """HTML attributes with hyphens: `**attributes(aria_label="Pages")`."""
    return {name.replace("_", "-"): value for name, value in given.items()}


def waiting(text: str) -> Component:
    """What stands in the place of something that is being computed."""
    return html.Div([html.Span(className="spinner"), f"{text} …"], className="waiting", role="status")


def problem(title: str, text: str) -> Component:
    """What stands in the place of something that cannot be shown."""
    return html.Div([html.H2(title), html.P(text)], className="problem", role="alert")
