"""`cctrace diff`: what confidential computing adds to a step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("diff")(diff)


def diff(
    on: Annotated[
        Path, typer.Argument(metavar="ON", help="Trace with CC on, or emulated.", show_default=False)
    ],
    off: Annotated[Path, typer.Argument(metavar="OFF", help="Trace with CC off.", show_default=False)],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (docs/schemas/diff.json).")] = False,
) -> None:
    """Compare a run with CC on (or emulated) with one where it is off: toll per call, waiting, remainder."""
    from cctrace.analyzers.diff import compare  # noqa: PLC0415 - `cctrace --help` loads nothing heavy
    from cctrace.analyzers.loading import load  # noqa: PLC0415
    from cctrace.trace import open_trace  # noqa: PLC0415

    result = compare(load(open_trace(on)), load(open_trace(off)))
    from cctrace.app.pipe import ending_with_its_reader  # noqa: PLC0415

    if as_json:
        import json  # noqa: PLC0415

        with ending_with_its_reader():
            typer.echo(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
        return
    from cctrace.app.diff_view import show_diff  # noqa: PLC0415
    from cctrace.app.terminal import console  # noqa: PLC0415

    with ending_with_its_reader():
        show_diff(console(), result)
