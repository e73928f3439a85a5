"""How much of the steps the GPU was busy, as far as the recording's GPU rows can tell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray, SmallIntArray, codes, integers
from cctrace.analyzers.forms import BLOCK, TIMES, Packed, counted, looked_up, masked, packed
from cctrace.analyzers.results import Result, value
from cctrace.trace import Collector
from cctrace.trace.schema import SOURCES

GPU_COLUMNS: Final = ("kind", "source", "start_ns", "duration_ns", "pid", "device")
GPU_FORM_COLUMNS: Final = tuple(name for name in GPU_COLUMNS if name not in TIMES)
GPU_KINDS: Final = ("kernel", "graph", "copy", "memset", "range")
_SOURCES: Final = tuple(SOURCES)
_KERNEL, _GRAPH, _COPY, _MEMSET, _RANGE = range(len(GPU_KINDS))
_STAMPS: Final = _SOURCES.index("stamps")


@dataclass(frozen=True, eq=False)
class GpuForms:
    """The different GPU rows of a trace, one array element for each; see `forms`.

    Attributes:
        kind: position in GPU_KINDS.
        stamped: whether stamps saw it.
        pid: process.
        device: CUDA device, −1 if not known.
    """

    kind: SmallIntArray
    stamped: BoolArray
    pid: IntArray
    device: IntArray


@dataclass(frozen=True, eq=False)
class GpuRows:
    """GPU activity: kernels, graph replays, copies, memsets, and stamped stretches of eager steps.

    Attributes:
        start_ns: begin.
        duration_ns: end − begin.
        form: position in `forms`.
        forms: the different rows.
    """

    start_ns: IntArray
    duration_ns: IntArray
    form: IntArray
    forms: GpuForms

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> IntArray:
        """End of each row."""
        return self.start_ns + self.duration_ns

    @cached_property
    def occurs(self) -> BoolArray:
        """Mask of the forms that these rows have."""
        return counted(self.form, len(self.forms.kind)) > 0

    def of_forms(self, chosen: BoolArray) -> GpuRows:
        """The rows whose form is chosen."""
        if chosen[self.occurs].all():
            return self
        mask = looked_up(chosen, self.form)
        start, duration, form = masked(mask, self.start_ns, self.duration_ns, self.form)
        return GpuRows(start, duration, form, self.forms)


@dataclass(frozen=True)
class GpuBusy(Result):
    """How much of the steps the GPU worked."""

    busy_share: float | None = value(
        "part of the steps' time in which the GPU worked, mean over devices; 0–1"
    )
    busy_us_per_step: float | None = value("the same, per step", "µs")
    upper_bound: bool = value("whether the share is only an upper bound: it holds gaps between kernels")
    source: str | None = value(
        "cupti: kernels, copies and memsets; graph stamps; eager stamps (sampled steps)"
    )
    caveat: str | None = value("what the number leaves out")
    cannot_tell_because: str | None = value("why there is no number")


@dataclass(frozen=True, eq=False)
class BusySteps:
    """How long the GPU worked in each step.

    Attributes:
        busy_ns: union of the GPU's work in each step, mean over devices; 0 where no row of `source` lies.
        source: as in GpuBusy; None if no source saw any of the steps.
        caveat: what the numbers leave out.
        upper_bound: whether they hold gaps between kernels.
        cannot_tell_because: why there is no source.
    """

    busy_ns: FloatArray
    source: str | None = None
    caveat: str | None = None
    upper_bound: bool = False
    cannot_tell_because: str | None = None

    @property
    def seen(self) -> BoolArray:
        """Mask of the steps whose time is known: stamps see graphs and sampled steps only."""
        if self.source is None:
            return np.zeros(len(self.busy_ns), np.bool_)
        mask: BoolArray = self.busy_ns > 0
        return np.ones_like(mask) if self.source == "cupti" else mask


def gpu_rows_from(table: pa.Table) -> GpuRows:
    """The GPU rows of a table with GPU_COLUMNS; NVTX ranges, which are host time, are left out."""
    return gpu_rows_of(packed(table.to_batches(), GPU_FORM_COLUMNS, table.num_rows))


def gpu_rows_of(rows: Packed) -> GpuRows:
    """As `gpu_rows_from`, of rows whose forms have GPU_FORM_COLUMNS."""
    table = rows.forms
    forms = GpuForms(
        kind=codes(table, "kind", GPU_KINDS),
        stamped=codes(table, "source", _SOURCES) == _STAMPS,
        pid=integers(table, "pid"),
        device=integers(table, "device"),
    )
    work = (forms.kind >= 0) & ((forms.kind != _RANGE) | forms.stamped)
    return GpuRows(rows.start_ns, rows.duration_ns, rows.form, forms).of_forms(work)


def busy_of(
    rows: GpuRows, start_ns: IntArray, end_ns: IntArray, collector: Collector, *, distorted: bool = False
) -> GpuBusy:
    """How busy the GPU was within steps: `busy_steps` in one number; same arguments."""
    if not len(start_ns):
        return _unknown("there are no steady steps")
    steps = busy_steps(rows, start_ns, end_ns, collector, distorted=distorted)
    if steps.source is None:
        return _unknown(steps.cannot_tell_because or "")
    counted = steps.busy_ns > 0 if steps.upper_bound else np.full(len(start_ns), True)
    busy, period = steps.busy_ns[counted], (end_ns - start_ns)[counted]
    share = float(busy.sum() / max(int(period.sum()), 1))
    return GpuBusy(share, float(busy.mean()) / 1e3, steps.upper_bound, steps.source, steps.caveat, None)


def busy_steps(
    rows: GpuRows, start_ns: IntArray, end_ns: IntArray, collector: Collector, *, distorted: bool = False
) -> BusySteps:
    """How long the GPU worked in each of some steps, by the best source that saw it there.

    Args:
        rows: GPU rows of the process.
        start_ns: begin of each step, sorted.
        end_ns: end of each step.
        collector: how the recording was made.
        distorted: CUPTI lengthened the steps.
    """
    busy = _busy_ns(rows.of_forms(~rows.forms.stamped), start_ns, end_ns)
    if busy.any():
        slowed = "CUPTI lengthens the steps, so the share is too low" if distorted else None
        return BusySteps(busy, "cupti", slowed)
    busy = _busy_ns(rows.of_forms(rows.forms.kind == _GRAPH), start_ns, end_ns)
    if busy.any():
        caveat = "from the first to the last node of each graph; work outside of graphs is not seen"
        return BusySteps(busy, "graph stamps", caveat)
    busy = _busy_ns(rows.of_forms(rows.forms.kind == _RANGE), start_ns, end_ns)
    if busy.any():
        sampled = int((busy > 0).sum())
        caveat = f"an upper bound: first to last kernel of {sampled} sampled steps, gaps included"
        return BusySteps(busy, "eager stamps", caveat, upper_bound=True)
    return BusySteps(busy, cannot_tell_because=_why_no_rows(rows, collector.gpu_mode))


def _why_no_rows(rows: GpuRows, gpu_mode: str | None) -> str:
    if len(rows):
        return "no GPU row lies within the steady steps"
    if gpu_mode in (None, "none"):
        return "the recording holds no GPU rows (record with --gpu stamps)"
    return f"the recording holds no GPU rows of this process, though it was made with --gpu {gpu_mode}"


def _unknown(reason: str) -> GpuBusy:
    return GpuBusy(None, None, False, None, None, reason)


def _busy_ns(rows: GpuRows, start_ns: IntArray, end_ns: IntArray) -> FloatArray:
    """Busy nanoseconds of each step, mean over the devices that occur."""
    busy = np.zeros(len(start_ns), np.float64)
    if not len(rows):
        return busy
    devices = np.unique(rows.forms.device[rows.occurs])
    for device in devices:
        own = rows.of_forms(rows.forms.device == device)
        busy += covered_ns(own.start_ns, own.end_ns, start_ns, end_ns)
    return busy / len(devices)


def covered_ns(begin_ns: IntArray, finish_ns: IntArray, start_ns: IntArray, end_ns: IntArray) -> IntArray:
    """How much of each window [start, end) the union of the intervals [begin, finish) covers."""
    # Rows of one stream are sorted already.
    if (begin_ns[1:] < begin_ns[:-1]).any():
        order = np.argsort(begin_ns, kind="stable")
        begin_ns, finish_ns = begin_ns[order], finish_ns[order]
    edges, edge = np.unique(np.concatenate((start_ns, end_ns)), return_inverse=True)
    until_start, until_end = np.split(_covered_until(begin_ns, finish_ns, edges)[edge.reshape(-1)], 2)
    return np.asarray(until_end - until_start, np.int64)


def _covered_until(begin_ns: IntArray, finish_ns: IntArray, times_ns: IntArray) -> IntArray:
    """How much of the time before each moment intervals cover; intervals and moments are sorted.

    An interval covers what the ones before it have left; what the last ones before a moment cover behind it
    does not count.
    """
    covered = np.zeros(len(times_ns), np.int64)
    never, always = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    asked, total, latest = 0, 0, int(always)
    for first in range(0, len(begin_ns), BLOCK):
        begin, finish = begin_ns[first : first + BLOCK], finish_ns[first : first + BLOCK]
        latest_of = np.maximum(np.maximum.accumulate(finish), latest)
        left = np.maximum(begin, np.concatenate(([latest], latest_of[:-1])))
        total_of = total + np.cumsum(np.maximum(finish - left, 0))
        total, latest = int(total_of[-1]), int(latest_of[-1])
        following = begin_ns[first + BLOCK] if first + BLOCK < len(begin_ns) else never
        until = int(np.searchsorted(times_ns, following, side="right"))
        now = np.searchsorted(begin, times_ns[asked:until], side="right") - 1
        behind = np.maximum(latest_of[now] - times_ns[asked:until], 0)
        covered[asked:until] = np.where(now < 0, 0, total_of[now] - behind)
        asked = until
    return covered
