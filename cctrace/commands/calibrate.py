"""`cctrace calibrate`: what submissions, copies and collectives take on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cctrace.collectors.calibrate.result import Calibration
    from cctrace.profiles.model import Profile


class State(str, Enum):
    """States of CC that a user may name."""

    ON = "on"
    OFF = "off"
    DEVTOOLS = "devtools"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("calibrate")(calibrate)


def calibrate(
    *,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.toml", help="Write a profile.", show_default=False),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="N|all",
            help="GPU to measure. Default: the first one, and transfers between all that are visible.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, wider spread.")] = False,
    beside: Annotated[
        str | None,
        typer.Option(
            "--beside",
            metavar="PROFILE",
            help="Platform to show beside this machine: name or TOML file. Default: the most similar one.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--compare",
            metavar="ON.toml OFF.toml",
            help="Measure nothing: compare two profiles; with -o, write what CC adds as a profile of tolls.",
            show_default=False,
        ),
    ] = None,
    cc: Annotated[
        State | None,
        typer.Option("--cc", help="State of CC where NVML does not say it.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output if it is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Measure what submissions, copies and collectives take on this machine, or compare two such profiles."""
    _check_output(output, force)
    if compare is not None:
        given = [
            name
            for name, value in (("--device", device), ("--beside", beside), ("--cc", cc), ("--quick", quick))
            if value
        ]
        _compare(*compare, output, as_json=as_json, pointless=given)
        return
    _measure(output, device, beside, cc, quick=quick, as_json=as_json)


def _check_output(output: Path | None, force: bool) -> None:
    import os  # noqa: PLC0415 - `cctrace --help` loads nothing heavy

    from cctrace.errors import OutputExistsError, UnusableInputError  # noqa: PLC0415

    if output is None:
        return
    if output.suffix != ".toml":
        raise UnusableInputError(f"-o {output}: the name of a profile ends in .toml")
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise UnusableInputError(f"-o {output}: {output.parent} is no folder that can be written to")
    if output.is_dir():
        raise UnusableInputError(f"-o {output} is a folder")
    if output.exists() and not force:
        raise OutputExistsError(f"{output} exists; use --force to replace it")


def _measure(
    output: Path | None,
    device: str | None,
    beside: str | None,
    cc: State | None,
    *,
    quick: bool,
    as_json: bool,
) -> None:
    import json  # noqa: PLC0415 - `cctrace --help` loads nothing heavy
    from datetime import date  # noqa: PLC0415

    from cctrace.collectors.calibrate.profile import DEFAULT_NAME, to_profile  # noqa: PLC0415
    from cctrace.collectors.calibrate.sampling import QUICK, THOROUGH  # noqa: PLC0415
    from cctrace.collectors.calibrate.session import CudaMachine, Request  # noqa: PLC0415
    from cctrace.collectors.calibrate.session import calibrate as measure  # noqa: PLC0415
    from cctrace.profiles.files import load_profile, write_profile  # noqa: PLC0415
    from cctrace.terminal import progress, say  # noqa: PLC0415

    chosen = load_profile(beside) if beside is not None else None
    request = Request(device, QUICK if quick else THOROUGH, cc.value if cc else None)
    found = measure(request, CudaMachine(), progress)
    profile = to_profile(found, output.stem if output else DEFAULT_NAME, date.today())
    if output is not None:
        write_profile(profile, output)
        say(f"wrote {output}")
    if as_json:
        _print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        _show(found, profile, chosen or _nearest(profile))


def _nearest(profile: Profile) -> Profile:
    from cctrace.analyzers.calibration import nearest  # noqa: PLC0415
    from cctrace.profiles.files import load_profile  # noqa: PLC0415
    from cctrace.profiles.shipped import profile_names  # noqa: PLC0415

    platforms = [load_profile(name) for name in profile_names()]
    return nearest(profile.profile.gpu, profile.profile.tee, platforms)


def _show(found: Calibration, profile: Profile, platform: Profile) -> None:
    from cctrace.app.calibrate_view import show_calibration  # noqa: PLC0415
    from cctrace.app.pipe import ending_with_its_reader  # noqa: PLC0415
    from cctrace.app.terminal import console  # noqa: PLC0415

    least, most = found.binding()
    remarks = [
        *found.notes,
        f"{least:.2f} to {most:.2f} µs were taken off each submission: what the same call from Python costs "
        "when it does nothing. --json has the raw times.",
    ]
    with ending_with_its_reader():
        show_calibration(console(), profile, platform, remarks)


def _compare(
    first: Path, second: Path, output: Path | None, *, as_json: bool, pointless: Sequence[str]
) -> None:
    import json  # noqa: PLC0415
    from shlex import quote  # noqa: PLC0415

    from cctrace.analyzers.calibration import compare as side_by_side  # noqa: PLC0415
    from cctrace.errors import UnusableInputError  # noqa: PLC0415
    from cctrace.profiles.difference import tolls  # noqa: PLC0415
    from cctrace.profiles.files import read_profile, write_profile  # noqa: PLC0415
    from cctrace.terminal import say  # noqa: PLC0415

    if pointless:
        raise UnusableInputError(f"--compare measures nothing: leave out {', '.join(pointless)}")
    if first.exists() and second.exists() and first.samefile(second):
        raise UnusableInputError(f"--compare {first} {second}: that is one file, not two measurements")
    on, off = read_profile(first), read_profile(second)
    found = side_by_side(on, off)
    if output is not None:
        if found.null_test:
            raise UnusableInputError(
                f"-o {output}: both were measured with CC {on.profile.cc}, so what differs is no toll"
            )
        write_profile(tolls(on, off, output.stem), output)
        say(f"wrote {output}: `cctrace record --emulate {quote(str(output))} -- …` charges these tolls")
    if as_json:
        _print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
        return
    from cctrace.app.calibrate_view import show_comparison  # noqa: PLC0415
    from cctrace.app.pipe import ending_with_its_reader  # noqa: PLC0415
    from cctrace.app.terminal import console  # noqa: PLC0415

    with ending_with_its_reader():
        show_comparison(console(), found)


def _print(text: str) -> None:
    from cctrace.app.pipe import ending_with_its_reader  # noqa: PLC0415

    with ending_with_its_reader():
        typer.echo(text)
