"""`cctrace profiles`: the platforms that come with cctrace, and the values of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cctrace.profiles.model import Profile


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("profiles")(profiles)


def profiles(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A profile, or a file that ends in .toml; default: list them.",
            show_default=False,
        ),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the platform profiles, or print one with value, range and source of each cost."""
    # `cctrace --help` loads nothing heavy.
    from cctrace.app.pipe import ending_with_its_reader  # noqa: PLC0415
    from cctrace.app.profiles_view import show_profile, show_profiles  # noqa: PLC0415
    from cctrace.app.terminal import console  # noqa: PLC0415
    from cctrace.profiles.files import load_profile  # noqa: PLC0415
    from cctrace.profiles.shipped import profile_names  # noqa: PLC0415

    chosen = None if name is None else load_profile(name)
    shipped = [] if chosen is not None else [load_profile(one) for one in profile_names()]
    with ending_with_its_reader():
        if as_json:
            import json  # noqa: PLC0415

            document = _list(shipped) if chosen is None else chosen.model_dump(mode="json", exclude_none=True)
            typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        elif chosen is None:
            show_profiles(console(), shipped)
        else:
            show_profile(console(), chosen)


def _list(shipped: list[Profile]) -> list[dict[str, Any]]:
    from cctrace.profiles.emulation import chargeable  # noqa: PLC0415

    return [
        {
            "name": one.name,
            "title": one.profile.title,
            "gpu": one.profile.gpu,
            "tee": one.profile.tee,
            "causes": list(chargeable(one)),
        }
        for one in shipped
    ]
