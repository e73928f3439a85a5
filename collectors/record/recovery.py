"""Makes a trace of the spool folder that an interrupted recording left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cctrace.collectors.record import folder as spool_folder
from cctrace.collectors.record.processes import writers
from cctrace.collectors.record.settings import check_output
from cctrace.errors import UnusableInputError

if TYPE_CHECKING:
    from cctrace.collectors.spool import Conversion


@dataclass(frozen=True)
class Recovery:
    """What was made of a spool folder.

    Attributes:
        trace: the trace file.
        conversion: what was converted.
        still_running: processes that are still being recorded into the folder.
        kept: the spool folder is still there.
    """

    trace: Path
    conversion: Conversion
    still_running: tuple[int, ...]
    kept: bool


def recover(
    folder: Path,
    output: Path | None,
    *,
    force: bool,
    keep: bool,
    progress: Callable[[], AbstractContextManager[Callable[[int, int], None] | None]],
) -> Recovery:
    """Converts a spool folder and removes it when its trace is safely in place.

    Args:
        folder: the spool folder.
        output: the trace file; None: the one that the recording was to write.
        force: replace the output if it is there.
        keep: do not remove the folder.
        progress: makes the context of the conversion; it yields the callback (done, all) or None.

    Raises:
        UnusableInputError: not a spool folder, or damaged beyond use.
        OutputExistsError: the output is there already.
    """
    from cctrace.collectors.spool import convert  # noqa: PLC0415 - loads Arrow

    if not folder.is_dir():
        raise UnusableInputError(f"{folder} is not a folder; name the spool folder of a recording")
    folder = folder.resolve()
    about = _recorder_document(folder)
    trace = check_output(output or _output_of(folder, about), force=force)
    recorder = about.get("recorder_pid")
    pids = spool_folder.recorded_pids(folder) | ({recorder} if isinstance(recorder, int) else set())
    still_running = tuple(sorted(writers(folder, pids)))
    with progress() as report:
        conversion = convert(folder, trace, force=force, progress=report)
    kept = keep or bool(still_running)
    if not kept:
        spool_folder.remove_spool_folder(folder)
    return Recovery(trace, conversion, still_running, kept)


def _recorder_document(folder: Path) -> dict[str, Any]:
    """Returns what the recorder noted for recovery; it may have ended before."""
    path = folder / spool_folder.RECORDER_NAME
    try:
        return spool_folder.read_json(path) if path.is_file() else {}
    except UnusableInputError:  # damaged: the rest of the folder may still be good
        return {}


def _output_of(folder: Path, about: dict[str, Any]) -> Path:
    output = about.get("output")
    if not isinstance(output, str):
        raise UnusableInputError(f"{folder} does not say which trace it belongs to; name one with -o")
    return Path(output)
