"""`cctrace findings`: all that it shows, in order, whatever shows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console

from cctrace.analyzers.findings.find import amount_words
from cctrace.analyzers.findings.result import (
    COST,
    EXPECTED,
    INFORMATION,
    NOTHING,
    RISK,
    UNKNOWN,
    Checked,
    Evidence,
    Finding,
    Findings,
)
from cctrace.analyzers.report.headline import BEGIN_US
from cctrace.analyzers.sentences import percent, plural, time_text
from cctrace.app.blocks import FAINT, STRONG, WARNING, Block, Paragraph, Sheet, Title
from cctrace.app.summary_view import provenance_line
from cctrace.app.terminal_report import show_blocks

MAX_EVIDENCE: Final = 4
"""Lines of evidence of a finding; the JSON has them all."""
_KINDS: Final = {COST: "", RISK: "risk", INFORMATION: "information"}


def show_findings(out: Console, result: Findings) -> None:
    """Prints the findings in the terminal."""
    show_blocks(out, findings_blocks(result))


def findings_blocks(result: Findings) -> Iterable[Block]:
    """The sentence, a table of the findings, each finding, and what else was looked for."""
    yield Paragraph(result.headline, STRONG)
    for warning in result.examined.warnings:
        yield Paragraph(f"This recording is {warning}.", WARNING)
    yield Paragraph(provenance_line(result.examined), FAINT)
    if result.compared_with is not None:
        yield Paragraph(f"against {provenance_line(result.compared_with)}", FAINT)
    if result.findings:
        yield Title("Findings")
        yield finding_sheet(result.findings)
    for number, one in enumerate(result.findings, 1):
        yield from one_finding_blocks(number, one)
    yield from checked_blocks(result.checked)
    if result.notes:
        yield Title("Notes")
    for note in result.notes:
        yield Paragraph(f"- {note}")


def finding_sheet(findings: Sequence[Finding]) -> Sheet:
    """One line for each finding."""
    rows = tuple(
        [f"{number} {one.title}", one.phase or "", _state(one), _saving(one), _share(one)]
        for number, one in enumerate(findings, 1)
    )
    return Sheet(("finding", "phase", "state", "saving/step", "of the step"), rows, numbers_from=3)


def _state(one: Finding) -> str:
    return _KINDS[one.kind] or one.state


def _saving(one: Finding) -> str:
    return amount_words(one.saving) if one.kind == COST else "–"


def _share(one: Finding) -> str:
    return "–" if one.saving.pct_of_step is None else percent(one.saving.pct_of_step / 100)


def one_finding_blocks(number: int, one: Finding) -> Iterable[Block]:
    """One finding: what it rests on, what it saves, what to do."""
    yield Title(f"{number} {one.title}" + (f" · {one.steps}" if one.steps else ""), level=3)
    for seen in one.evidence[:MAX_EVIDENCE]:
        yield Paragraph(f"  {seen.text}{_where(seen)}.")
    if len(one.evidence) > MAX_EVIDENCE:
        left = plural(len(one.evidence) - MAX_EVIDENCE, "more place")
        yield Paragraph(f"  {left}; --json lists all.", FAINT)
    yield Paragraph(f"  {_saving_sentence(one)}", one.cause or "" if one.kind == COST else "")
    yield Paragraph(f"  Remedy: {one.remedy}.")
    if one.known_from:
        yield Paragraph(f"  Known from: {'; '.join(one.known_from)}.", FAINT)


def _saving_sentence(one: Finding) -> str:
    if one.kind != COST:
        return f"Saving: cannot tell; {one.saving.basis}."
    verb = "Costs with CC on" if one.state == EXPECTED else "Saves"
    how = "" if one.saving.kind == UNKNOWN else f" [{one.saving.kind}]"
    return f"{verb}: {amount_words(one.saving)}{how} ({one.saving.basis})."


def _where(seen: Evidence) -> str:
    """`; scheduler 1519, call 9 of the step, 420 µs after its begin`."""
    parts = []
    if seen.position is not None and seen.offset_us is not None:
        when = "at" if seen.offset_us < BEGIN_US else f"{time_text(seen.offset_us)} after"
        parts = [f"call {seen.position + 1} of the step", f"{when} its begin"]
    if seen.thread and seen.thread not in seen.text:
        parts.insert(0, seen.thread)
    return f" ({', '.join(parts)})" if parts else ""


def checked_blocks(checked: Sequence[Checked]) -> Iterable[Block]:
    """Rules that found nothing, and those that have no answer."""
    nothing = [one.looks_for for one in checked if one.outcome == NOTHING]
    unclear = [one for one in checked if one.cannot_tell_because]
    if nothing:
        yield Title("Looked for, and not found")
        yield Paragraph("; ".join(nothing) + ".")
    if unclear:
        yield Title("Cannot tell")
    for one in unclear:
        yield Paragraph(f"- {one.looks_for}: {one.cannot_tell_because}.")
