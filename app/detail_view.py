"""What lies behind the shares, as blocks: phases, step classes, threads, third arm, pairs of runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cctrace.analyzers.attribution.result import CAUSES, Breakdown, ClassBreakdown, Comparability, Site
from cctrace.analyzers.findings.find import amount_words
from cctrace.analyzers.findings.result import COST
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.sentences import bytes_text, count_text, percent, plural, signed_time, time_text
from cctrace.analyzers.statistics import TeePart, TeeSplit
from cctrace.app.attribution_view import saved_text, share_blocks, short
from cctrace.app.blocks import FAINT, WARNING, Block, Cell, Paragraph, Row, Sheet, Title
from cctrace.app.waterfall import waterfall_of

MAX_SITES: Final = 5
"""Places listed of a class or thread; the JSON has more."""
MAX_CLASSES: Final = 6
"""Step classes shown one by one; the rest is counted."""
MAX_FINDINGS: Final = 4
"""Findings listed: the first ones save most."""
MAX_FIELDS: Final = 12
RESIDUAL: Final = "residual"
"""The part of a split by a third arm that is the sum of the parts that are no cause."""
MAX_UNKNOWN: Final = 6
_DASH: Final = "–"


def phase_blocks(report: Report) -> Iterable[Block]:
    """All steps together, and each phase apart."""
    found = report.phases.found()
    yield Title("By phase")
    if not found:
        yield Paragraph("The arms have no steps in common that could be told apart by phase.")
        return
    if len(found) == 1:
        name, one = found[0]
        steps = f"{plural(one.off_steps, 'step')} of the off arm, {one.on_steps} of the on arm"
        yield Paragraph(f"All compared steps are {name} steps: {steps}.")
        return
    parts = [("together", report), *found]
    yield Sheet(("per step", *(name for name, _ in parts)), tuple(_phase_rows([one for _, one in parts])))
    for name, one in found:
        for reason in one.refused_because:
            if reason in report.refused_because:
                continue  # said of all steps together
            yield Paragraph(f"{name}: cannot attribute, because {reason}.", WARNING)


def _phase_rows(parts: list[Breakdown]) -> list[Row]:
    rows: list[Row] = [
        ["off", *(time_text(one.off_step_us) for one in parts)],
        ["on", *(time_text(one.on_step_us) for one in parts)],
        ["on − off", *(signed_time(one.delta_us) for one in parts)],
        ["step growth", *(percent(one.delta_us / one.off_step_us, signed=True) for one in parts)],
    ]
    for cause in CAUSES:
        shares = [None if one.shares is None else getattr(one.shares, cause) for one in parts]
        texts = [_DASH if share is None else signed_time(share.share_us) for share in shares]
        rows.append([Cell(cause, cause), *(Cell(text, cause) for text in texts)])
    rests = [_DASH if one.residual is None else signed_time(one.residual.total_us) for one in parts]
    rows.append([Cell("residual", "residual"), *(Cell(text, "residual") for text in rests)])
    rows.append(["part of steps, off", *(percent(one.off_weight) for one in parts)])
    rows.append(["part of steps, on", *(percent(one.on_weight) for one in parts)])
    return rows


def class_blocks(report: Report) -> Iterable[Block]:
    """Each step class apart, with its dearest places."""
    for one in report.classes[:MAX_CLASSES]:
        steps = f"{plural(one.off_steps, 'step')} off, {one.on_steps} on"
        yield Title(f"Class {class_name(one)} ({one.phase}; {steps})")
        yield waterfall_of(one)
        for reason in one.refused_because:
            yield Paragraph(f"Cannot attribute, because {reason}.", WARNING)
        yield from share_blocks(one)
        if one.shares is not None:
            yield from _site_sheet(one.sites)
    left = len(report.classes) - MAX_CLASSES
    if left > 0:
        yield Paragraph(f"{plural(left, 'more class')}; --json lists them.", FAINT)


def class_name(one: ClassBreakdown) -> str:
    """The name of a class in both arms."""
    return one.off_class if one.off_class == one.on_class else f"{one.off_class} → {one.on_class}"


def thread_blocks(report: Report) -> Iterable[Block]:
    """The dearest places of the class with the most time, thread by thread."""
    if report.refused_because:
        return
    for one in report.classes[:1]:
        threads = dict.fromkeys(site.thread for site in one.sites)
        for thread in threads:
            yield Title(f"Thread {thread}, steps of class {one.off_class}")
            yield from _site_sheet(tuple(site for site in one.sites if site.thread == thread))
        if not threads:
            yield Title("By thread")
            yield Paragraph(f"No single call costs a notable part of class {one.off_class}.")


def site_blocks(report: Report) -> Iterable[Block]:
    """The dearest places of the class with the most time."""
    for one in report.classes[:1]:
        if one.sites and one.shares is not None:
            yield Title(f"Calls that cost most, steps of class {one.off_class}")
            yield from _site_sheet(one.sites)


def _site_sheet(sites: tuple[Site, ...]) -> Iterable[Block]:
    if not sites:
        return
    rows: list[Row] = [
        [
            _site_name(one),
            Cell(one.cause, one.cause),
            one.thread,
            time_text(one.offset_us),
            time_text(one.off_us),
            time_text(one.on_us),
            saved_text(one.saved_if_removed_us),
        ]
        for one in sites[:MAX_SITES]
    ]
    columns = ("call", "cause", "thread", "begins at", "off", "on", "saved")
    yield Sheet(columns, tuple(rows), numbers_from=3)


def _site_name(one: Site) -> str:
    times = "" if abs(one.calls_per_step - 1) < 0.05 else f"{count_text(one.calls_per_step)} × "
    return f"{times}{one.category}" + ("" if one.bytes is None else f" {bytes_text(one.bytes)}")


def tee_blocks(tee: TeeSplit) -> Iterable[Block]:
    """What the trusted VM costs, and what the GPU's confidential computing adds."""
    yield Title("Split by the runs with the trusted VM alone")
    rows = [
        [name, signed_time(part.vm_us), signed_time(part.gpu_us), signed_time(part.vm_us + part.gpu_us)]
        for name, part in _tee_parts(tee)
    ]
    rows.append(
        ["on − off", signed_time(tee.vm_us), signed_time(tee.gpu_us), signed_time(tee.vm_us + tee.gpu_us)]
    )
    if tee.vm_interval is not None and tee.gpu_interval is not None:
        halves = [time_text(one.half_width) for one in (tee.vm_interval, tee.gpu_interval)]
        rows.append(["95 %, paired t", *(f"±{half}" for half in halves), ""])
    yield Sheet(("per step", "VM", "GPU CC", "both"), tuple(rows))
    sets = "1 set of three runs" if tee.runs == 1 else f"{tee.runs} sets of three runs"
    yield Paragraph(f"From {sets}. VM: TEE only − off; GPU CC: on − TEE only.", FAINT)


