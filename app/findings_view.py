"""`cctrace findings` in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from cctrace.analyzers.findings.find import amount_words
from cctrace.analyzers.findings.result import (
    COST,
    EXPECTED,
    INFORMATION,
    NOTHING,
    UNKNOWN,
    Evidence,
    Finding,
    Findings,
)
from cctrace.analyzers.sentences import percent, plural, time_text
from cctrace.app.palette import CAUSE_COLOURS, FAINT_STYLE
from cctrace.app.summary_view import provenance_line
from cctrace.app.terminal import headline, line, notes, safe, section, table

MAX_EVIDENCE: Final = 4
"""Lines of evidence of a finding; the JSON has them all."""
_KINDS: Final = {COST: "", "risk": "risk", INFORMATION: "information"}


def show_findings(out: Console, result: Findings) -> None:
    """Prints the sentence, a table of the findings, each finding, and what else was looked for."""
    headline(out, result.headline, result.examined.warnings)
    line(out, provenance_line(result.examined), style=FAINT_STYLE)
    if result.compared_with is not None:
        line(out, f"against {provenance_line(result.compared_with)}", style=FAINT_STYLE)
    show_list(out, result.findings)
    for number, one in enumerate(result.findings, 1):
        _show_finding(out, number, one)
    _show_rest(out, result)
    notes(out, result.notes)


def show_list(out: Console, findings: Sequence[Finding]) -> None:
    """Prints one line for each finding; nothing if there are none."""
    if not findings:
        return
    rows = [
        [f"{number} {one.title}", one.phase or "", _state(one), _saving(one), _share(one)]
        for number, one in enumerate(findings, 1)
    ]
    out.print()
    out.print(table(("finding", "phase", "state", "saving/step", "of the step"), rows, numbers_from=3))


def _state(one: Finding) -> str:
    return _KINDS[one.kind] or one.state


def _saving(one: Finding) -> str:
    return amount_words(one.saving) if one.kind == COST else "–"


def _share(one: Finding) -> str:
    return "–" if one.saving.pct_of_step is None else percent(one.saving.pct_of_step / 100)


def _show_finding(out: Console, number: int, one: Finding) -> None:
    about = f" · {one.steps}" if one.steps else ""
    section(out, f"{number} {one.title}{about}")
    for seen in one.evidence[:MAX_EVIDENCE]:
        out.print(Text(f"  {safe(seen.text)}{_where(seen)}."))
    if len(one.evidence) > MAX_EVIDENCE:
        left = plural(len(one.evidence) - MAX_EVIDENCE, "more place")
        line(out, f"  {left}; --json lists all.", style=FAINT_STYLE)
    if one.kind == COST:
        verb = "Costs with CC on" if one.state == EXPECTED else "Saves"
        how = "" if one.saving.kind == UNKNOWN else f" [{one.saving.kind}]"
        colour = CAUSE_COLOURS.get(one.cause or "", "")
        out.print(
            Text.assemble(
                ("  ", ""), (f"{verb}: {amount_words(one.saving)}", colour), f"{how} ({one.saving.basis})."
            )
        )
    else:
        line(out, f"  Saving: cannot tell; {one.saving.basis}.")
    line(out, f"  Remedy: {one.remedy}.")
    if one.known_from:
        line(out, f"  Known from: {'; '.join(one.known_from)}.", style=FAINT_STYLE)


def _where(seen: Evidence) -> str:
    """`; scheduler 1519, call 9 of the step, 420 µs after its begin`."""
    parts = []
    if seen.position is not None and seen.offset_us is not None:
        parts = [f"call {seen.position + 1} of the step", f"{time_text(seen.offset_us)} after its begin"]
    if seen.thread and seen.thread not in seen.text:
        parts.insert(0, seen.thread)
    return f" ({', '.join(parts)})" if parts else ""


def _show_rest(out: Console, result: Findings) -> None:
    """Rules that found nothing, and those that have no answer."""
    nothing = [one.looks_for for one in result.checked if one.outcome == NOTHING]
    unclear = [one for one in result.checked if one.cannot_tell_because]
    if nothing:
        section(out, "Looked for, and not found")
        line(out, "; ".join(nothing) + ".")
    if unclear:
        section(out, "Cannot tell")
        for one in unclear:
            line(out, f"- {one.looks_for}: {one.cannot_tell_because}.")
