"""The sentence that matters first: what the step costs more, and which cause makes it so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cctrace.analyzers.attribution.result import CAUSES, Attribution, Breakdown, Site
from cctrace.analyzers.diff import Diff
from cctrace.analyzers.sentences import bytes_text, count_text, percent, plural, signed_time, time_text
from cctrace.analyzers.statistics import PairStatistics
from cctrace.analyzers.statistics.verdict import DIFFERENCE, EQUIVALENT, MARGIN
from cctrace.analyzers.verdicts import cause_of

CAUSE_NAMES: Final = {
    "launch": "launch toll",
    "pcie": "PCIe crypto",
    "overlap": "lost overlap",
    "nvlink": "NVLink encryption",
}
"""Causes in words, for every output."""
RESIDUAL_NAMES: Final = {
    "host": "slower host code",
    "gpu": "slower GPU work",
    "schedule_mix": "another mix of steps",
    "model_error": "model error",
}
"""Parts of the residual in words."""
PHASE_SHARE: Final = 0.5
"""A phase is named if at least this part of the difference lies in its steps."""
SITE_SHARE: Final = 0.1
"""A place is named if it makes at least this part of its cause's share."""
ALL_OF_IT: Final = 1.005
"""A cause with more than this part of the difference is offset by others."""
WORTH_A_WORD: Final = 0.1
"""Parts of the difference that are no cause, or go against the largest one, are named from here on."""
BEGIN_US: Final = 0.5
"""A call before this is the step's first: steps that are inferred begin with a call."""
COUNTED_WHOLE: Final = 10
"""So many submissions, and more, are given without a fraction."""
_NAMED_PHASES: Final = ("decode", "prefill", "mixed")


@dataclass(frozen=True)
class Part:
    """A part of the difference by its name."""

    name: str
    words: str
    us: float
    is_cause: bool


def headline_of(whole: Attribution, statistics: PairStatistics, calls: Diff) -> str:
    """The sentence.

    Args:
        whole: the attribution, with phases and classes.
        statistics: what its pairs of runs are worth.
        calls: calls of both arms.
    """
    if not whole.phases.found() and whole.refused_because:
        # Steps of different work: how much longer one arm's are is no cost, and no gain.
        off, on = time_text(whole.off_step_us), time_text(whole.on_step_us)
        steps = f"a step takes {off} in the off arm and {on} in the on arm"
        return f"Cannot attribute, because {whole.refused_because[0]}: {steps}."
    subject = cause_of(calls.off.provenance, calls.on.provenance) or "The on arm"
    step = f"{step_words(whole)} of {time_text(whole.off_step_us)}"
    ratio = whole.on_step_us / whole.off_step_us
    growth = f"{percent(ratio - 1, signed=True)}, throughput {_throughput(ratio)}"
    verdict = statistics.verdict
    if verdict.verdict == EQUIVALENT:
        change = f"{subject} changes {step} by less than {percent(MARGIN)}: {signed_time(whole.delta_us)}"
        return f"{change} ({growth}){_refusal(whole)}."
    if verdict.verdict != DIFFERENCE:
        runs = plural(verdict.pairs, "pair")
        change = f"Within noise: {signed_time(whole.delta_us)} on {step} ({growth})"
        return f"{change}; {runs} of runs can show {verdict.detectable_pct:.1f} % or more{_refusal(whole)}."
    if whole.delta_us < 0:
        change = f"{subject} saves {time_text(-whole.delta_us)} on {step}"
    else:
        change = f"{subject} costs {time_text(whole.delta_us)} on top of {step}"
    return f"{change} ({growth}){_phase(whole)}{_refusal(whole)}{_explanation(whole, calls)}."


def step_words(whole: Attribution) -> str:
    """`a decode step`, or `a step` where phases are mixed or not known."""
    phases = [name for name, _ in whole.phases.found()]
    one = phases[0] if len(phases) == 1 and phases[0] in _NAMED_PHASES else ""
    return f"a {one} step" if one else "a step"


