"""`cctrace diff`: what confidential computing adds to a step, by cause."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from cctrace.errors import EXIT_GATE_FAILED, UnusableInputError

if TYPE_CHECKING:
    from cctrace.analyzers.report.document import Report

SEVERAL: Final = ("--on", "--off", "--tee-only")
"""Options that take all words up to the next option."""
VIEWS: Final = ("phase", "class", "thread")
_PERCENT: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*%?")
"""Longer numbers are mistakes, and very long ones would be infinite."""


class SeveralFilesCommand(TyperCommand):
    """A command whose options for files take several: `--on A B C`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses `--on A B` as `--on A --on B`."""
        return super().parse_args(ctx, one_by_one(args))


def one_by_one(words: list[str]) -> list[str]:
    """The words of a command line, with the name of an option of SEVERAL before each of its values."""
    spread: list[str] = []
    option = ""
    for number, word in enumerate(words):
        if word.startswith("-") and word != "-":
            if word == "--":
                return [*spread, *words[number:]]
            option = word if word in SEVERAL else ""
            if option and (number + 1 == len(words) or words[number + 1].startswith("-")):
                spread.append(word)  # without a value: the parser says so
        elif option:
            spread += [option, word]
        if not option:
            spread.append(word)
    return spread


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("diff", cls=SeveralFilesCommand)(diff)


def diff(
    on: Annotated[
        Path | None, typer.Argument(metavar="ON", help="Trace with CC on, or emulated; or a folder of runs.")
    ] = None,
    off: Annotated[
        Path | None, typer.Argument(metavar="OFF", help="Trace with CC off; or a folder of runs.")
    ] = None,
    *,
    on_runs: Annotated[
        list[Path] | None,
        typer.Option("--on", metavar="FILE…", help="Repeated runs with CC on: files or folders."),
    ] = None,
    off_runs: Annotated[
        list[Path] | None,
        typer.Option("--off", metavar="FILE…", help="Repeated runs with CC off, paired in recorded order."),
    ] = None,
    tee_only: Annotated[
        list[Path] | None,
        typer.Option(
            "--tee-only",
            metavar="FILE…",
            help="Runs in the trusted VM with the GPU's CC off: split VM and GPU.",
        ),
    ] = None,
    kernel_times: Annotated[
        Path | None,
        typer.Option(
            "--kernel-times",
            metavar="FILE",
            help="Recording of the off arm with --gpu nodes: kernel times for arms that have none.",
        ),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", metavar="|".join(VIEWS), help="What the report goes into the details of.")
    ] = "phase",
    fail_over: Annotated[
        str | None,
        typer.Option(
            "--fail-over",
            metavar="PCT",
            help="Exit with 1 if the step grows by more than this, in % of the off arm's step.",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write the report as one HTML page.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the HTML file if it exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (docs/schemas/diff.json).")] = False,
) -> None:
    """Compare runs with CC on (or emulated) with runs where it is off: what it costs, and which cause."""
    if by not in VIEWS:
        raise UnusableInputError(f"--by {by}: choose {', '.join(VIEWS)}")
    limit = None if fail_over is None else percentage(fail_over)
    off_paths, on_paths = arms(on, off, on_runs or [], off_runs or [])
    tee_paths = files_of(tee_only or [], "--tee-only")
    if html is not None:
        from cctrace.app.html_report import check_target  # noqa: PLC0415

        times = [] if kernel_times is None else [kernel_times]
        check_target(html, [*off_paths, *on_paths, *tee_paths, *times], "--html", force=force)
    from cctrace.analyzers.report.runs import compared_runs  # noqa: PLC0415 - `--help` loads nothing heavy
    from cctrace.terminal import progress  # noqa: PLC0415

    with progress("Comparing") as advance:
        report = compared_runs(
            off_paths, on_paths, tee_paths, kernel_times=kernel_times, fail_over_pct=limit, progress=advance
        )
    if html is not None:
        _write_html(html, report, by)
    _print(report, by, as_json=as_json)
    if report.gate is not None and report.gate.failed:
        raise typer.Exit(EXIT_GATE_FAILED)


def arms(
    on: Path | None, off: Path | None, on_runs: list[Path], off_runs: list[Path]
) -> tuple[list[Path], list[Path]]:
    """The files of the off arm and of the on arm.

    Raises:
        UnusableInputError: an arm is missing, named in two ways, or holds a file twice.
    """
    if on is not None and (on_runs or off_runs):
        raise UnusableInputError(f"{on}: give either ON OFF, or --on FILE… --off FILE…")
    if on_runs or off_runs:
        for option, given in (("--on", on_runs), ("--off", off_runs)):
            if not given:
                raise UnusableInputError(f"Missing option '{option}'. See `cctrace diff --help`.")
        return files_of(off_runs, "--off"), files_of(on_runs, "--on")
    for name, path in (("ON", on), ("OFF", off)):
        if path is None:
            raise UnusableInputError(f"Missing argument '{name}'. See `cctrace diff --help`.")
    assert on is not None and off is not None  # noqa: S101, PT018 - just checked
    return files_of([off], "OFF"), files_of([on], "ON")


def files_of(given: list[Path], arm: str) -> list[Path]:
    """The traces: files as given, of a folder all its *.parquet by name.

    Raises:
        UnusableInputError: a folder holds none, or a file is given twice: a run is no repeat of itself.
    """
    files: list[Path] = []
    for path in given:
        if not path.is_dir():
            files.append(path)
            continue
        found = sorted(path.glob("*.parquet"))
        if not found:
            raise UnusableInputError(f"{path}: no *.parquet in this folder")
        files += found
    seen: set[Path] = set()
    for path in files:
        if path.resolve() in seen:
            raise UnusableInputError(f"{path}: given twice in {arm}; a run is no repeat of itself")
        seen.add(path.resolve())
    return files


def percentage(text: str) -> float:
    """The number of `5`, `5%`, `2.5 %`. Raises UnusableInputError."""
    match = _PERCENT.fullmatch(text.strip())
    if match is None:
        raise UnusableInputError(f"--fail-over {text!r}: give a percentage such as 5 or 2.5%")
    return float(match[1])


def _write_html(path: Path, report: Report, by: str) -> None:
    from cctrace.app.diff_view import diff_blocks  # noqa: PLC0415
    from cctrace.app.html_report import write_page  # noqa: PLC0415
    from cctrace.terminal import say  # noqa: PLC0415

    write_page(path, "cctrace diff", diff_blocks(report, by))
    say(f"wrote {path}")


def _print(report: Report, by: str, *, as_json: bool) -> None:
    from cctrace.app.pipe import ending_with_its_reader  # noqa: PLC0415

    if as_json:
        import json  # noqa: PLC0415

        with ending_with_its_reader():
            typer.echo(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
        return
    from cctrace.app.diff_view import show_diff  # noqa: PLC0415
    from cctrace.app.terminal import console  # noqa: PLC0415

    with ending_with_its_reader():
        show_diff(console(), report, by)
