"""What a recording was asked to be."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from cctrace.collectors.environment.packages import find_interpreter
from cctrace.collectors.environment.sampler import DEFAULT_HZ
from cctrace.collectors.record.control import Window
from cctrace.errors import OutputExistsError, UnusableInputError
from cctrace.trace.metadata import Metadata

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")


class EmulatedCosts(Protocol):
    """The costs that are charged to the program; `cctrace.profiles` has the implementation."""

    def environment_value(self) -> str:
        """Returns the value of `CCTRACE_EMULATE`."""

    def to_json(self) -> dict[str, Any]:
        """Returns the metadata's `emulation`."""


@dataclass(frozen=True)
class RecordSettings:
    """Options of `cctrace record`.

    Attributes:
        command: program and arguments.
        output: the trace file.
        force: replace the output if it is there.
        spool_parent: where the spool folder is made; None: beside the output.
        window: the part of the run to record.
        gpu_mode: none, stamps, graphs or nodes.
        step_patterns: NVTX labels that are steps.
        emulation: costs that are charged to the program; None: none.
        known: metadata that the user gave (label, `--set`).
        counters_hz: samples of the GPU counters a second; 0: none.
        results: JSON file of a load client, read when the command has ended.
        state_check: check the state of the GPUs before the command starts.
    """

    command: tuple[str, ...]
    output: Path
    force: bool = False
    spool_parent: Path | None = None
    window: Window = field(default_factory=Window)
    gpu_mode: str = "stamps"
    step_patterns: tuple[str, ...] = ()
    emulation: EmulatedCosts | None = None
    known: Metadata = field(default_factory=Metadata)
    counters_hz: float = DEFAULT_HZ
    results: Path | None = None
    state_check: bool = True


def known_metadata(label: str | None, assignments: Sequence[str]) -> Metadata:
    """Returns the metadata that `--label` and `--set name=value` make.

    Raises:
        UnusableInputError: an unknown field, or a value that does not fit it.
    """
    metadata = Metadata(label=label)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise UnusableInputError(
                f"--set {assignment!r}: give it as name=value, such as model.precision=nvfp4"
            )
        metadata = metadata.with_value(name.strip(), value)
    return metadata


def default_output(command: Sequence[str]) -> Path:
    """Returns `cctrace-<command>-<local time>.parquet`; a Python script gives its own name."""
    name = Path(command[0]).name
    if find_interpreter(command) is not None:
        script = next((argument for argument in command if argument.endswith(".py")), None)
        name = Path(script).stem if script else name
    return Path(f"cctrace-{_UNSAFE.sub('_', name)[:60]}-{time.strftime('%Y%m%d-%H%M%S')}.parquet")


def check_output(output: Path, *, force: bool) -> Path:
    """Returns the absolute path of an output that can be written.

    Raises:
        OutputExistsError: it is there already, and `force` is not set.
        UnusableInputError: its folder is missing or not writable, or it is a folder itself.
    """
    path = Path(os.path.abspath(output))
    if path.is_dir():
        raise UnusableInputError(f"the output {output} is a folder; name a file with -o")
    if path.exists() and not force:
        raise OutputExistsError(f"{output} exists already; choose another name, or replace it with --force")
    if not path.parent.is_dir():
        raise UnusableInputError(f"the folder {path.parent} of the output does not exist; create it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UnusableInputError(f"the folder {path.parent} of the output is not writable")
    return path
