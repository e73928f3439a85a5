"""One recording from beginning to end: check, start, supervise, convert, clean up."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cctrace.collectors.environment.cupti import find_libcupti
from cctrace.collectors.environment.isolated import NvmlHelper
from cctrace.collectors.environment.packages import find_interpreter, read_packages
from cctrace.collectors.environment.snapshot import Snapshot
from cctrace.collectors.library import find_library
from cctrace.collectors.record import folder as spool_folder
from cctrace.collectors.record.control import CONTROL_NAME, ControlPage
from cctrace.collectors.record.document import checked_document, end_document, start_document
from cctrace.collectors.record.processes import descendants
from cctrace.collectors.record.results import read_results
from cctrace.collectors.record.settings import RecordSettings, check_output
from cctrace.collectors.record.signals import Interrupted, interruptible, raise_pending
from cctrace.collectors.record.supervisor import Ending, Supervisor
from cctrace.collectors.record.variables import child_environment
from cctrace.collectors.state import check as gpu_check
from cctrace.errors import UnusableInputError
from cctrace.trace.metadata import Metadata

if TYPE_CHECKING:
    from cctrace.collectors.spool import Conversion

EXIT_NOT_CONVERTED: Final = 2
"""Exit code when the command went well but its trace could not be written."""

NO_STEP_SEEN: Final = (
    "no marked step was seen: --steps had no effect; mark steps (--step PATTERN, the hook) or use --duration"
)

Say = Callable[[str], None]
Progress = Callable[[], AbstractContextManager[Callable[[int, int], None] | None]]


@dataclass(frozen=True)
class Outcome:
    """How a recording ended.

    Attributes:
        exit_code: code to end with, if no signal is set.
        exit_signal: signal to end by, as the command did.
        trace: the trace file; None if it could not be written.
    """

    exit_code: int
    exit_signal: int | None
    trace: Path | None


def record(settings: RecordSettings, *, mask: set[int], say: Say, progress: Progress) -> Outcome:
    """Runs a command, records it, and writes its trace.

    Args:
        settings: what to record.
        mask: signal mask for the command, as `block_signals` returned it; the signals are still blocked.
        say: prints one line for the user, on stderr.
        progress: makes the context in which the spool is converted; it yields the callback (done, all) or
            None.

    Raises:
        CctraceError: nothing was started: the message says why.
        Interrupted: a signal asked for an end before the command had started, or while its trace was written.
    """
    recording = _Recording(settings, say, mask)
    try:
        recording.prepare()
        raise_pending()
        recording.start()
    except OSError as error:
        recording.discard()
        where = settings.spool_parent or settings.output.parent
        raise UnusableInputError(
            f"cannot prepare a recording in {where} ({error.strerror}); choose another disk with --spool-dir"
        ) from error
    except BaseException:
        recording.discard()
        raise
    ending = recording.supervise()
    trace = recording.convert(ending, progress)
    code = ending.exit_code or 0
    if trace is None and code == 0:
        code = EXIT_NOT_CONVERTED
    return Outcome(code, ending.exit_signal, trace)


def recover_command(folder: Path) -> str:
    """Returns the command line that makes a trace of a spool folder."""
    return f"cctrace recover {shlex.quote(str(folder))}"


class _Recording:
    """The state of one recording, between the steps of `record`."""

    def __init__(self, settings: RecordSettings, say: Say, mask: set[int]) -> None:
        self._settings = settings
        self._say = say
        self._mask = mask
        self._folder: Path | None = None
        self._helper: NvmlHelper | None = None
        self._notes: list[str] = []
        self._unknown_noted = False
        self._window_ended_by: str | None = None

    def prepare(self) -> None:
        """Everything that can fail comes before the command starts."""
        settings = self._settings
        self._output = check_output(settings.output, force=settings.force)
        library = find_library()
        base = dict(os.environ)
        parent = settings.spool_parent
        if parent is not None and not parent.is_dir():
            raise UnusableInputError(f"--spool-dir {parent} is not a folder; create it first")
        self._folder = spool_folder.create_spool_folder(self._output, parent)
        # NVML starts while the rest is prepared.
        self._helper = NvmlHelper(self._folder / spool_folder.COUNTERS_NAME, settings.counters_hz)
        emulation = settings.emulation
        environment = child_environment(
            base,
            library=library,
            spool=self._folder,
            gpu_mode=settings.gpu_mode,
            step_patterns=settings.step_patterns,
            emulation=None if emulation is None else emulation.environment_value(),
            libcupti=find_libcupti(base, find_interpreter(settings.command)),
        )
        self._variables = environment.variables
        for note in environment.notes:
            self._note(note)
        self._control = ControlPage(self._folder / CONTROL_NAME)
        self._supervisor = Supervisor(self._folder, library, self._helper, self._tick, self._say)
        packages = read_packages(settings.command, base)
        snapshot = self._helper.start(poll=raise_pending)
        self._note_unknown("start", snapshot)
        if snapshot.confidential.refuses_work:
            self._note("the GPUs are not in the ready state: CUDA will refuse to start (error 802)")
        self._metadata = start_document(settings, snapshot, packages, base)
        self._write_metadata(self._metadata)
        if settings.state_check:
            self._check_state(has_gpu=bool(snapshot.gpus))

    def _check_state(self, *, has_gpu: bool) -> None:
        """Checks the GPUs, when everything else is ready: the next thing that they do is the command's.

        Args:
            has_gpu: NVML has shown one; else only its device file can tell.
        """
        if not has_gpu and not gpu_check.has_device_file():
            check = gpu_check.without_gpu()
        else:
            self._say("checking the state of the GPUs before the command starts (--no-state-check skips it)")
            check = gpu_check.check_state(poll=raise_pending)
            for finding in check.findings:
                self._say(f"state check: {finding}")
            if check.missing is not None:
                self._say(f"the state check is not complete: {check.missing}")
        self._metadata = checked_document(self._metadata, check)
        self._write_metadata(self._metadata)

    def start(self) -> None:
        """Starts the command. What `recover` needs is on disk before."""
        assert self._folder is not None  # noqa: S101 - prepare() made it
        assert self._helper is not None  # noqa: S101
        about: dict[str, Any] = {"output": str(self._output), "recorder_pid": os.getpid()}
        spool_folder.write_json(self._folder / spool_folder.RECORDER_NAME, about)
        self._control.arm(self._settings.window, time.monotonic_ns())
        self._command_pid = self._supervisor.start(self._settings.command, self._variables, self._mask)
        self._helper.begin_sampling()

    def supervise(self) -> Ending:
        """Waits for the end of the command, and writes what is known then."""
        assert self._helper is not None  # noqa: S101 - prepare() made it
        ending = self._supervisor.wait()
        snapshot, counters = self._helper.finish(descendants(os.getpid()))
        self._note_unknown("end", snapshot)
        self._window_ended_by = self._window_ended_by or self._control.ended_by(time.monotonic_ns())
        if self._settings.window.steps is not None and self._control.get("steps_seen") == 0:
            self._note(NO_STEP_SEEN)
        if ending.still_running:
            self._note(
                f"{len(ending.still_running)} recorded process(es) still run after the command has ended "
                f"({_listed(ending.still_running)}); the trace holds what they did until now"
            )
        metadata = end_document(
            self._metadata,
            ending,
            snapshot,
            window_ended_by=self._window_ended_by,
            counters=counters,
            notes=tuple(self._notes),
            results=self._results(),
        )
        try:
            self._write_metadata(metadata)
        except OSError as error:  # the document of the start is still there
            self._say(f"cannot write the end of the recording: {error.strerror}")
        return ending

    def convert(self, ending: Ending, progress: Progress) -> Path | None:
        """Writes the trace. Returns its path, or None after saying what is left and how to recover it."""
        assert self._folder is not None  # noqa: S101 - prepare() made it
        try:
            from cctrace.collectors.spool import convert  # noqa: PLC0415 - not before the command has ended

            with interruptible(self._mask), progress() as report:
                conversion = convert(self._folder, self._output, force=self._settings.force, progress=report)
        except Interrupted:
            self._say(f"interrupted: no trace was written; make it with: {recover_command(self._folder)}")
            raise
        except Exception as error:  # whatever it is: the exit code and the spool must survive it
            self._say(f"the trace could not be written: {error or type(error).__name__}")
            self._say(f"nothing is lost; try again with: {recover_command(self._folder)}")
            return None
        for line in describe(conversion):
            self._say(line)
        if ending.still_running:
            self._say(
                f"for the rest, when they have ended: {recover_command(self._folder)} "
                f"-o {shlex.quote(str(self._output))} --force"
            )
        else:
            self.discard()
        return self._output

    def discard(self) -> None:
        """Removes the spool folder, and ends the helper if it still runs."""
        if self._helper is not None:
            self._helper.close()
        if self._folder is not None:
            spool_folder.remove_spool_folder(self._folder)

    def _note_unknown(self, moment: str, snapshot: Snapshot) -> None:
        """Says why NVML has not answered, once."""
        if snapshot.unknown_because is not None and not self._unknown_noted:
            self._unknown_noted = True
            self._note(f"the state of the GPUs at the {moment} is {snapshot.nvml_missing}")

    def _tick(self) -> None:
        if self._window_ended_by is not None or self._folder is None:
            return
        ended_by = self._control.ended_by(time.monotonic_ns())
        with contextlib.suppress(OSError):
            if ended_by is None and spool_folder.free_bytes(self._folder) < spool_folder.STOP_FREE_BYTES:
                self._control.stop()
                ended_by = "disk"
                self._note(
                    f"the disk of {self._folder} is almost full: recording has ended, the command runs on"
                )
        if ended_by is not None:
            self._window_ended_by = ended_by
            if ended_by != "disk":
                self._say(f"the window is complete ({ended_by}); the trace is written when the command ends")

    def _results(self) -> Mapping[str, Any] | None:
        if self._settings.results is None:
            return None
        try:
            return read_results(self._settings.results)
        except UnusableInputError as error:
            self._note(str(error))
            return None

    def _write_metadata(self, metadata: Metadata) -> None:
        assert self._folder is not None  # noqa: S101 - prepare() made it
        spool_folder.write_json(self._folder / spool_folder.RECORDING_NAME, metadata.to_document())

    def _note(self, text: str) -> None:
        """Says something and keeps it in the metadata."""
        self._notes.append(text)
        self._say(text)


def describe(conversion: Conversion) -> list[str]:
    """Returns what a user should know about a new trace, one line each."""
    lines = [str(conversion)]
    if not conversion.processes:
        lines.append(
            "no CUDA driver call was seen. If the command does use the GPU: is it started by a daemon "
            "(docker, ray, slurm), set-user-ID, or does it clear LD_PRELOAD?"
        )
    if conversion.metadata.labels:
        lines.append(f"the trace is labelled: {', '.join(conversion.metadata.labels)}")
    return lines


def _listed(pids: tuple[int, ...]) -> str:
    return ", ".join(f"pid {pid}" for pid in pids[:5]) + (", …" if len(pids) > 5 else "")
