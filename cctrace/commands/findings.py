"""`cctrace findings`: what to change so that confidential computing costs less."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cctrace.errors import UnusableInputError

if TYPE_CHECKING:
    from cctrace.analyzers.attribution.result import Attribution
    from cctrace.analyzers.findings import Observation


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("findings")(findings)


def findings(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Trace; of a pair the one with CC on.", show_default=False),
    ],
    off: Annotated[
        Path | None,
        typer.Argument(metavar="[OFF]", help="Trace with CC off, to measure against.", show_default=False),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (docs/schemas/findings.json).")] = False,
) -> None:
    """Look for known costs of confidential computing in a recording, or in a pair, and say what to change."""
    from cctrace.analyzers.findings import find, find_in_pair  # noqa: PLC0415 - `--help` stays light

    seen = observed(file)
    result = find(seen) if off is None else find_in_pair(*attributed(seen, observed(off)))
    from cctrace.app.pipe import ending_with_its_reader  # noqa: PLC0415

    if as_json:
        import json  # noqa: PLC0415

        with ending_with_its_reader():
            typer.echo(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
        return
    from cctrace.app.findings_view import show_findings  # noqa: PLC0415
    from cctrace.app.terminal import console  # noqa: PLC0415

    with ending_with_its_reader():
        show_findings(console(), result)


def observed(file: Path) -> Observation:
    """A recording to look at.

    Raises:
        UnusableInputError: it is no trace, or holds no call and no GPU work in which to find anything.
    """
    from cctrace.analyzers.findings import observe  # noqa: PLC0415
    from cctrace.analyzers.window import nothing_recorded  # noqa: PLC0415
    from cctrace.trace import open_trace  # noqa: PLC0415

    seen = observe(open_trace(file))
    if not len(seen.recording.calls) and not len(seen.recording.gpu):
        raise UnusableInputError(f"{file}: {nothing_recorded(seen.metadata.recording).rstrip('.')}")
    return seen


def attributed(on: Observation, off: Observation) -> tuple[Observation, Observation, Attribution | None]:
    """A pair with what its replay says; None if an arm has no steps to compare."""
    from cctrace.analyzers.attribution.engine import attribute_arms  # noqa: PLC0415

    on_arm, off_arm = on.arm, off.arm
    return on, off, attribute_arms(off_arm, on_arm) if on_arm and off_arm else None
