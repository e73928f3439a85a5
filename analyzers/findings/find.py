"""Applies the rules to a recording or a pair, and sorts what they find."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from cctrace.analyzers.attribution.result import Attribution
from cctrace.analyzers.findings.result import (
    CANNOT_TELL,
    COST,
    EXPECTED,
    FOUND,
    KINDS,
    NOTHING,
    Checked,
    Finding,
    Findings,
    Saving,
)
from cctrace.analyzers.findings.rule import Answer, CannotTell, Rule
from cctrace.analyzers.findings.rules import RULES
from cctrace.analyzers.findings.view import Observation, StepView, observe, views_of
from cctrace.analyzers.provenance import provenance_of
from cctrace.analyzers.results import RESULT_FORMAT_VERSION
from cctrace.analyzers.sentences import percent, plural, time_text
from cctrace.trace import open_trace

MOST: Final = 0.9
"""Part of the steps' time that findings stand for without a word."""
_PHASE_WORDS: Final = {"decode": "decode step", "prefill": "prefill step", "mixed": "mixed step"}


def find(seen: Observation) -> Findings:
    """What the rules find in one recording."""
    return _examined(seen, None, None)


def find_in_file(path: Path) -> Findings:
    """As `find`, of a trace file.

    Raises:
        UnusableInputError: the file is no trace that can be read.
    """
    return find(observe(open_trace(path)))


def find_in_pair(on: Observation, off: Observation, attribution: Attribution | None = None) -> Findings:
    """What the rules find in the on arm of a pair, measured against its off arm.

    Args:
        on: the arm with confidential computing, or emulated.
        off: the arm without.
        attribution: what the replay of the pair says; its numbers then replace bounds.
    """
    return _examined(on, off, attribution)


def _examined(seen: Observation, off: Observation | None, attribution: Attribution | None) -> Findings:
    views = views_of(seen, off, attribution)
    answers = {rule: _answers(rule, seen, views) for rule in RULES}
    findings = sorted(
        (one for found in answers.values() for one in found if isinstance(one, Finding)), key=_order
    )
    return Findings(
        format_version=RESULT_FORMAT_VERSION,
        headline=_headline(seen, findings, list(answers.values())),
        examined=provenance_of(seen.recording),
        compared_with=provenance_of(off.recording) if off else None,
        findings=tuple(findings),
        checked=tuple(_checked(rule, found) for rule, found in answers.items()),
        notes=tuple(_notes(seen, off, views, findings)),
    )


def _answers(rule: Rule, seen: Observation, views: Sequence[StepView]) -> list[Answer]:
    if rule.of_recording is not None:
        return [rule.examine_recording(seen)]
    if not views:
        because = seen.no_steps_because or "no class of steps has enough steady steps"
        return [CannotTell(f"the steps cannot be told: {because}")]
    return [rule.examine_steps(view) for view in views]


def _order(one: Finding) -> tuple[int, float, float]:
    return KINDS.index(one.kind), -one.share_of_run, -sum(seen.us_per_step or 0.0 for seen in one.evidence)


def _checked(rule: Rule, answers: Iterable[Answer]) -> Checked:
    answers = list(answers)
    reasons = [one.because for one in answers if isinstance(one, CannotTell)]
    found = any(isinstance(one, Finding) for one in answers)
    return Checked(
        rule=rule.name,
        looks_for=rule.looks_for,
        outcome=FOUND if found else CANNOT_TELL if reasons else NOTHING,
        cannot_tell_because=reasons[0] if reasons else None,
    )


def _headline(seen: Observation, findings: Sequence[Finding], answers: Sequence[Sequence[Answer]]) -> str:
    costs = [one for one in findings if one.kind == COST]
    if costs:
        first, *others = costs
        more = f" {plural(len(others), 'more finding')}." if others else ""
        return f"{first.title}: {saving_words(first)}.{more}"
    if seen.steps is None:
        return f"Cannot tell what costs time in the steps, because {seen.no_steps_because}."
    rules, unclear = (
        len(answers),
        sum(any(isinstance(one, CannotTell) for one in several) for several in answers),
    )
    by = f"{rules - unclear} of {rules} rules; {unclear} cannot tell" if unclear else plural(rules, "rule")
    return f"No finding that costs time in the steps, by {by}."


def saving_words(one: Finding) -> str:
    """What a finding saves: `the remedy saves at most 0.51 ms of a decode step of 1.65 ms`."""
    step = _PHASE_WORDS.get(one.phase or "", "step")
    if one.saving.high_us is None or one.step_us is None:
        return f"what the remedy saves cannot be told: {one.saving.basis}"
    amount, whole = amount_words(one.saving), f"a {step} of {time_text(one.step_us)}"
    if one.state == EXPECTED:
        return f"with CC on it costs {amount} on top of {whole}"
    return f"the remedy saves {amount} of {whole}"


def amount_words(saving: Saving) -> str:
    """`2.05 ms`, `at most 0.51 ms`, `0.40 to 0.51 ms`, `cannot tell`."""
    if saving.high_us is None or saving.low_us is None:
        return "cannot tell"
    low, high = time_text(saving.low_us), time_text(saving.high_us)
    if low == high:
        return high
    return f"{low} to {high}" if saving.low_us > 0 else f"at most {high}"


def _notes(
    seen: Observation, off: Observation | None, views: Sequence[StepView], findings: Sequence[Finding]
) -> Iterable[str]:
    if sum(one.kind == COST and one.saving.high_us is not None for one in findings) > 1:
        yield "savings do not add up: a step that one remedy makes shorter leaves less for the next one"
    if any(one.state == EXPECTED and one.kind == COST for one in findings):
        yield (
            "what is expected was not measured: CC was off, so costs are estimated from published ones of "
            "another machine; record with CC on, or with --emulate"
        )
    if off is not None and not all(view.off for view in views):
        yield "some classes of steps are in one arm only: their findings are not measured against the off arm"
    if seen.recording.distorted:
        yield "CUPTI distorted the host times of this recording: counts hold, times are too long"
    if seen.other_processes:
        others = plural(seen.other_processes, "more process")
        yield f"{others} with work for the GPU are not examined: ranks do the same"
    if views and seen.steps is not None:
        examined = sum(view.weight for view in views)
        if examined < MOST:
            rest = percent(1 - examined)
            yield f"classes with few steps or little time are not examined: {rest} of the steps' time"
