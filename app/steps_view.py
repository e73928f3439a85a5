"""`cctrace steps` in the terminal."""

from __future__ import annotations

from rich.console import Console

from cctrace.analyzers.sentences import plural, time_text
from cctrace.analyzers.step_list import ProcessSteps, StepList, StepRow
from cctrace.app.palette import FAINT_STYLE
from cctrace.app.summary_view import class_sheet, how_found, provenance_line
from cctrace.app.terminal import headline, line, section, table
from cctrace.app.terminal_report import show_blocks


def show_steps(out: Console, steps: StepList) -> None:
    """Prints the classes of steps and then the steps, one a line."""
    headline(out, steps.headline, steps.provenance.warnings)
    line(out, provenance_line(steps.provenance), style=FAINT_STYLE)
    for process in steps.processes:
        _show_process(out, process)


def _show_process(out: Console, process: ProcessSteps) -> None:
    section(out, f"Process {process.pid}" + (f" {process.name}" if process.name else ""))
    if not process.total_steps or process.origin is None or process.anchor is None:
        line(out, f"Cannot tell the steps, because {process.no_steps_because}.")
        return
    line(out, how_found(process.origin, process.anchor, process.confidence, process.total_steps, {}))
    show_blocks(out, [class_sheet(process.classes, None, numbered=True)])
    columns = ("step", "begins", "period", "submissions", "graphs", "waits", "class", "not counted")
    out.print(table(columns, [_row(row) for row in process.steps], numbers_from=0))
    if len(process.steps) < process.total_steps:
        left = process.total_steps - len(process.steps)
        line(out, f"{plural(left, 'more step')}; --limit N or --all lists them.", style=FAINT_STYLE)


def _row(row: StepRow) -> list[str]:
    return [
        str(row.step),
        f"{row.start_s:.3f} s",
        time_text(row.period_us),
        str(row.work_submissions),
        str(row.graph_launches),
        time_text(row.waiting_us),
        str(row.step_class),
        (row.excluded_because or "").split(":")[0],
    ]
