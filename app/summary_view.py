"""`cctrace summary`: what it shows, in order, whatever shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.console import Console

from cctrace.analyzers.copies import CopyBucket
from cctrace.analyzers.gpu import GpuBusy
from cctrace.analyzers.provenance import Provenance
from cctrace.analyzers.sentences import bytes_text, count_text, percent, plural, seconds_text, time_text
from cctrace.analyzers.startup import StartUp
from cctrace.analyzers.submissions import CallCost
from cctrace.analyzers.summary import ClassSummary, ProcessSummary, StepsSummary, Summary, step_sentence
from cctrace.app.blocks import FAINT, STRONG, WARNING, Block, Paragraph, Row, Sheet, Title
from cctrace.app.terminal_report import show_blocks

MAX_CLASSES: Final = 8
"""Classes listed; the rest is counted."""
MAX_COPY_LINES: Final = 12
COUNTED: Final = ("pause", "hiccup")
"""Reasons that are things one can count."""
MIN_STALLS_PER_STEP: Final = 0.01
"""Waiting calls that come less often than once in a hundred steps are chance; the JSON has them."""
_DASH: Final = "–"


def show_summary(out: Console, summary: Summary) -> None:
    """Prints a summary in the terminal."""
    show_blocks(out, summary_blocks(summary))


def summary_blocks(summary: Summary) -> Iterable[Block]:
    """The sentence; steps, calls, waiting, copies and start-up of the busiest process; the others."""
    yield Paragraph(summary.headline, STRONG)
    for warning in summary.provenance.warnings:
        yield Paragraph(f"This recording is {warning}.", WARNING)
    yield Paragraph(provenance_line(summary.provenance), FAINT)
    for process in summary.processes[:1]:
        yield from _process_blocks(process)
    yield from _other_blocks(summary.processes[1:])
    texts = list(summary.notes)
    if summary.idle_processes:
        idle = plural(summary.idle_processes, "more process")
        texts.append(f"{idle} made driver calls, but handed no work to the GPU")
    if texts:
        yield Title("Notes")
    for text in texts:
        yield Paragraph(f"- {text}")


def provenance_line(one: Provenance) -> str:
    """One line: file, CC state, GPU, how it was recorded."""
    parts = [one.path, f"CC {one.cc_mode or 'not known'}"]
    if one.emulated:
        parts.append(f"emulated {one.emulated}")
    if one.nvlink_encryption:
        parts.append(f"NVLink encryption {one.nvlink_encryption}")
    parts.append(one.gpu_model or "GPU not known")
    parts.append(f"GPU times: {one.gpu_mode or 'not known'}")
    return " · ".join(parts)


def _process_blocks(process: ProcessSummary) -> Iterable[Block]:
    yield Title(f"Process {process.pid}" + (f" {process.name}" if process.name else ""))
    if process.steps is None:
        yield Paragraph(f"Cannot tell the steps, because {process.no_steps_because}.")
    else:
        yield from _step_blocks(process.steps)
    yield Paragraph(start_up_line(process.start_up))


def _other_blocks(processes: tuple[ProcessSummary, ...]) -> Iterable[Block]:
    """One line for each further process: ranks do the same, and the JSON has them all."""
    if not processes:
        return
    yield Title("Other processes that hand work to the GPU (--json has their details)")
    for process in processes:
        text = (
            f"no steps, because {process.no_steps_because}."
            if process.steps is None
            else step_sentence(process.steps)
        )
        yield Paragraph(f"{process.pid} {process.name or ''}: {text}")


def _step_blocks(steps: StepsSummary) -> Iterable[Block]:
    yield Paragraph(how_found(steps.origin, steps.anchor, steps.confidence, steps.steps, steps.excluded))
    yield class_sheet(steps.classes)
    main = next(one for one in steps.classes if one.main)
    yield Title(f"Host calls per step of: {main.name}")
    yield from _submission_blocks(steps)
    yield from _stall_blocks(steps)
    yield from _copy_blocks(steps.copies)
    yield Paragraph(gpu_line(steps.gpu))


def how_found(
    origin: str, anchor: str, confidence: float | None, steps: int, excluded: dict[str, int]
) -> str:
    """How the steps were found, and which do not count."""
    if origin == "marks":
        text = f"{plural(steps, 'step')} from marks of the program ({anchor})"
    else:
        text = f"{plural(steps, 'step')} inferred: each begins with {anchor}; "
        text += f"{confidence or 0:.0%} repeat a recent step"
    if excluded:
        counts = [
            plural(count, why) if why in COUNTED else f"{count} {why}" for why, count in excluded.items()
        ]
        text += "; not counted: " + ", ".join(counts)
    return text + "."


def class_sheet(
    classes: tuple[ClassSummary, ...], limit: int | None = MAX_CLASSES, *, numbered: bool = False
) -> Sheet:
    """Step classes with their periods; the class that details are about is marked."""
    listed = classes if limit is None else classes[:limit]
    rows: list[Row] = [
        [
            ("▸ " if one.main else "  ") + (f"{number} " if numbered else "") + one.name,
            one.phase + ("" if one.phase_source == "label" else "?"),
            str(one.steady_steps),
            _time(one.period.median_us if one.period else None),
            _time(one.period.p10_us if one.period else None),
            _time(one.period.p90_us if one.period else None),
        ]
        for number, one in enumerate(listed)
    ]
    left = classes[len(listed) :]
    if left:
        steady = sum(one.steady_steps for one in left)
        rows.append([f"  {plural(len(left), 'more class')}", "", str(steady), "", "", ""])
    columns = ("class of steps", "phase", "steps", "median", "p10", "p90")
    return Sheet(columns, tuple(rows), numbers_from=2)


def _submission_blocks(steps: StepsSummary) -> Iterable[Block]:
    submissions = steps.submissions
    rows = tuple(_cost_row(cost) for cost in submissions.categories)
    yield Sheet(("call", "calls/step", "own cost", "time/step", "waited"), rows)
    graphs = steps.graphs
    yield Paragraph(
        f"Submissions per step (kernels, graphs, copies, memsets): {count_text(submissions.work_per_step)}; "
        f"events and stream waits: {count_text(submissions.order_per_step)}; "
        f"host code outside driver calls: {time_text(steps.outside_calls_us_per_step)}."
    )
    if graphs.execution == "fragmented":
        yield Paragraph(
            f"Fragmented graphs: {count_text(graphs.per_step)} graph launches and "
            f"{count_text(graphs.kernels_outside_per_step)} single kernels per step."
        )


def _cost_row(cost: CallCost) -> list[str]:
    return [
        cost.category,
        count_text(cost.per_step),
        _time(cost.own_cost_us),
        time_text(cost.in_call_us_per_step),
        f"{cost.waited}" if cost.waited else _DASH,
    ]


def _stall_blocks(steps: StepsSummary) -> Iterable[Block]:
    stalls = steps.stalls
    waiting = f"The submitting thread waits {time_text(stalls.step_thread_us_per_step)} per step for the GPU"
    if stalls.other_thread_us_per_step > stalls.step_thread_us_per_step:
        waiting += f", another thread {time_text(stalls.other_thread_us_per_step)}"
    yield Title(waiting)
    rows: list[Row] = [
        [
            one.category
            + ("" if one.why == "contract" else " (in effect)")
            + ("" if one.thread == "step" else " *"),
            count_text(one.per_step),
            time_text(one.us_per_step),
            time_text(one.spread.median_us),
            time_text(one.spread.p90_us),
            time_text(one.spread.max_us),
        ]
        for one in stalls.lines
        if one.per_step >= MIN_STALLS_PER_STEP
    ]
    if rows:
        yield Sheet(("waiting call", "calls/step", "time/step", "median", "p90", "max"), tuple(rows))
    if any(one.thread == "other" for one in stalls.lines):
        yield Paragraph(
            "* on another thread than the one that submits: not part of the step's own time.", FAINT
        )


def _copy_blocks(copies: tuple[CopyBucket, ...]) -> Iterable[Block]:
    if not copies:
        return
    yield Title("Copies per step")
    rows: list[Row] = [
        [
            f"{one.direction} {one.host_memory}".strip(),
            size_range(one),
            count_text(one.per_step),
            bytes_text(one.bytes_per_step),
            time_text(one.median_us),
            str(one.waited) if one.waited else _DASH,
        ]
        for one in sorted(copies, key=lambda one: -one.per_step)[:MAX_COPY_LINES]
    ]
    if len(copies) > MAX_COPY_LINES:
        rows.append([f"{len(copies) - MAX_COPY_LINES} more kinds", "", "", "", "", ""])
    yield Sheet(("copy", "size", "copies/step", "bytes/step", "median", "waited"), tuple(rows))


def size_range(bucket: CopyBucket) -> str:
    """`64–127 B`, `1.0–2.0 KiB`."""
    if bucket.below_bytes <= 1:
        return "0 B"
    if bucket.below_bytes <= 1024:
        last = bucket.below_bytes - 1
        return f"{bucket.from_bytes}–{last} B" if last > bucket.from_bytes else f"{last} B"
    return f"{bytes_text(bucket.from_bytes)}–{bytes_text(bucket.below_bytes)}"


def gpu_line(gpu: GpuBusy) -> str:
    """How busy the GPU was, or why that cannot be told."""
    if gpu.busy_share is None:
        return f"GPU busy: cannot tell, because {gpu.cannot_tell_because}."
    caveat = f" ({gpu.caveat})" if gpu.caveat else ""
    return f"GPU busy: {busy_text(gpu)} of the steps' time, from {gpu.source}{caveat}."


def busy_text(gpu: GpuBusy) -> str:
    """`92.3 %`, or `≤ 98.6 %` where it is only an upper bound; a dash if it is not known."""
    if gpu.busy_share is None:
        return _DASH
    return f"≤ {percent(gpu.busy_share)}" if gpu.upper_bound else percent(gpu.busy_share)


def start_up_line(start_up: StartUp) -> str:
    """Start-up, told apart from the steps."""
    parts = []
    if start_up.image_to_first_submission_s is not None:
        parts.append(f"first submission after {seconds_text(start_up.image_to_first_submission_s)}")
    if start_up.image_to_first_step_s is not None:
        parts.append(f"first step after {seconds_text(start_up.image_to_first_step_s)}")
    elif start_up.submission_to_first_step_s is not None:
        parts.append(
            f"first step {seconds_text(start_up.submission_to_first_step_s)} after the first submission"
        )
    if start_up.h2d_copies:
        copies = plural(start_up.h2d_copies, "copy")
        spent = seconds_text(start_up.h2d_in_call_s)
        parts.append(f"{copies} of {bytes_text(start_up.h2d_bytes)} to the GPU before it, {spent} in them")
    else:
        parts.append("no copy to the GPU before it")
    if start_up.graphs_captured:
        parts.append(f"{plural(start_up.graphs_captured, 'graph capture')}")
    text = "Start-up: " + ", ".join(parts) + "."
    if start_up.cannot_tell_because:
        text += f" Time from process start: cannot tell, because {start_up.cannot_tell_because}."
    return text


def _time(us: float | None) -> str:
    return _DASH if us is None else time_text(us)
