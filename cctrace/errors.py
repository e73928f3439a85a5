"""Errors that end a command with one clear line and a meaningful exit code."""

from __future__ import annotations

EXIT_OK = 0
EXIT_GATE_FAILED = 1
EXIT_UNUSABLE_INPUT = 2


class CctraceError(Exception):
    """An error that the user can act on: the command prints the message and ends with `exit_code`."""

    exit_code = EXIT_UNUSABLE_INPUT


class UnusableInputError(CctraceError):
    """A file, folder or option that cannot be used. The message says what is wrong and what to do."""


class OutputExistsError(CctraceError):
    """The output is there already and `--force` was not given."""


class CollectorMissingError(CctraceError):
    """The native collector is not in this installation, or not for this machine."""
