"""The spool folder: where it lies, what is in it, and how much room there is."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from cctrace.errors import UnusableInputError

RECORDING_NAME: Final = "recording.json"
"""What the recorder knows: a partial metadata document."""
RECORDER_NAME: Final = "recorder.json"
"""What only `recover` needs: the output and the process ids."""
COUNTERS_NAME: Final = "counters.jsonl"
SPOOL_SUFFIX: Final = ".spool"

MIN_FREE_BYTES: Final = 256 << 20
"""Room that must be there at the start. An eager decode loop fills about 2.5 MB a second."""
STOP_FREE_BYTES: Final = 128 << 20
"""Recording stops when less is left: the trace must still be written, and others live on that disk too."""

_SPOOL_FILE: Final = re.compile(r"(\d+)-\d+\.spool")


def create_spool_folder(output: Path, parent: Path | None) -> Path:
    """Creates a new folder of mode 0700 for one recording, beside the output or in `parent`.

    Raises:
        UnusableInputError: the folder cannot be created, or its disk is almost full.
    """
    where = output.parent if parent is None else parent
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{output.name}.spool-", dir=where)).resolve()
    except OSError as error:
        raise UnusableInputError(f"cannot create a spool folder in {where}: {error.strerror}") from error
    free = free_bytes(folder)
    if free < MIN_FREE_BYTES:
        folder.rmdir()
        raise UnusableInputError(
            f"only {free >> 20} MiB are free in {where}, {MIN_FREE_BYTES >> 20} MiB are needed; "
            "choose another disk with --spool-dir"
        )
    return folder


def free_bytes(folder: Path) -> int:
    """Returns the bytes that this user may still write on the folder's disk."""
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


def recorded_pids(folder: Path) -> set[int]:
    """Returns the process ids that wrote a spool file."""
    return {int(match.group(1)) for path in folder.iterdir() if (match := _SPOOL_FILE.fullmatch(path.name))}


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Writes a document so that a reader, or a crash, sees the old or the new one and nothing between."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.chmod(0o600)
    temporary.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Returns a document written by `write_json`.

    Raises:
        UnusableInputError: it is missing or damaged.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UnusableInputError(
            f"{path.parent} is not a spool folder of cctrace: it has no {path.name}"
        ) from error
    except (OSError, ValueError) as error:
        raise UnusableInputError(f"cannot read {path}: {error}") from error
    if not isinstance(document, dict):
        raise UnusableInputError(f"{path} is damaged: it does not hold a JSON object")
    return document


def remove_spool_folder(folder: Path) -> None:
    """Removes the folder and what is in it."""
    shutil.rmtree(folder, ignore_errors=True)
