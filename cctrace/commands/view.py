"""`cctrace view`: recordings in a browser."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cctrace.errors import UnusableInputError

if TYPE_CHECKING:
    from cctrace.app.viewer.view import View


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("view")(view)


def view(
    on: Annotated[
        Path,
        typer.Argument(
            metavar="ON", help="Trace, or a folder of runs or ranks; of a pair the one with CC on."
        ),
    ],
    off: Annotated[
        Path | None,
        typer.Argument(
            metavar="[OFF]", help="Trace with CC off, or a folder, to compare with.", show_default=False
        ),
    ] = None,
    *,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="Port; 0: any free one.  [default: 8050, or a free one]"
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host", help="Address to listen on; other machines need the token that is printed then."
        ),
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE", help="Write the overview as one HTML page, and do not serve."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the exported file if it exists.")] = False,
) -> None:
    """Show recordings in a browser: what confidential computing costs, step by step and call by call."""
    from cctrace.app.viewer.view import opened  # noqa: PLC0415 - `--help` loads nothing heavy

    if off is not None and off.resolve() == on.resolve():
        raise UnusableInputError(f"{off}: given twice; a run cannot be compared with itself")
    shown = opened([on], [] if off is None else [off])
    try:
        if export is not None:
            from cctrace.app.viewer.export import write  # noqa: PLC0415
            from cctrace.terminal import say  # noqa: PLC0415

            write(shown, export, force=force)
            say(f"wrote {export}")
            return
        _serve(shown, host, port, browser=browser)
    finally:
        shown.close()


def _serve(shown: View, host: str, port: int | None, *, browser: bool) -> None:
    from cctrace.app.viewer.security import Guard  # noqa: PLC0415
    from cctrace.app.viewer.serve import end_without_waiting, needs_token, serve  # noqa: PLC0415
    from cctrace.app.viewer.server import application  # noqa: PLC0415

    token = secrets.token_urlsafe(24) if needs_token(host) else None
    shown.prepare()
    app = application(shown, Guard(token))
    serve(app.server, host=host, port=port, token=token, browser=browser, say=typer.echo)
    shown.close()
    end_without_waiting()
