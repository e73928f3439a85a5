"""Comparison of all runs of two arms, one pair after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from cctrace.analyzers.attribution.engine import attribute
from cctrace.analyzers.attribution.kernel_times import KernelTimes, kernel_times_of
from cctrace.analyzers.attribution.result import Attribution
from cctrace.analyzers.comparability import Outline, comparability_of, outline
from cctrace.analyzers.comparability.identity import refuse_copies
from cctrace.analyzers.loading import Recording, load
from cctrace.analyzers.report.assembly import ComparedPair, assembled, measured
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.report.pairs import compared_pair
from cctrace.analyzers.statistics import TeeSplit, paired_in_order, split_by_tee
from cctrace.trace import Trace, open_trace

Progress = Callable[[int, int], None]


class _Comparisons:
    """Compares pair after pair: rows of one pair at a time are in memory, outlines of all recordings."""

    def __init__(self, total: int, kernel_times: KernelTimes | None, progress: Progress | None) -> None:
        self._total, self._done, self._progress = total, 0, progress
        self._kernel_times = kernel_times
        self._outlines: dict[Path, Outline] = {}

    def compared(self, off: Trace, on: Trace) -> ComparedPair:
        """What the pair says."""
        pair = compared_pair(off, on, self._loaded(off, on), self._kernel_times)
        self._count()
        return pair

    def attributed(self, off: Trace, on: Trace) -> Attribution:
        """Only the causes of the pair."""
        first, second = self._loaded(off, on)
        causes = attribute(second, first, self._kernel_times)
        self._count()
        return causes

    def _loaded(self, off: Trace, on: Trace) -> tuple[Recording, Recording]:
        first, second = load(off), load(on)
        self._outlines |= {off.path: outline(first), on.path: outline(second)}
        return first, second

    def _count(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)

    def outlines(self, traces: Sequence[Trace]) -> list[Outline]:
        """Outlines of recordings that have been compared."""
        return [self._outlines[trace.path] for trace in traces]


def compared_runs(
    off: Sequence[Path],
    on: Sequence[Path],
    tee_only: Sequence[Path] = (),
    *,
    kernel_times: Path | None = None,
    fail_over_pct: float | None = None,
    progress: Progress | None = None,
) -> Report:
    """The document of a comparison.

    Args:
        off: recordings with confidential computing off.
        on: recordings with it on, or emulated.
        tee_only: recordings in the trusted VM with the GPU's confidential computing off.
        kernel_times: recording with a GPU row for each kernel, for arms that have none.
        fail_over_pct: limit of `--fail-over`.
        progress: is told how many of all comparisons are done.

    Raises:
        UnusableInputError: a file cannot be read, or has no steps; or an arm holds a recording twice.
    """
    off_runs, on_runs, tee_runs = (_opened(paths) for paths in (off, on, tee_only))
    pairing = paired_in_order(off_runs, on_runs, started)
    firsts, seconds = [first for first, _ in pairing.pairs], [second for _, second in pairing.pairs]
    thirds = [tee for tee, _ in paired_in_order(tee_runs, seconds, started).pairs]
    kernels = None if kernel_times is None else kernel_times_of(load(open_trace(kernel_times)))
    work = _Comparisons(len(firsts) + 2 * len(thirds), kernels, progress)
    pairs = [work.compared(first, second) for first, second in pairing.pairs]
    arms = comparability_of(work.outlines(firsts), work.outlines(seconds))
    tee, notes = _tee_split(work, firsts, thirds, seconds)
    if len(tee_only) > len(thirds):
        notes += ("not every run of --tee-only has a pair of runs beside it; the latest are left out",)
    # The order of one pair cannot be wrong.
    order = pairing.notes if len(off) + len(on) > 2 else ()
    return assembled(
        pairs,
        arms,
        notes=(*order, *notes),
        tee=tee,
        kernel_times=None if kernel_times is None else str(kernel_times),
        fail_over_pct=fail_over_pct,
    )


def _opened(paths: Sequence[Path]) -> list[Trace]:
    runs = [open_trace(path) for path in paths]
    refuse_copies(runs)
    return runs


def started(trace: Trace) -> float | None:
    """When a recording began, s since 1970; None if it does not say."""
    text = trace.metadata.recording.started_at
    try:
        return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _tee_split(
    work: _Comparisons, off: Sequence[Trace], tee: Sequence[Trace], on: Sequence[Trace]
) -> tuple[TeeSplit | None, tuple[str, ...]]:
    """The split by the third arm, and why there is none though it was given."""
    if not tee:
        return None, ()
    vm = [work.attributed(first, third) for first, third in zip(off, tee, strict=False)]
    gpu = [work.attributed(third, second) for third, second in zip(tee, on, strict=False)]
    firsts, thirds, seconds = (work.outlines(traces) for traces in (off, tee, on))
    forbidden = (
        *comparability_of(firsts, thirds).forbidden_because,
        *comparability_of(thirds, seconds).forbidden_because,
    )
    if forbidden:
        return None, (f"no split by the runs with the trusted VM alone, because {forbidden[0]}",)
    first, second = ([measured(causes) for causes in pairs] for pairs in (vm, gpu))
    return split_by_tee(first, second), ()
