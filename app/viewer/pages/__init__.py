"""One module for each page: its `PATH` and `TITLE`, what it shows (`layout`), its callbacks (`register`).

A `layout` must be quick: it takes analyses that are not there yet as `Pending`, which the shell waits for. A
page that keeps itself up to date with the parameters of its address sets `OWN_SEARCH`; others are laid out
anew when a parameter changes.
"""

from __future__ import annotations

import importlib
from typing import Final, Protocol, cast

import dash
from dash.development.base_component import Component

from cctrace.app.viewer.address import Address
from cctrace.app.viewer.view import View

NAMES: Final = ("overview", "steps", "timeline", "copies", "collectives", "findings", "environment")
"""The pages, in the order of the navigation."""


class Page(Protocol):
    """A module of this package."""

    PATH: str
    TITLE: str

    def layout(self, view: View, state: Address) -> Component:
        """What is shown. Raises Pending, or UnusableInputError."""

    def register(self, app: dash.Dash, view: View) -> None:
        """Adds the callbacks of the page."""


def pages() -> tuple[Page, ...]:
    """The pages, in the order of the navigation."""
    return tuple(cast("Page", importlib.import_module(f"{__name__}.{name}")) for name in NAMES)
