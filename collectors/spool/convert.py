"""A spool folder into a trace."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from cctrace import __version__
from cctrace.collectors.spool.counters import COUNTERS_NAME, counter_tables
from cctrace.collectors.spool.derived import RowWatch, fill_derived
from cctrace.collectors.spool.facts import clock_pairs, cupti_ran, injected_totals, process_facts
from cctrace.collectors.spool.index import build_index
from cctrace.collectors.spool.injected import Totals, with_injected
from cctrace.collectors.spool.lanes import Lanes
from cctrace.collectors.spool.pipeline import BackgroundWriter
from cctrace.collectors.spool.process import ProcessNumbers, ProcessRows
from cctrace.collectors.spool.recording import RECORDING_NAME, read_recording, step_pattern, with_labels
from cctrace.collectors.spool.spoolfile import NotASpoolError, SpoolFile, open_spool
from cctrace.errors import UnusableInputError
from cctrace.trace.metadata import GpuClock, Metadata, Process
from cctrace.trace.schema import FORMAT_VERSION
from cctrace.trace.writer import TraceWriter

SPOOL_SUFFIX: Final = ".spool"


@dataclass(frozen=True)
class Conversion:
    """What became of a spool folder.

    Attributes:
        path: the trace.
        rows: its rows.
        trace_bytes: its size.
        spool_bytes: size of the spools.
        processes: the recorded process images.
        skipped: files that hold no spool, each with the reason.
        metadata: the trace's metadata.
    """

    path: Path
    rows: int
    trace_bytes: int
    spool_bytes: int
    processes: tuple[Process, ...]
    skipped: tuple[str, ...]
    metadata: Metadata

    def __str__(self) -> str:
        """One line for people."""
        count = len({process.pid for process in self.processes})
        if not count:
            return f"{self.path}: no recorded process used CUDA; the trace holds {self.rows:,} counter rows"
        each = f", {self.trace_bytes / self.rows:.1f} bytes each" if self.rows else ""
        lost = sum(sum(process.lost.values()) for process in self.processes)
        incomplete = f"; {lost:,} records were not kept (see `cctrace info`)" if lost else ""
        noun = "process" if count == 1 else "processes"
        return f"{self.path}: {self.rows:,} rows of {count} {noun}{each}{incomplete}"


def convert(
    spool_dir: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Conversion:
    """Writes the trace of a recording. The spool folder is only read.

    Works on what is there: without `recording.json`, with spools of killed processes, or of processes that
    still run.

    Args:
        spool_dir: folder of one recording.
        output: the trace to write.
        force: replace `output` if it exists.
        progress: called now and then with (work done, all work); work is records, each counted twice.

    Raises:
        UnusableInputError: the folder is no recording, or was made by a newer cctrace; the output cannot be
            written.
        OutputExistsError: `output` exists and `force` is not set.
    """
    folder = Path(spool_dir)
    spools, skipped = _open_spools(folder)
    metadata, notes = read_recording(folder)
    work = _Work(sum(len(spool.records) for spool in spools), progress)
    lanes, watch = Lanes(), RowWatch()
    with TraceWriter(output, force=force) as writer:
        with BackgroundWriter(writer) as background:
            tables, unreadable = counter_tables(folder, lanes)
            for table in tables:
                watch.look_at_counters(table)
                background.write(table)

            def write(rows: pa.Table) -> None:
                watch.look(rows)
                background.write(rows)

            parts = _write_processes(spools, lanes, step_pattern(metadata), write, work)
        notes += tuple(f"{text}" for text in skipped)
        if unreadable:
            notes += (f"{unreadable} lines of {COUNTERS_NAME} could not be read",)
        metadata = fill_derived(_complete(metadata, notes, lanes, parts), watch)
        writer.finish(metadata)
        work.done()
        rows = writer.rows_written
    path = Path(output)
    spool_bytes = sum(len(s.records) * s.records.itemsize + s.torn_bytes for s in spools)
    return Conversion(
        path, rows, path.stat().st_size, spool_bytes, metadata.collector.processes, skipped, metadata
    )


@dataclass(frozen=True)
class _Parts:
    processes: tuple[Process, ...]
    gpu_clocks: tuple[GpuClock, ...]
    pairs: tuple[tuple[int, int], ...]
    cupti_ran: bool
    injected: tuple[Totals, ...]


class _Work:
    """Progress in records: each is looked at once and written once."""

    def __init__(self, records: int, report: Callable[[int, int], None] | None) -> None:
        self._all = 2 * records
        self._done = 0
        self._report = report

    def add(self, records: int) -> None:
        self._done = min(self._done + records, self._all)
        if self._report is not None:
            self._report(self._done, self._all)

    def done(self) -> None:
        self.add(self._all)


def _open_spools(folder: Path) -> tuple[list[SpoolFile], tuple[str, ...]]:
    """All spools by (pid, age), and what was skipped."""
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        raise UnusableInputError(f"{folder}: no such folder") from None
    except NotADirectoryError:
        raise UnusableInputError(f"{folder}: is a file, not the spool folder of a recording") from None
    except OSError as error:
        raise UnusableInputError(f"{folder}: cannot be read: {error.strerror}") from None
    names = {path.name for path in paths}
    candidates = [path for path in paths if path.suffix == SPOOL_SUFFIX]
    if not candidates and not names & {RECORDING_NAME, COUNTERS_NAME}:
        raise UnusableInputError(
            f"{folder}: is not the spool folder of a recording: it has no spool and no {RECORDING_NAME}"
        )
    spools, skipped = [], []
    for path in candidates:
        opened = _try_open(path)
        if isinstance(opened, SpoolFile):
            spools.append(opened)
        else:
            skipped.append(opened)
    if candidates and not spools and RECORDING_NAME not in names:
        raise UnusableInputError(f"{folder}: holds no usable spool: {skipped[0]}")
    return sorted(spools, key=lambda s: (s.pid, int(s.header["start_ns"]))), tuple(skipped)


def _try_open(path: Path) -> SpoolFile | str:
    try:
        return open_spool(path)
    except NotASpoolError as error:
        return f"{path.name} {error}"


def _write_processes(
    spools: list[SpoolFile], lanes: Lanes, pattern: str, write: Callable[[pa.Table], None], work: _Work
) -> _Parts:
    processes: list[Process] = []
    gpu_clocks: list[GpuClock] = []
    pairs: list[tuple[int, int]] = []
    numbers: dict[int, ProcessNumbers] = {}
    injected: list[Totals] = []
    ran = False
    for spool in spools:
        index = build_index(spool, work.add)
        rows = ProcessRows(spool, index, lanes, numbers.setdefault(spool.pid, ProcessNumbers()), pattern)
        count = rows.write(write, work.add)
        processes.append(process_facts(spool, index, count, rows.replays.unmatched))
        gpu_clocks += rows.replays.clocks
        pairs += clock_pairs(spool, index)
        injected.append(injected_totals(index))
        ran |= cupti_ran(processes[-1], index)
    return _Parts(tuple(processes), tuple(gpu_clocks), tuple(pairs), ran, tuple(injected))


def _complete(metadata: Metadata, notes: tuple[str, ...], lanes: Lanes, parts: _Parts) -> Metadata:
    collector = replace(
        metadata.collector, processes=parts.processes, notes=(*metadata.collector.notes, *notes)
    )
    clock = replace(
        metadata.clock, pairs=tuple(sorted({*metadata.clock.pairs, *parts.pairs})), gpu=parts.gpu_clocks
    )
    return with_labels(
        replace(
            with_injected(metadata, parts.injected),
            format_version=FORMAT_VERSION,
            created_by=f"cctrace {__version__}",
            collector=collector,
            clock=clock,
            lanes=lanes.listed(),
        ),
        cupti_ran=parts.cupti_ran,
    )
