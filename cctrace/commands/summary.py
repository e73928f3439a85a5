"""`cctrace summary`: what one recording says about its server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("summary")(summary)


def summary(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trace.", show_default=False)],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (docs/schemas/summary.json).")] = False,
) -> None:
    """Show step period, submissions, own costs, stalls, copies and start-up of a recording."""
    from cctrace.analyzers.loading import load  # noqa: PLC0415 - `cctrace --help` loads nothing heavy
    from cctrace.analyzers.summary import summarize  # noqa: PLC0415
    from cctrace.trace import open_trace  # noqa: PLC0415

    result = summarize(load(open_trace(file)))
    from cctrace.app.pipe import ending_with_its_reader  # noqa: PLC0415

    if as_json:
        import json  # noqa: PLC0415

        with ending_with_its_reader():
            typer.echo(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
        return
    from cctrace.app.summary_view import show_summary  # noqa: PLC0415
    from cctrace.app.terminal import console  # noqa: PLC0415

    with ending_with_its_reader():
        show_summary(console(), result)
