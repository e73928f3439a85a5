"""All rows of a trace in memory, fourteen bytes each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.forms import numbered
from cctrace.errors import UnusableInputError
from cctrace.trace import SCHEMA, Trace

Numbers = npt.NDArray[np.integer[Any]]
"""Whole numbers, with or without a sign."""
Progress = Callable[[float], None]
"""Is told which part of the work is done, 0–1."""

FORM_COLUMNS: Final = (
    "kind",
    "name",
    "operation",
    "source",
    "pid",
    "kernel",
    "bytes",
    "copy_kind",
    "blocking",
)
"""What makes two rows look different on a time line."""
LONGEST: Final = int(np.iinfo(np.uint32).max)
"""Stands for a duration that 32 bits do not hold: 4.3 s or more."""
MAX_SPAN_NS: Final = 1 << 53
"""Longest recording that can be drawn, 104 days: up to here the numbers of a browser are exact."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a trace, sorted by lane, then by start. The position of a row here is its *place*.

    Attributes:
        start: begin, ns, CLOCK_MONOTONIC.
        duration: ns, none below 0; LONGEST where it is in `long_durations`.
        form: position in `forms`.
        forms: the different rows, with FORM_COLUMNS.
        long_places: places of long rows, sorted.
        long_durations: how long they are, ns.
        lanes: number of the lane of each stretch of rows.
        bounds: place where each stretch begins; one more at the end.
        order: number in the file of the row at each place; None if it is the place.
    """

    start: IntArray
    duration: Numbers
    form: Numbers
    forms: pa.Table
    long_places: IntArray
    long_durations: IntArray
    lanes: IntArray
    bounds: IntArray
    order: IntArray | None

    def __len__(self) -> int:
        return len(self.start)


def read_rows(trace: Trace, progress: Progress) -> Rows:
    """Reads the rows; one batch at a time is in memory as the trace stores it.

    Raises:
        UnusableInputError: the file is damaged, or holds times of more than MAX_SPAN_NS.
    """
    reader = _Reader(trace.num_rows)
    for batch in trace.batches((*FORM_COLUMNS, "lane", "start_ns", "duration_ns")):
        reader.add(batch)
        progress(reader.rows / max(trace.num_rows, 1))
    # What Arrow keeps for its next read is needed for the index.
    pa.default_memory_pool().release_unused()
    rows = reader.finished()
    _check_times(trace, rows)
    return _in_order(rows)


class _Reader:
    """Rows as they come from the file."""

    def __init__(self, most: int) -> None:
        # Memory that no row is written to is never taken.
        self._start = np.empty(most, np.int64)
        self._duration = np.empty(most, np.uint32)
        self._form: Numbers = np.empty(most, np.uint16)
        self._forms: list[pa.RecordBatch] = []
        self._ends: list[int] = []
        self._long_places: list[IntArray] = []
        self._long_durations: list[IntArray] = []
        self._bounds: list[IntArray] = []
        self._lanes: list[IntArray] = []
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        place = slice(self.rows, self.rows + batch.num_rows)
        self._start[place] = batch.column("start_ns").to_numpy()
        self._put_durations(place, batch.column("duration_ns").to_numpy())
        self._put_lanes(batch.column("lane").to_numpy())
        number, examples = numbered([batch.column(name) for name in FORM_COLUMNS])
        self._form = _wide_enough(self._form, len(examples))
        self._form[place] = number
        self._forms.append(batch.select(list(FORM_COLUMNS)).take(pa.array(examples)))
        self.rows = place.stop
        self._ends.append(self.rows)

    def finished(self) -> Rows:
        forms = self._few_forms()
        lanes, bounds = _joined(_concatenated(self._lanes), _concatenated(self._bounds))
        return Rows(
            start=self._start[: self.rows],
            duration=self._duration[: self.rows],
            form=self._form[: self.rows],
            forms=forms,
            long_places=_concatenated(self._long_places),
            long_durations=_concatenated(self._long_durations),
            lanes=lanes,
            bounds=np.append(bounds, self.rows),
            order=None,
        )

    def _put_durations(self, place: slice, duration: IntArray) -> None:
        np.clip(duration, 0, LONGEST, out=self._duration[place], casting="unsafe")
        long = np.flatnonzero(self._duration[place] == LONGEST)
        self._long_places.append(long + place.start)
        self._long_durations.append(duration[long].astype(np.int64))

    def _put_lanes(self, lane: IntArray) -> None:
        begins = np.concatenate(([0], np.flatnonzero(lane[1:] != lane[:-1]) + 1))
        self._bounds.append(begins + self.rows)
        self._lanes.append(lane[begins])

    def _few_forms(self) -> pa.Table:
        """Each batch has brought its forms: equal ones become one."""
        if not self._forms:
            return pa.schema([SCHEMA.field(name) for name in FORM_COLUMNS]).empty_table()
        every = pa.Table.from_batches(self._forms).unify_dictionaries().combine_chunks()
        number, examples = numbered([column.chunk(0) for column in every.columns])
        self._form = _wide_enough(self._form, len(examples))
        begin = first = 0
        for end, forms in zip(self._ends, self._forms, strict=True):
            of_batch = number[first : first + forms.num_rows].astype(self._form.dtype)
            self._form[begin:end] = of_batch[self._form[begin:end]]
            begin, first = end, first + forms.num_rows
        return every.take(pa.array(examples))


def _concatenated(parts: list[IntArray]) -> IntArray:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def _joined(lanes: IntArray, bounds: IntArray) -> tuple[IntArray, IntArray]:
    """Stretches of one lane that follow each other as one."""
    begins = np.concatenate(([True], lanes[1:] != lanes[:-1])) if len(lanes) else np.zeros(0, np.bool_)
    return lanes[begins], bounds[begins]


def _wide_enough(form: Numbers, kinds: int) -> Numbers:
    """The array, in 32 bits if 16 do not hold so many numbers."""
    return form if kinds <= np.iinfo(form.dtype).max else form.astype(np.int32)


def _check_times(trace: Trace, rows: Rows) -> None:
    if not len(rows):
        return
    first, last = int(rows.start.min()), int(rows.start.max())
    longest = int(rows.long_durations.max()) if len(rows.long_durations) else 0
    if last - first + longest > MAX_SPAN_NS:
        raise UnusableInputError(
            f"{trace.path}: its times span more than {MAX_SPAN_NS // (24 * 3600 * 10**9)} days; "
            "this is no valid trace"
        )


def _in_order(rows: Rows) -> Rows:
    """Sorts rows that do not lie by lane and start; in a trace of cctrace's they do."""
    # The first row of a stretch may begin before the last one of the stretch before.
    falls = np.flatnonzero(rows.start[1:] < rows.start[:-1]) + 1
    if len(np.unique(rows.lanes)) == len(rows.lanes) and np.isin(falls, rows.bounds).all():
        return rows
    lane = np.repeat(rows.lanes, np.diff(rows.bounds))
    order = np.lexsort((rows.start, lane))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    long = place[rows.long_places]
    by_place = np.argsort(long)
    lanes, counts = np.unique(lane, return_counts=True)
    return replace(
        rows,
        start=rows.start[order],
        duration=rows.duration[order],
        form=rows.form[order],
        long_places=long[by_place],
        long_durations=rows.long_durations[by_place],
        lanes=lanes,
        bounds=np.concatenate(([0], np.cumsum(counts))),
        order=order,
    )
