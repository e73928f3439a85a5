"""The viewer for a server of one's own choice, with several workers.

    CCTRACE_VIEW=on.parquet:off.parquet gunicorn -w 2 cctrace.app.viewer.wsgi:application

`CCTRACE_VIEW` holds one recording or folder, or two: on, then off. With `CCTRACE_VIEW_TOKEN` set, a browser
must show that token, and other machines may ask; without it only programs of this machine may.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import Final

from flask import Flask

from cctrace.app.viewer.security import Guard
from cctrace.app.viewer.server import application as _application
from cctrace.app.viewer.view import opened
from cctrace.errors import UnusableInputError

FILES_VARIABLE: Final = "CCTRACE_VIEW"
TOKEN_VARIABLE: Final = "CCTRACE_VIEW_TOKEN"  # noqa: S105 - the name of a variable


def from_environment() -> Flask:
    """The WSGI application. Raises UnusableInputError."""
    paths = [Path(text) for text in os.environ.get(FILES_VARIABLE, "").split(os.pathsep) if text]
    if not 1 <= len(paths) <= 2:
        raise UnusableInputError(f"{FILES_VARIABLE}: name one recording, or two as ON{os.pathsep}OFF")
    view = opened(paths[:1], paths[1:])
    atexit.register(view.close)
    guard = Guard(os.environ.get(TOKEN_VARIABLE) or None)
    server: Flask = _application(view, guard).server
    return server


application: Final = from_environment()
