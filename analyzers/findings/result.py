"""What findings say: the result of `cctrace findings`, and part of `cctrace diff`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from cctrace.analyzers.provenance import Provenance
from cctrace.analyzers.results import Result, about, value

COST, RISK, INFORMATION = "cost", "risk", "information"
MEASURED, EXPECTED = "measured", "expected"
REPLAY, BOUND, ESTIMATE, UNKNOWN = "replay", "bound", "estimate", "cannot tell"
FOUND, NOTHING, CANNOT_TELL = "found", "nothing", "cannot tell"
KINDS: Final = (COST, RISK, INFORMATION)


@dataclass(frozen=True, kw_only=True)
class Example(Result):
    """One call, where it happened."""

    step: int = value("number of the step, as `cctrace steps` counts them in its process, from 0")
    begin_us: float = value("time from the begin of that step to the call", "µs")
    duration_us: float = value("how long the call takes", "µs")


@dataclass(frozen=True, kw_only=True)
class Evidence(Result):
    """What in the recording a finding rests on: one place in the step, or one kind of calls."""

    text: str = value("what was seen, one sentence")
    thread: str | None = value("role of the thread and its number, for example 'scheduler 1519'")
    call: str | None = value("kernel, graph, copy d2h, event-sync …; null for what is no call")
    position: int | None = value("number of the call within the step, on its thread, from 0; median")
    offset_us: float | None = value("time from the begin of the step to the call; median", "µs")
    per_step: float | None = value("such calls per step; null for what happens outside of steps", "calls")
    count: int = value("such calls in the steps that were looked at, or in the whole recording", "calls")
    bytes: int | None = value("size of one copy or allocation; median", "bytes")
    us_per_step: float | None = value("time in these calls per step, waiting included", "µs")
    example: Example | None = field(
        metadata=about("where to look at one of them; null for what lies outside of steps")
    )


@dataclass(frozen=True, kw_only=True)
class Saving(Result):
    """How much shorter a step gets if the remedy is applied; of an expected finding a step with CC on."""

    kind: str = value(
        "replay: the pair replayed without the cost; bound: no more than high_us, no less than low_us; "
        "estimate: the same with published costs of another machine; cannot tell: no number"
    )
    low_us: float | None = value("least saving per step", "µs")
    high_us: float | None = value("largest saving per step", "µs")
    pct_of_step: float | None = value("high_us, of the step that the finding is about", "%")
    basis: str = value("where the numbers come from, or why there are none")


@dataclass(frozen=True, kw_only=True)
class Finding(Result):
    """One thing to change."""

    rule: str = value("name of the rule")
    title: str = value("what is wrong, in few words")
    kind: str = value(
        "cost: takes time in the steps; risk: can give wrong choices or fail; information: outside of the "
        "steps"
    )
    state: str = value(
        "measured: what it costs is in the recording; expected: CC was off, or not emulated for it, and it "
        "costs with CC"
    )
    cause: str | None = value("launch, pcie, overlap or nvlink; null if it is none of them alone")
    steps: str | None = value("class of steps that it is about; null for the whole recording")
    phase: str | None = value("decode, prefill, mixed, other or unknown; null for the whole recording")
    step_us: float | None = value("mean length of such a step in the examined recording", "µs")
    share_of_run: float = value(
        "largest saving as a part of the steady steps' time; what findings are sorted by"
    )
    evidence: tuple[Evidence, ...] = value("what it rests on, most time first")
    remedy: str = value("what to change")
    known_from: tuple[str, ...] = value("where the remedy is known from")
    saving: Saving = field(metadata=about("what the remedy saves"))


@dataclass(frozen=True, kw_only=True)
class Checked(Result):
    """One rule and what became of it."""

    rule: str = value("name of the rule")
    looks_for: str = value("what the rule looks for")
    outcome: str = value("found, nothing, or cannot tell")
    cannot_tell_because: str | None = value("why it cannot be told, at least for a part of the recording")


@dataclass(frozen=True, kw_only=True)
class Findings(Result):
    """Everything that the rules found in a recording, or in a pair."""

    format_version: int = value("version of this JSON")
    headline: str = value("the sentence that matters")
    examined: Provenance = field(metadata=about("the recording that was examined: of a pair the on arm"))
    compared_with: Provenance | None = field(
        metadata=about("the off arm of a pair; null for a single recording")
    )
    findings: tuple[Finding, ...] = value("largest saving first; then risks, then information")
    checked: tuple[Checked, ...] = value("every rule, also those that found nothing")
    notes: tuple[str, ...] = value("what a reader should know")
