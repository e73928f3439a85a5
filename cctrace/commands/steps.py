"""`cctrace steps`: the steps of a recording, one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_LIMIT = 20


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("steps")(steps)


def steps(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trace.", show_default=False)],
    *,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="List the first N steps.")] = DEFAULT_LIMIT,
    everything: Annotated[bool, typer.Option("--all", help="List all steps.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (docs/schemas/steps.json).")] = False,
) -> None:
    """List the steps of a recording with period, submissions and waiting, and their classes."""
    from cctrace.analyzers.loading import load  # noqa: PLC0415 - `cctrace --help` loads nothing heavy
    from cctrace.analyzers.step_list import list_steps  # noqa: PLC0415
    from cctrace.trace import open_trace  # noqa: PLC0415

    result = list_steps(load(open_trace(file)), None if everything else limit)
    from cctrace.app.pipe import ending_with_its_reader  # noqa: PLC0415

    if as_json:
        import json  # noqa: PLC0415

        with ending_with_its_reader():
            typer.echo(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
        return
    from cctrace.app.steps_view import show_steps  # noqa: PLC0415
    from cctrace.app.terminal import console  # noqa: PLC0415

    with ending_with_its_reader():
        show_steps(console(), result)
