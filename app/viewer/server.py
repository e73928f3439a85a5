"""The web application: pages, the timeline's data, and the rules of who may ask."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import dash
from dash.exceptions import DependencyException, InvalidResourceError
from flask import Response

from cctrace.app.viewer import shell, timeline_api
from cctrace.app.viewer.pages import pages
from cctrace.app.viewer.security import Guard
from cctrace.app.viewer.view import View

ASSETS: Final = Path(__file__).with_name("assets")
COLOURS_PATH: Final = "/colours.css"
_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}<title>{%title%}</title>{%favicon%}{%css%}
<link rel="stylesheet" href="/colours.css">
</head>
<body>
{%app_entry%}
<footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>
"""


def application(view: View, guard: Guard) -> dash.Dash:
    """The application; `application(…).server` is its WSGI application.

    Args:
        view: what it shows.
        guard: who may ask.
    """
    app = dash.Dash(
        "cctrace",
        assets_folder=str(ASSETS),
        assets_path_ignore=["^timeline$"],  # timeline.mjs imports what is in there
        serve_locally=True,
        title="cctrace",
        update_title="",
        suppress_callback_exceptions=True,
        index_string=_PAGE,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    app.layout = shell.frame(view)
    shown = pages()
    shell.register(app, view, shown)
    for page in shown:
        page.register(app, view)
    timeline_api.register(app.server, view)

    app.server.add_url_rule(COLOURS_PATH, view_func=_colours)
    # Dash raises these for files of libraries that it does not have: what was asked for is not there.
    app.server.register_error_handler(DependencyException, _not_there)
    app.server.register_error_handler(InvalidResourceError, _not_there)
    guard.install(app.server, list(app.csp_hashes()))
    return app


def _not_there(_: Exception) -> Response:
    return Response("There is no such file.\n", 404, mimetype="text/plain")


def _colours() -> Response:
    return Response(shell.colour_variables(), mimetype="text/css")
