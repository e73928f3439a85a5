"""The command line: one typer application, one module of `cctrace.commands` for each command.

A command module exposes `register(app)`, which adds its command to the application. It imports what its
command needs inside the command's function, so that `cctrace --help` loads nothing heavy.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import sys
from typing import Annotated, Final, NoReturn

import typer

from cctrace import __version__
from cctrace.errors import EXIT_UNUSABLE_INPUT, CctraceError
from cctrace.terminal import spell_out

COMMANDS: Final = (
    "record",
    "recover",
    "doctor",
    "calibrate",
    "info",
    "summary",
    "steps",
    "diff",
    "view",
    "findings",
    "profiles",
)
"""The modules of `cctrace.commands`, in the order in which `--help` lists them."""

_EXIT_INTERRUPTED: Final = 130
DEBUG_VARIABLE: Final = "CCTRACE_DEBUG"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cctrace {__version__}")
        raise typer.Exit


def _main_options(
    context: typer.Context,
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

    cctrace record -o on.parquet -- python serve.py

    cctrace diff on.parquet off.parquet
    """
    del version
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def build_app() -> typer.Typer:
    """Returns the application with every command registered."""
    app = typer.Typer(
        name="cctrace",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_main_options)
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
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # no stderr at all
        if sys.__stderr__ is not None and not faulthandler.is_enabled():
            faulthandler.enable(sys.__stderr__)  # a crash in a native library says where
    for stream in (sys.stdout, sys.stderr):
        spell_out(stream)
    try:
        code = build_app()(prog_name="cctrace", standalone_mode=False)
    except CctraceError as error:
        if _debugging():
            raise
        _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(_EXIT_INTERRUPTED)
    except OSError as error:
        # A path that the system does not take, such as one that is too long, wherever it is first touched.
        if error.filename is None or _debugging():
            raise
        _fail(f"{error.filename}: {error.strerror}", EXIT_UNUSABLE_INPUT)
    except Exception as error:
        # Errors of usage come from typer's own parser, or from click below an older typer.
        format_message = getattr(error, "format_message", None)
        if format_message is None or _debugging():
            raise
        message = str(format_message()).replace("Value error, ", "").rstrip(".")
        _fail(f"{message}. See `cctrace {_command_path(error)}--help`.", EXIT_UNUSABLE_INPUT)
    sys.exit(code if isinstance(code, int) else 0)


def _command_path(error: Exception) -> str:
    """Returns the command that an error of usage is about, followed by a space; empty if it is none."""
    context = getattr(error, "ctx", None)
    name = getattr(context, "info_name", None)
    return f"{name} " if name in COMMANDS else ""


def _fail(message: str, code: int) -> NoReturn:
    print(f"cctrace: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
