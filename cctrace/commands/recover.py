"""`cctrace recover`: make the trace that a killed recording could not write."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("recover")(recover)


def recover(
    folder: Annotated[Path, typer.Argument(metavar="SPOOLDIR", help="Folder that the recording left.")],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Trace file; default: the one of the recording.", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the trace file if it exists.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Do not remove SPOOLDIR afterwards.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Make a trace of what a killed recording left in its spool folder.

    The folder is removed when the trace is in place, unless processes are still being recorded into it.
    """
    import json  # noqa: PLC0415

    from cctrace.collectors.record import recovery  # noqa: PLC0415
    from cctrace.collectors.record.session import describe  # noqa: PLC0415
    from cctrace.terminal import progress, say  # noqa: PLC0415

    done = recovery.recover(
        folder, output, force=force, keep=keep, progress=lambda: progress("writing the trace")
    )
    for line in describe(done.conversion):
        say(line)
    if done.still_running:
        pids = ", ".join(map(str, done.still_running))
        say(f"still being recorded by pid {pids}: {folder} stays; recover again when they have ended")
    if as_json:
        document = {
            "trace": str(done.trace),
            "rows": done.conversion.rows,
            "still_running": list(done.still_running),
            "spool_kept": done.kept,
        }
        typer.echo(json.dumps(document, indent=2))
