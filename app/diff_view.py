"""`cctrace diff`: all that its report shows, in order, whatever shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.console import Console

from cctrace.analyzers.diff import ArmResult, Diff
from cctrace.analyzers.differences import CallDifferences
from cctrace.analyzers.gpu import GpuBusy
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.sentences import count_text, percent, signed_time, time_text
from cctrace.analyzers.state import StateComparison
from cctrace.analyzers.tolls import Account, Toll, WaitDifference
from cctrace.analyzers.verdicts import waits_elsewhere
from cctrace.app.attribution_view import opening_blocks, short, whole_blocks
from cctrace.app.blocks import FAINT, WARNING, Block, Cell, Paragraph, Row, Sheet, Title
from cctrace.app.detail_view import (
    class_blocks,
    finding_blocks,
    other_blocks,
    phase_blocks,
    run_blocks,
    site_blocks,
    tee_blocks,
    thread_blocks,
)
from cctrace.app.summary_view import busy_text, gpu_line, provenance_line
from cctrace.app.terminal_report import show_blocks

VIEWS: Final = ("phase", "class", "thread")
"""What `--by` chooses."""
MAX_CALLS: Final = 12
MIN_WAIT_US: Final = 0.5
"""Waits that differ by less per step are not listed: such calls found their work done in both arms."""
RAW_TOLL: Final = (
    "raw toll: what the calls cost more by themselves. How much of it the step feels is their cause's share."
)
"""Why tolls differ from shares: work beside them can hide them."""
_DASH: Final = "–"


def show_diff(out: Console, report: Report, by: str = "phase") -> None:
    """Prints a comparison in the terminal; `by` is one of VIEWS."""
    show_blocks(out, diff_blocks(report, by))


def diff_blocks(report: Report, by: str = "phase") -> Iterable[Block]:
    """The report: the sentence and doubts first, then the causes, then the calls behind them."""
    yield from opening_blocks(report)
    if report.gate is not None:
        yield Paragraph(_gate_text(report), WARNING if report.gate.failed else "")
    yield from whole_blocks(report)
    yield from phase_blocks(report)
    if by == "class":
        yield from class_blocks(report)
    elif by == "thread":
        yield from thread_blocks(report)
    else:
        yield from site_blocks(report)
    yield from finding_blocks(report)
    if report.tee is not None:
        yield from tee_blocks(report.tee)
    yield from run_blocks(report)
    yield from calls_blocks(report)
    yield from other_blocks(report)


def _gate_text(report: Report) -> str:
    assert report.gate is not None  # noqa: S101 - the caller asked
    word = "failed" if report.gate.failed else "passed"
    return f"--fail-over {report.gate.limit_pct:g} %: {word}: {report.gate.because}."


def calls_blocks(report: Report) -> Iterable[Block]:
    """Calls, waiting and metadata: what can be said without a replay."""
    calls = report.calls
    pair = f" of pair {report.calls_of_pair}" if len(report.runs) > 1 else ""
    yield Title(f"Calls and waiting{pair}, typical steps of class {calls.on.class_name}")
    yield from _arm_blocks(calls)
    if calls.account is None:
        yield Paragraph(f"Tolls and waiting: cannot tell, because {calls.no_account_because}.")
    else:
        yield from _account_blocks(calls.account)
        if report.shares is not None:
            yield Paragraph(RAW_TOLL, FAINT)
    for statement in calls.statements:
        yield Paragraph(f"- {statement}")
    if report.refused_because:
        yield from _class_blocks(calls)
    yield from _call_blocks(calls.call_differences)
    yield Paragraph(_state_text(calls.state), FAINT)


def _state_text(state: StateComparison) -> str:
    if state.summary is not None:
        return state.summary
    return f"State of the GPUs before: cannot tell, {state.cannot_tell_because}."


def _arm_blocks(calls: Diff) -> Iterable[Block]:
    off, on = calls.off, calls.on
    rows: list[Row] = [
        _times("step (typical mean)", off.period_us, on.period_us),
        _counts("submissions", off.work_per_step, on.work_per_step),
        _counts("graph launches", off.graphs.per_step, on.graphs.per_step),
        _times("host waits for the GPU", off.wait_us_per_step, on.wait_us_per_step),
        *_other_thread(off, on),
        _times("host code outside calls", off.outside_calls_us_per_step, on.outside_calls_us_per_step),
        ["GPU busy", busy_text(off.gpu), busy_text(on.gpu), ""],
        ["steps used", f"{off.typical_steps}", f"{on.typical_steps}", ""],
    ]
    yield Sheet(("per step", "off", "on", "on − off"), tuple(rows))
    for name, arm in (("off", off), ("on", on)):
        yield Paragraph(f"{name}: {provenance_line(arm.provenance)}", FAINT)
    if gpu_source(off.gpu) == gpu_source(on.gpu):
        yield Paragraph(gpu_source(off.gpu), FAINT)
    else:
        yield Paragraph(f"off: {gpu_source(off.gpu)}", FAINT)
        yield Paragraph(f"on: {gpu_source(on.gpu)}", FAINT)


def gpu_source(gpu: GpuBusy) -> str:
    """Where the number of GPU busy comes from, and what it leaves out; or why there is none."""
    if gpu.busy_share is None:
        return gpu_line(gpu)
    return f"GPU busy from {gpu.source}" + (f": {gpu.caveat}." if gpu.caveat else ".")


def _other_thread(off: ArmResult, on: ArmResult) -> list[Row]:
    """A line only where another thread waits long."""
    if not waits_elsewhere(off) and not waits_elsewhere(on):
        return []
    return [
        _times("another thread waits", off.other_thread_wait_us_per_step, on.other_thread_wait_us_per_step)
    ]


def _counts(name: str, off: float, on: float) -> Row:
    change = on - off
    changed = f"{change:+.1f}".replace("-", "−") if abs(change) >= 0.05 else "0"
    return [name, count_text(off), count_text(on), changed]


def _times(name: str, off: float, on: float) -> Row:
    return [name, time_text(off), time_text(on), signed_time(on - off)]


def _class_blocks(calls: Diff) -> Iterable[Block]:
    if len(calls.classes) < 2:
        return
    yield Title("Classes of steps that both arms have; tolls and waiting are about ▸")
    rows: list[Row] = [
        [
            ("▸ " if one.main else "  ") + one.off_class,
            time_text(one.off_us),
            time_text(one.on_us),
            percent(one.step_growth, signed=True),
        ]
        for one in calls.classes
    ]
    yield Sheet(("class", "off", "on", "step growth"), tuple(rows))


def _account_blocks(account: Account) -> Iterable[Block]:
    rows: list[Row] = [_toll_row(toll) for toll in account.tolls]
    rest = account.unexplained.total_us_per_step
    rows.append(
        ["waiting for the GPU", "", "", "", "", Cell(signed_time(account.wait_us_per_step), "overlap")]
    )
    rows.append(["unexplained remainder", "", "", "", "", Cell(signed_time(rest), "residual")])
    yield Sheet(("raw toll", "calls", "own off", "own on", "toll", "time"), tuple(rows))
    waits = [one for one in account.waits if abs(one.difference_us_per_step) >= MIN_WAIT_US]
    if waits:
        yield _wait_sheet(waits)
    if any(one.thread == "other" for one in waits) or any(map(_elsewhere, account.tolls)):
        yield Paragraph("* on another thread: not part of the step's time line.", FAINT)


def _wait_sheet(waits: list[WaitDifference]) -> Sheet:
    rows: list[Row] = [
        [
            one.category + ("" if one.thread == "step" else " *"),
            count_text(one.off_per_step),
            count_text(one.on_per_step),
            time_text(one.off_us_per_step),
            time_text(one.on_us_per_step),
            signed_time(one.difference_us_per_step),
        ]
        for one in waits
    ]
    return Sheet(("waiting call", "calls off", "calls on", "off", "on", "on − off"), tuple(rows))


def _elsewhere(toll: Toll) -> bool:
    """Whether only other threads pay this toll."""
    return bool(toll.other_threads_counted_per_step) and not toll.counted_per_step


def _toll_row(toll: Toll) -> Row:
    return [
        toll.category + (" *" if _elsewhere(toll) else ""),
        count_text(toll.on_per_step),
        _time(toll.off_own_cost_us),
        _time(toll.on_own_cost_us),
        _DASH if toll.toll_us is None else signed_time(toll.toll_us),
        _DASH if toll.toll_us is None else Cell(signed_time(toll.raw_toll_us_per_step), "launch"),
    ]


def _time(us: float | None) -> str:
    return _DASH if us is None else time_text(us)


def _call_blocks(calls: CallDifferences) -> Iterable[Block]:
    if not calls.listed:
        if not calls.kernel_names_known:
            yield Paragraph("Calls per step are equal; kernel names are not recorded in both arms.", FAINT)
        return
    yield Title("Kernels and calls that differ in number per step")
    rows = tuple(
        [short(one.call), count_text(one.off_per_step), count_text(one.on_per_step)]
        for one in calls.listed[:MAX_CALLS]
    )
    yield Sheet(("kernel or call", "off", "on"), rows)
    left = len(calls.listed) + calls.more - len(rows)
    if left > 0:
        yield Paragraph(f"{left} more; --json lists them.", FAINT)
