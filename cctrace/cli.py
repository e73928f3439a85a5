"""The command line: one typer application, one module of `cctrace.commands` for each command.

A command module exposes `register(app)`, which adds its command to the application. It imports what its
command needs inside the command's function, so that `cctrace --help` loads nothing heavy.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Final

import typer

from cctrace import __version__
from cctrace.errors import CctraceError

COMMANDS: Final = ("record", "recover", "doctor", "info", "summary", "steps", "diff")
"""The modules of `cctrace.commands`, in the order in which `--help` lists them."""

DEBUG_VARIABLE: Final = "CCTRACE_DEBUG"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cctrace {__version__}")
        raise typer.Exit


def _main_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help=f"Show tracebacks of errors (also with {DEBUG_VARIABLE}=1).")
    ] = False,
) -> None:
    """Shows what NVIDIA Confidential Computing costs your own LLM serving run, and why.

    Record one run with CC on and one with CC off, then compare them:

    cctrace record -o on.parquet -- python serve.py, and on the other machine -o off.parquet; cctrace diff
    on.parquet off.parquet
    """
    del version
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"


def build_app() -> typer.Typer:
    """Returns the application with every command registered."""
    app = typer.Typer(
        name="cctrace",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_main_options)
    for name in COMMANDS:
        importlib.import_module(f"cctrace.commands.{name}").register(app)
    return app


def _debugging() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def main() -> None:
    """Runs the command line; the one place where an error becomes one line on stderr and an exit code.

    Exit codes: 0 fine, 1 a check failed, 2 the input cannot be used, 130 interrupted; `record` passes on
    the code of the recorded program.
    """
    try:
        build_app()()
    except CctraceError as error:
        if _debugging():
            raise
        message = " ".join(str(error).split())
        print(f"cctrace: {message}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
