"""`cctrace diff` in the terminal."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cctrace.analyzers.diff import ArmResult, Diff
from cctrace.analyzers.differences import CallDifferences, FieldDifference
from cctrace.analyzers.gpu import GpuBusy
from cctrace.analyzers.sentences import count_text, percent, signed_time, time_text
from cctrace.analyzers.state import StateComparison
from cctrace.analyzers.tolls import Account, Toll, WaitDifference
from cctrace.analyzers.verdicts import waits_elsewhere
from cctrace.app.palette import CAUSE_COLOURS, FAINT_STYLE, WARNING_COLOUR
from cctrace.app.summary_view import busy_text, gpu_line, provenance_line
from cctrace.app.terminal import line, safe, section, table

MAX_FIELDS: Final = 12
MAX_CALLS: Final = 12
MAX_VALUE_CHARACTERS: Final = 60
MIN_WAIT_US: Final = 0.5
"""Waits that differ by less per step are not listed: such calls found their work done in both arms."""
_DASH: Final = "–"


def show_diff(out: Console, diff: Diff) -> None:
    """Prints a comparison: the sentence, doubts, both arms, the account, what else differs."""
    for warning in diff.state.not_same:  # before any number: it may be about something else than CC
        line(out, f"! {warning}.", style=f"bold {WARNING_COLOUR}")
    line(out, diff.headline, style="bold")
    for arm in (diff.on, diff.off):
        for label in arm.provenance.warnings:
            line(out, f"{arm.provenance.path} is {label}.", style=f"bold {WARNING_COLOUR}")
    for warning in diff.warnings[len(diff.state.not_same) :]:
        line(out, f"! {warning}", style=WARNING_COLOUR)
    _show_arms(out, diff)
    _show_classes(out, diff)
    if diff.account is None:
        line(out, f"Tolls and waiting: cannot tell, because {diff.no_account_because}.")
    else:
        _show_account(out, diff, diff.account)
    for statement in diff.statements:
        line(out, f"- {statement}")
    causes = ", ".join(CAUSE_COLOURS)
    line(out, f"Shares by cause ({causes}): not computed: {diff.shares.not_computed_because}.")
    _show_fields(out, diff.field_differences)
    line(out, _state_line(diff.state), style=FAINT_STYLE)
    _show_calls(out, diff.call_differences)


def _show_arms(out: Console, diff: Diff) -> None:
    section(out, "Arms")
    off, on = diff.off, diff.on
    rows = [
        [
            "step (typical mean)",
            time_text(off.period_us),
            time_text(on.period_us),
            signed_time(diff.delta_us_per_step),
        ],
        ["step median", *_both(off, on, "median_us")],
        ["step p10", *_both(off, on, "p10_us")],
        ["step p90", *_both(off, on, "p90_us")],
        _counts("submissions", off.work_per_step, on.work_per_step),
        _counts("events, stream waits", off.order_per_step, on.order_per_step),
        _counts("graph launches", off.graphs.per_step, on.graphs.per_step),
        _times("host waits for the GPU", off.wait_us_per_step, on.wait_us_per_step),
        *_other_thread(off, on),
        _times("host code outside calls", off.outside_calls_us_per_step, on.outside_calls_us_per_step),
        ["GPU busy", busy_text(off.gpu), busy_text(on.gpu), ""],
        ["steps used", f"{off.typical_steps}", f"{on.typical_steps}", ""],
    ]
    out.print(table(("per step", "off", "on", "on − off"), rows))
    for name, arm in (("off", off), ("on", on)):
        line(out, f"{name}: {provenance_line(arm.provenance)}", style=FAINT_STYLE)
    if gpu_source(off.gpu) == gpu_source(on.gpu):
        line(out, gpu_source(off.gpu), style=FAINT_STYLE)
    else:
        for name, arm in (("off", off), ("on", on)):
            line(out, f"{name}: {gpu_source(arm.gpu)}", style=FAINT_STYLE)


def gpu_source(gpu: GpuBusy) -> str:
    """Where the number of GPU busy comes from, and what it leaves out; or why there is none."""
    if gpu.busy_share is None:
        return gpu_line(gpu)
    return f"GPU busy from {gpu.source}" + (f": {gpu.caveat}." if gpu.caveat else ".")


def _other_thread(off: ArmResult, on: ArmResult) -> list[list[str]]:
    """A line only where another thread waits long."""
    if not waits_elsewhere(off) and not waits_elsewhere(on):
        return []
    return [
        _times("another thread waits", off.other_thread_wait_us_per_step, on.other_thread_wait_us_per_step)
    ]


def _both(off: ArmResult, on: ArmResult, name: str) -> list[str]:
    first = getattr(off.period, name) if off.period else 0.0
    second = getattr(on.period, name) if on.period else 0.0
    return [time_text(first), time_text(second), signed_time(second - first)]


def _counts(name: str, off: float, on: float) -> list[str]:
    change = on - off
    return [
        name,
        count_text(off),
        count_text(on),
        f"{change:+.1f}".replace("-", "−") if abs(change) >= 0.05 else "0",
    ]


def _times(name: str, off: float, on: float) -> list[str]:
    return [name, time_text(off), time_text(on), signed_time(on - off)]


def _show_classes(out: Console, diff: Diff) -> None:
    if len(diff.classes) < 2:
        return
    rows = [
        [
            ("▸ " if one.main else "  ") + one.off_class,
            time_text(one.off_us),
            time_text(one.on_us),
            percent(one.step_growth, signed=True),
        ]
        for one in diff.classes
    ]
    section(out, "Classes of steps that both arms have; the account is about ▸")
    out.print(table(("class", "off", "on", "step growth"), rows))


def _show_account(out: Console, diff: Diff, account: Account) -> None:
    section(out, f"Where the {signed_time(diff.delta_us_per_step)} per step lie")
    rows: list[list[str | Text]] = [_toll_row(toll) for toll in account.tolls]
    rows.append(["waiting for the GPU", "", "", "", "", _coloured(account.wait_us_per_step, "overlap")])
    rest = account.unexplained
    rows.append(["unexplained remainder", "", "", "", "", _coloured(rest.total_us_per_step, "residual")])
    for name, part in (
        ("  host code outside calls", rest.outside_calls_us_per_step),
        ("  calls above own cost", rest.dearer_calls_us_per_step),
        ("  calls without a counterpart", rest.other_counts_us_per_step),
        ("  queries, allocations", rest.other_calls_us_per_step),
    ):
        rows.append([name, "", "", "", "", Text(signed_time(part), style=FAINT_STYLE)])
    columns = ("raw toll", "calls", "own off", "own on", "toll", "time")
    out.print(table(columns, rows))
    waits = [one for one in account.waits if abs(one.difference_us_per_step) >= MIN_WAIT_US]
    if waits:
        out.print(_wait_table(waits))
    if any(one.thread == "other" for one in waits) or any(map(_elsewhere, account.tolls)):
        line(out, "* on another thread: not part of the step's time line.", style=FAINT_STYLE)


def _wait_table(waits: list[WaitDifference]) -> Table:
    rows = [
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
    return table(("waiting call", "calls off", "calls on", "off", "on", "on − off"), rows)


def _elsewhere(toll: Toll) -> bool:
    """Whether only other threads pay this toll."""
    return bool(toll.other_threads_counted_per_step) and not toll.counted_per_step


def _toll_row(toll: Toll) -> list[str | Text]:
    return [
        toll.category + (" *" if _elsewhere(toll) else ""),
        count_text(toll.on_per_step),
        _time(toll.off_own_cost_us),
        _time(toll.on_own_cost_us),
        _DASH if toll.toll_us is None else signed_time(toll.toll_us),
        Text(_DASH) if toll.toll_us is None else _coloured(toll.raw_toll_us_per_step, "launch"),
    ]


def _coloured(us: float, cause: str) -> Text:
    return Text(signed_time(us), style=CAUSE_COLOURS[cause])


def _time(us: float | None) -> str:
    return _DASH if us is None else time_text(us)


def _show_fields(out: Console, fields: tuple[FieldDifference, ...]) -> None:
    unexpected = [one for one in fields if not one.expected]
    section(out, "What else differs between the recordings")
    if not unexpected:
        line(out, "Nothing that the metadata records.")
    else:
        rows = [[one.name, _short(one.off), _short(one.on)] for one in unexpected[:MAX_FIELDS]]
        out.print(table(("field", "off", "on"), rows, numbers_from=3))
        if len(unexpected) > MAX_FIELDS:
            line(out, f"{len(unexpected) - MAX_FIELDS} more fields; --json lists them.", style=FAINT_STYLE)
    # The headline names the emulated platform; its values are in the JSON.
    expected = [
        f"{one.name} {_short(one.off)} → {_short(one.on)}"
        for one in fields
        if one.expected and not one.name.startswith("emulation.")
    ]
    if expected:
        line(out, "As meant: " + ", ".join(expected) + ".", style=FAINT_STYLE)


def _state_line(state: StateComparison) -> str:
    if state.summary is not None:
        return state.summary
    return f"State of the GPUs before: cannot tell, {state.cannot_tell_because}."


def _show_calls(out: Console, calls: CallDifferences) -> None:
    if not calls.listed:
        if not calls.kernel_names_known:
            line(
                out,
                "Calls per step are equal; kernel names are not recorded in both arms.",
                style=FAINT_STYLE,
            )
        return
    section(out, "Kernels and calls that differ in number per step")
    rows = [
        [_short(one.call), count_text(one.off_per_step), count_text(one.on_per_step)]
        for one in calls.listed[:MAX_CALLS]
    ]
    out.print(table(("kernel or call", "off", "on"), rows))
    left = len(calls.listed) + calls.more - len(rows)
    if left > 0:
        line(out, f"{left} more; --json lists them.", style=FAINT_STYLE)


def _short(text: str | None) -> str:
    if text is None:
        return "not known"
    text = safe(text)
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[: MAX_VALUE_CHARACTERS - 1] + "…"
