"""Comparison of all runs of two arms, one pair after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from cctrace.analyzers.report.assembly import ComparedPair, assembled, measured
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.report.pairs import compared_pair
from cctrace.analyzers.statistics import MeasuredPair, TeeSplit, paired_in_order, split_by_tee
from cctrace.trace import Trace, open_trace

Progress = Callable[[int, int], None]


def compared_runs(
    off: Sequence[Path],
    on: Sequence[Path],
    tee_only: Sequence[Path] = (),
    *,
    kernel_times: Path | None = None,
    fail_over_pct: float | None = None,
    progress: Progress | None = None,
) -> Report:
    """The document of a comparison. Rows of one pair at a time are in memory.

    Args:
        off: recordings with confidential computing off.
        on: recordings with it on, or emulated.
        tee_only: recordings in the trusted VM with the GPU's confidential computing off.
        kernel_times: recording of the off arm that has GPU rows of kernels.
        fail_over_pct: limit of `--fail-over`.
        progress: is told how many of all comparisons are done.

    Raises:
        UnusableInputError: a file cannot be read, or has no steps.
    """
    kernels = None if kernel_times is None else open_trace(kernel_times)
    pairing = paired_in_order([open_trace(path) for path in off], [open_trace(path) for path in on], started)
    third = paired_in_order(
        [open_trace(path) for path in tee_only], [pair[1] for pair in pairing.pairs], started
    )
    sets = [
        (first, tee, second) for (first, second), (tee, _) in zip(pairing.pairs, third.pairs, strict=False)
    ]
    total, done = len(pairing.pairs) + 2 * len(sets), 0

    def compared(first: Trace, second: Trace) -> ComparedPair:
        nonlocal done
        pair = compared_pair(first, second, kernels)
        done += 1
        if progress is not None:
            progress(done, total)
        return pair

    pairs = [compared(*pair) for pair in pairing.pairs]
    notes = [*pairing.notes, *third.notes] if sets else list(pairing.notes)
    return assembled(pairs, notes=notes, tee=_tee_split(sets, compared), fail_over_pct=fail_over_pct)


def started(trace: Trace) -> float | None:
    """When a recording began, s since 1970; None if it does not say."""
    text = trace.metadata.recording.started_at
    try:
        return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _tee_split(
    sets: Sequence[tuple[Trace, Trace, Trace]], compared: Callable[[Trace, Trace], ComparedPair]
) -> TeeSplit | None:
    if not sets:
        return None

    def several(pairs: Sequence[tuple[Trace, Trace]]) -> list[MeasuredPair]:
        return [measured(compared(first, second).attribution) for first, second in pairs]

    vm = several([(off, tee) for off, tee, _ in sets])
    return split_by_tee(vm, several([(tee, on) for _, tee, on in sets]))