def parts_of(whole: Breakdown) -> list[Part]:
    """The causes and the parts of the residual, the largest first; empty without shares."""
    if whole.shares is None or whole.residual is None:
        return []
    shares = [(cause, getattr(whole.shares, cause)) for cause in CAUSES]
    parts = [Part(cause, CAUSE_NAMES[cause], one.share_us, True) for cause, one in shares if one]
    for name, words in RESIDUAL_NAMES.items():
        if name == "gpu" and whole.residual.gpu_holds_nvlink:
            words = "slower GPU work or NVLink encryption"  # noqa: PLW2901
        parts.append(Part(name, words, getattr(whole.residual, f"{name}_us"), False))
    return sorted(parts, key=lambda part: -abs(part.us))


def _throughput(ratio: float) -> str:
    loss = 1 - 1 / ratio
    return f"gain {percent(-loss)}" if loss < 0 else f"loss {percent(loss)}"


def _phase(whole: Attribution) -> str:
    """`, 92 % of it in prefill steps`, where there are several phases."""
    name, part = _carrying_phase(whole)
    return f", {_whole_percent(min(part, 1.0))} of it in {name} steps" if name else ""


def _carrying_phase(whole: Attribution) -> tuple[str, float]:
    """The one of several phases that holds most of the difference, and which part; "" if none does."""
    found = whole.phases.found()
    if len(found) < 2 or not whole.delta_us:
        return "", 0.0
    name, part = max(
        ((name, _contribution(one) / whole.delta_us) for name, one in found), key=lambda item: item[1]
    )
    return (name, part) if part >= PHASE_SHARE else ("", 0.0)


def _contribution(one: Breakdown) -> float:
    """What steps of one phase add to the mean of all steps, µs."""
    return one.on_weight * one.on_step_us - one.off_weight * one.off_step_us


def _refusal(whole: Attribution) -> str:
    return f"; cannot attribute it, because {whole.refused_because[0]}" if whole.refused_because else ""


def _explanation(whole: Attribution, calls: Diff) -> str:
    """`; 99 % of it is lost overlap: the copy …`, and what goes against it or is no cause."""
    parts = parts_of(whole)
    towards = [part for part in parts if part.us * whole.delta_us > 0]
    if not towards or whole.residual is None:
        return ""
    first = towards[0]
    share = first.us / whole.delta_us
    much = f"{_whole_percent(share)} of it" if share < ALL_OF_IT else "more than all of it"
    if not first.is_cause:
        return f"; {much} is no cause of CC, but {_directed(first)}"
    if whole.delta_us < 0:
        return f"; {much} is {_directed(first)}"
    said = f"; {much} is {first.words}{_where(whole, first, calls)}"
    against = next((part for part in parts if part.us < -WORTH_A_WORD * whole.delta_us), None)
    if share >= ALL_OF_IT and against is not None:
        return f"{said}, offset by {_directed(against)} ({signed_time(against.us)})"
    rest = whole.residual.total_us / whole.delta_us
    return f"{said}; {_whole_percent(rest)} is no cause of CC (residual)" if rest >= WORTH_A_WORD else said


def _directed(part: Part) -> str:
    """A part in words that say whether it makes the step longer or shorter."""
    if part.us >= 0:
        return part.words
    return f"less {part.words}" if part.is_cause else part.words.replace("slower", "faster")


def _whole_percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _where(whole: Attribution, part: Part, calls: Diff) -> str:
    phase, _ = _carrying_phase(whole)
    if phase and phase != calls.on.phase:
        return ""  # calls and places are those of the class with the most time, and that is not where it lies
    if part.name == "launch":
        submissions = calls.on.work_per_step
        number = count_text(submissions if submissions < COUNTED_WHOLE else round(submissions))
        return f" of {number} submissions a step"
    return _site(whole, part)


def _site(whole: Attribution, part: Part) -> str:
    """The dearest place of a cause, in the class of steps with the most time."""
    for step_class in whole.classes[:1]:
        for one in step_class.sites:
            if one.cause == part.name and one.saved_if_removed_us >= SITE_SHARE * abs(part.us):
                return f": {site_words(one)} {_does(one)}"
    return ""


def site_words(one: Site) -> str:
    """`the copy d2h of 128 B at 310 µs`."""
    size = f" of {bytes_text(one.bytes)}" if one.bytes is not None else ""
    place = "at the begin of the step" if one.offset_us < BEGIN_US else f"at {time_text(one.offset_us)}"
    return f"the {one.category}{size} {place}"


def _does(one: Site) -> str:
    verb = "blocks" if one.cause == "overlap" else "takes"
    longer = one.calls_per_step * one.on_us
    return f"{verb} {time_text(longer)} per step"
