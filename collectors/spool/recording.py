"""The recorder's own document in a spool folder, read with no trust in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from cctrace.errors import UnusableInputError
from cctrace.trace.metadata import MAX_DOCUMENT_BYTES, Metadata

RECORDING_NAME: Final = "recording.json"


def read_recording(folder: Path) -> tuple[Metadata, tuple[str, ...]]:
    """What the recorder knew, and notes about what is missing.

    A missing or damaged document is no reason to lose the recording: the result is then almost empty.

    Raises:
        UnusableInputError: it was written by a newer cctrace.
    """
    path = folder / RECORDING_NAME
    if not path.is_file():
        return Metadata(), (f"{RECORDING_NAME} is missing: command, machine and settings are not known",)
    try:
        with path.open("rb") as file:
            return Metadata.from_json(file.read(MAX_DOCUMENT_BYTES + 1)), ()
    except UnusableInputError as error:
        if "newer cctrace" in str(error):
            raise UnusableInputError(f"{path}: {error}") from None
        return Metadata(), (
            f"{RECORDING_NAME} is damaged, so command, machine and settings are not known: {error}",
        )
    except OSError as error:
        return Metadata(), (f"{RECORDING_NAME} cannot be read ({error.strerror})",)


def step_pattern(metadata: Metadata) -> str:
    """Patterns of labels that are steps, separated by ';'; empty if there are none."""
    return metadata.recording.step_pattern or metadata.environment_variables.get("CCTRACE_STEP_PATTERN", "")


def with_labels(metadata: Metadata, *, cupti_ran: bool) -> Metadata:
    """The document with the labels and the timing that follow from its content.

    Args:
        metadata: the document.
        cupti_ran: CUPTI worked in a recorded process, which slows host calls. That it was asked for says
            little: where it is refused (production CC), nothing is slowed.
    """
    mode = metadata.collector.gpu_mode
    distorted = cupti_ran or metadata.collector.timing == "distorted"
    security = metadata.acceptance.security
    wanted = (
        ("emulated", metadata.emulation is not None),
        ("distorted", distorted),
        ("devtools", security.devtools is True or security.cc_mode == "devtools"),
    )
    labels = _union(metadata.labels, (label for label, holds in wanted if holds))
    timing = "distorted" if distorted else metadata.collector.timing or ("undisturbed" if mode else None)
    return replace(metadata, labels=labels, collector=replace(metadata.collector, timing=timing))


def _union(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))
