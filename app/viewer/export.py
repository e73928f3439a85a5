"""`cctrace view --export`: what the first page shows, as one file that needs no server and loads nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cctrace.analyzers.acceptance_table import UNKNOWN, Field, acceptance_table
from cctrace.analyzers.attribution.result import Breakdown, Comparability
from cctrace.analyzers.comparability.rules import EXPECTED
from cctrace.analyzers.findings import find_in_file
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.sentences import plural
from cctrace.analyzers.step_series import step_series
from cctrace.analyzers.summary import summary_of
from cctrace.app.attribution_view import COLUMNS, opening_blocks, short
from cctrace.app.blocks import FAINT, Block, Paragraph, Row, Sheet, Title
from cctrace.app.detail_view import equality_block, run_blocks, site_blocks
from cctrace.app.findings_view import checked_blocks, one_finding_blocks
from cctrace.app.html_report import check_target, write_page
from cctrace.app.plots import Plot
from cctrace.app.summary_view import summary_blocks
from cctrace.app.viewer.overview_blocks import ALL, number_blocks, part_blocks, recording_blocks
from cctrace.app.viewer.step_plots import step_blocks
from cctrace.app.viewer.view import OFF, ON, ONE, Run, View
from cctrace.app.waterfall import waterfall_of

MAX_FINDINGS: Final = 5
"""Findings with what they rest on; the viewer shows all."""
MAX_UNKNOWN: Final = 100
_DASH: Final = "–"
_DIFFERS: Final = "≠"
_ORDER: Final = (OFF, ON, ONE)


def write(view: View, path: Path, *, force: bool) -> None:
    """Writes the page.

    Args:
        view: what it is about.
        path: the file.
        force: whether an existing file may be replaced.

    Raises:
        UnusableInputError: the file cannot be written, or the recordings cannot be compared or read.
        OutputExistsError: the file exists.
    """
    recordings = [run.path for arm in view.arms for run in arm.runs]
    check_target(path, recordings, "--export", force=force)
    blocks = list(_of_pair(view) if view.is_pair else _of_one(view))
    write_page(path, _title(view), blocks)


def _title(view: View) -> str:
    """Names of the recordings: exported pages lie beside each other."""
    names = [arm.runs[0].path.parent.name if len(arm.runs) > 1 else arm.runs[0].name for arm in view.arms]
    return f"cctrace: {' against '.join(names)}"


def _of_pair(view: View) -> Iterable[Block | Plot]:
    report = view.report(wait=True)
    pair = report.runs[report.calls_of_pair - 1]
    runs = {OFF: _run_of(view, OFF, pair.off), ON: _run_of(view, ON, pair.on)}
    classes = {OFF: report.classes[0].off_class, ON: report.classes[0].on_class} if report.classes else {}
    yield from opening_blocks(report)
    for phase, one in _parts(report):
        yield from _part_blocks(view, report, one, phase)
    yield from step_blocks(
        {arm: view.of_run(step_series, run, wait=True) for arm, run in runs.items()}, classes
    )
    yield Title("What to change")
    for number, finding in enumerate(report.findings[:MAX_FINDINGS], 1):
        yield from one_finding_blocks(number, finding)
    yield from _more(len(report.findings))
    yield from checked_blocks(report.checked)
    yield from site_blocks(report)
    yield from run_blocks(report)
    yield from _difference_blocks(report)
    yield from _environment_blocks(view)
    yield from recording_blocks(view)


def _of_one(view: View) -> Iterable[Block | Plot]:
    run = view.arm(ONE).runs[0]
    yield from summary_blocks(view.of_run(summary_of, run, wait=True))
    yield from step_blocks({ONE: view.of_run(step_series, run, wait=True)}, {})
    found = view.of_run(find_in_file, run, wait=True)
    yield Title("What to change")
    yield Paragraph(found.headline)
    for number, finding in enumerate(found.findings[:MAX_FINDINGS], 1):
        yield from one_finding_blocks(number, finding)
    yield from _more(len(found.findings))
    yield from checked_blocks(found.checked)
    yield from _environment_blocks(view)
    yield from recording_blocks(view)


def _run_of(view: View, arm: str, path: str) -> Run:
    """The recording that a comparison names."""
    runs = view.arm(arm).runs
    return next((run for run in runs if str(run.path) == path), runs[0])


def _parts(report: Report) -> list[tuple[str, Breakdown]]:
    """All steps together, and each phase where there are several."""
    found = report.phases.found()
    return [(ALL, report), *(found if len(found) > 1 else ())]


def _part_blocks(view: View, report: Report, one: Breakdown, phase: str) -> Iterable[Block]:
    of = "all compared steps" if phase == ALL else f"{phase} steps"
    yield Title(f"From the off step to the on step, {of}")
    yield waterfall_of(one)
    if phase == ALL:
        yield from number_blocks(view, report, one)
    yield from part_blocks(report, one, phase)
    if phase == ALL and one.shares is not None:
        yield Paragraph(COLUMNS, FAINT)


def _more(count: int) -> Iterable[Block]:
    if count > MAX_FINDINGS:
        yield Paragraph(f"{plural(count - MAX_FINDINGS, 'more finding')}: cctrace view shows them.", FAINT)
    elif not count:
        yield Paragraph("Nothing was found that could be changed.")


def _difference_blocks(report: Report) -> Iterable[Block]:
    """All that differs between the arms; what is known in neither is named below."""
    listed = [one for one in report.comparability if (one.off, one.on) != (None, None)]
    # The first sentence names what was emulated; its values are in the recording.
    listed = [one for one in listed if (one.name, one.severity) != ("emulation", EXPECTED)]
    yield Title("What else differs between the recordings")
    if listed:
        yield Sheet(
            ("", "field", "off", "on", "what it means"), tuple(map(_difference, listed)), numbers_from=5
        )
    yield equality_block(report)


def _difference(one: Comparability) -> Row:
    values = [_DASH if text is None else short(text) for text in (one.off, one.on)]
    return [one.severity, one.name, *values, one.message]


def _environment_blocks(view: View) -> Iterable[Block]:
    """What is known of the acceptance table, with a sign at what differs."""
    arms = sorted(view.arms, key=lambda arm: _ORDER.index(arm.name))
    table = acceptance_table(
        {arm.name: [(str(run.path), run.trace.metadata) for run in arm.runs] for arm in arms}
    )
    fields = [one for area in table.areas for one in area.fields]
    yield Title("Environment")
    columns = table.arms if view.is_pair else ("value",)
    rows = tuple(_field_row(one) for one in fields if one.state != UNKNOWN and _is_listed(one))
    yield Sheet(("", "field", *columns), rows, numbers_from=2 + len(columns))
    unknown = [one.name for one in fields if one.state == UNKNOWN]
    if unknown:
        yield Paragraph(f"Not known: {', '.join(unknown[:MAX_UNKNOWN])}.", FAINT)


def _is_listed(one: Field) -> bool:
    """Entries of objects, such as one GPU of eight, only if they differ; versions of packages always."""
    return "." not in one.label or one.name.startswith("software.frameworks.") or one.differs


def _field_row(one: Field) -> Row:
    values = [" | ".join(short(text) for text in said.texts) for said in one.said]
    return [_DIFFERS if one.differs else "", one.name, *values]