def _tee_parts(tee: TeeSplit) -> list[tuple[str, TeePart]]:
    """Causes, then the residual before its parts, as in the table of causes."""
    causes = [(part.name, part) for part in tee.parts if part.name in CAUSES]
    whole = [(part.name, part) for part in tee.parts if part.name == RESIDUAL]
    rest = [part for part in tee.parts if part.name not in (*CAUSES, RESIDUAL)]
    return [*causes, *whole, *((f"  {part.name.replace('_', ' ')}", part) for part in rest)]


def run_blocks(report: Report) -> Iterable[Block]:
    """The pairs of runs, where there are several."""
    if len(report.runs) < 2:
        return
    yield Title("Pairs of runs, in recorded order")
    rows = tuple(
        [
            f"{one.pair}{'' if one.counted else ' (left out)'}: {one.on}, {one.off}",
            time_text(one.off_step_us),
            time_text(one.on_step_us),
            signed_time(one.delta_us),
            percent(one.step_growth, signed=True),
        ]
        for one in report.runs
    )
    yield Sheet(("pair: on, off", "off step", "on step", "on − off", "growth"), rows)


def other_blocks(report: Report) -> Iterable[Block]:
    """What else differs between the recordings, without doubts about the comparison."""
    yield Title("What else differs between the recordings")
    informs = [one for one in report.comparability if one.severity == "informs" and not _nowhere(one)]
    if informs:
        rows = tuple(
            [one.name, *(_DASH if text is None else short(text) for text in (one.off, one.on)), one.message]
            for one in informs[:MAX_FIELDS]
        )
        yield Sheet(("field", "off", "on", "what it means"), rows, numbers_from=4)
        if len(informs) > MAX_FIELDS:
            yield Paragraph(f"{len(informs) - MAX_FIELDS} more; --json lists them.", FAINT)
    yield equality_block(report)


def equality_block(report: Report) -> Block:
    """How much is known to be the same, and what is not known at all."""
    equal = plural(report.equal_fields, "field")
    text = (
        f"{equal} of the metadata are known and the same"
        if report.equal_fields != 1
        else f"{equal} is the same"
    )
    if report.unknown_fields:
        text += f"; not known in either arm: {', '.join(report.unknown_fields[:MAX_UNKNOWN])}"
        left = len(report.unknown_fields) - MAX_UNKNOWN
        text += f" and {left} more that matter" if left > 0 else ""
    return Paragraph(f"{text}.", FAINT)


def _nowhere(one: Comparability) -> bool:
    """Whether it only says that a field is known in neither arm: those are listed by name."""
    return one.off is None and one.on is None


def finding_blocks(report: Report) -> Iterable[Block]:
    """What to change, the largest saving first; `cctrace findings` has the evidence."""
    if not report.findings:
        return
    yield Title("What to change")
    rows = tuple(
        [one.title, one.phase or "", amount_words(one.saving) if one.kind == COST else one.kind]
        for one in report.findings[:MAX_FINDINGS]
    )
    yield Sheet(("finding", "phase", "saves per step"), rows, numbers_from=2)
    for one in report.findings[:MAX_FINDINGS]:
        yield Paragraph(f"- {one.title}: {one.remedy}.")
    left = len(report.findings) - MAX_FINDINGS
    more = f"{plural(left, 'more finding')}; " if left > 0 else ""
    yield Paragraph(f"{more}cctrace findings ON OFF shows what they rest on.", FAINT)
