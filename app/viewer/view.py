"""What a viewer shows: one recording or two arms of recordings, and the analyses of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from cctrace.analyzers.sentences import plural
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.jobs import Jobs, Pending
from cctrace.errors import UnusableInputError
from cctrace.trace import Trace, open_trace

if TYPE_CHECKING:
    from cctrace.analyzers.report.document import Report

T = TypeVar("T")

ON, OFF, ONE = "on", "off", "one"


@dataclass(frozen=True)
class Run:
    """One recording."""

    path: Path
    trace: Trace

    @property
    def name(self) -> str:
        """Name of the file, for people."""
        return self.path.name


@dataclass(frozen=True)
class Arm:
    """Recordings of one kind.

    Attributes:
        name: "on", "off", or "one" if there is nothing to compare with.
        runs: what can be read, in the order of names; at least one.
        unusable: one line for each file of a folder that cannot be used.
    """

    name: str
    runs: tuple[Run, ...]
    unusable: tuple[str, ...]


class View:
    """What was opened. Safe to use from several threads.

    Args:
        arms: one arm, or the on arm and the off arm.
    """

    def __init__(self, arms: tuple[Arm, ...]) -> None:
        self.arms: Final = arms
        self._at_close: Final[list[Callable[[], None]]] = []
        self._jobs: Final = Jobs(sum(run.trace.num_rows for arm in arms for run in arm.runs))

    @property
    def is_pair(self) -> bool:
        """Whether there are two arms."""
        return len(self.arms) == 2

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all recordings that every output must carry: emulated, distorted, devtools."""
        found = [label for arm in self.arms for run in arm.runs for label in run.trace.metadata.labels]
        return tuple(dict.fromkeys(found))

    def arm(self, name: str) -> Arm:
        """The arm of this name. Raises UnusableInputError if there is none."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        names = ", ".join(arm.name for arm in self.arms)
        raise UnusableInputError(f"arm {name[:20]!r}: this viewer shows {names}")

    def run_of(self, arm: Arm, state: Address) -> Run:
        """The recording of an arm that an address asks for; the first one where it asks for none."""
        number = state.integer(f"run_{arm.name}") or 0
        return arm.runs[number] if 0 <= number < len(arm.runs) else arm.runs[0]

    def report(self, *, wait: bool = False) -> Report:
        """The comparison of all pairs of runs.

        Raises:
            Pending: it is being computed, and `wait` is not set.
            UnusableInputError: the recordings cannot be compared, or there is one arm only.
        """
        if not self.is_pair:
            raise UnusableInputError("there is nothing to compare with: open a pair, `cctrace view ON OFF`")
        off, on = ([run.path for run in self.arm(name).runs] for name in (OFF, ON))
        rows = sum(run.trace.num_rows for arm in self.arms for run in arm.runs)
        doing = f"Comparing {plural(min(len(off), len(on)), 'pair')} of runs, {plural(rows, 'row')}"
        return self._jobs.result(_state_of(*off, *on), doing, _report, off, on, wait=wait)

    def of_run(self, function: Callable[[Path], T], run: Run, *, wait: bool = False) -> T:
        """What a function makes of a recording; computed once for each state of the file.

        Args:
            function: pure, of the top level of a module; its result can be pickled.
            run: the recording.
            wait: whether to wait for the result.

        Raises:
            Pending: it is being computed, and `wait` is not set.
            UnusableInputError: the function's.
        """
        key = (f"{function.__module__}.{function.__qualname__}", *_state_of(run.path))
        doing = f"Reading {run.name}, {plural(run.trace.num_rows, 'row')}"
        return self._jobs.result(key, doing, function, run.path, wait=wait)

    def prepare(self) -> None:
        """Begins what the first page needs, so that it is there sooner.

        Work that takes processors from the browser begins when a page asks for it: the page is seen sooner.
        """
        if self.is_pair and not self._jobs.in_processes:
            with contextlib.suppress(Pending, UnusableInputError):
                self.report()

    def settle(self) -> None:
        """Waits for analyses under way, where their memory and the caller's would be too much together."""
        self._jobs.settle()

    def make_room_by(self, function: Callable[[], None]) -> None:
        """Has a function called before each analysis that needs much memory; see `Jobs.make_room_by`."""
        self._jobs.make_room_by(function)

    def at_close(self, function: Callable[[], None]) -> None:
        """Has a function called when the view is closed."""
        self._at_close.append(function)

    def close(self) -> None:
        """Ends the work that is under way."""
        self._jobs.close()
        for function in self._at_close:
            function()


def opened(on: Sequence[Path], off: Sequence[Path] = ()) -> View:
    """A view of one arm, or of two.

    Args:
        on: recordings or folders of them; the only ones if `off` is empty.
        off: recordings with confidential computing off.

    Raises:
        UnusableInputError: a file that was named cannot be used, or a folder holds none that can.
    """
    if not off:
        return View((_arm(ONE, on),))
    return View((_arm(ON, on), _arm(OFF, off)))


def _arm(name: str, given: Sequence[Path]) -> Arm:
    runs: list[Run] = []
    unusable: list[str] = []
    for path in given:
        if not path.is_dir():
            runs.append(Run(path, open_trace(path)))
            continue
        found = sorted(path.glob("*.parquet"))
        if not found:
            raise UnusableInputError(f"{path}: no *.parquet in this folder")
        for file in found:
            run = _opened(file)
            if isinstance(run, Run):
                runs.append(run)
            else:
                unusable.append(run)
    if not runs:
        raise UnusableInputError(unusable[0])
    return Arm(name, tuple(runs), tuple(unusable))


def _opened(path: Path) -> Run | str:
    """A recording, or why it cannot be used."""
    try:
        return Run(path, open_trace(path))
    except UnusableInputError as error:
        return str(error)


def _state_of(*paths: Path) -> tuple[tuple[str, int, int], ...]:
    """Which files these are, and their states. Raises UnusableInputError for one that is gone."""
    return tuple(_identity(path) for path in paths)


def _identity(path: Path) -> tuple[str, int, int]:
    try:
        state = os.stat(path)
    except OSError as error:
        raise UnusableInputError(f"{path}: cannot be read any more ({error.strerror})") from None
    return (str(path), state.st_size, state.st_mtime_ns)


def _report(off: list[Path], on: list[Path]) -> Report:
    from cctrace.analyzers.report.runs import compared_runs  # noqa: PLC0415 - heavy, and not every view needs it

    return compared_runs(off, on)
