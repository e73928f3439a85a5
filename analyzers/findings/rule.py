"""What a rule is, and how it makes its finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cctrace.analyzers.findings.result import COST, EXPECTED, MEASURED, Evidence, Finding, Saving
from cctrace.analyzers.findings.view import Observation, StepView


@dataclass(frozen=True)
class CannotTell:
    """Why a rule has no answer."""

    because: str


Answer = Finding | CannotTell | None
"""A finding; why there is no answer; or None: nothing of the kind."""


@dataclass(frozen=True)
class Remedy:
    """What to change, and where that is known from."""

    text: str
    known_from: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """One thing that the recording is searched for.

    Attributes:
        name: short name, stable.
        looks_for: what it looks for.
        title: what is wrong if it is found.
        cause: cause of confidential computing behind it; None if it is none of them alone.
        remedy: what to do.
        kind: COST, RISK or INFORMATION.
        of_steps: looks at one class of steps; None for a rule that looks at the whole recording.
        of_recording: looks at the whole recording; None for a rule that looks at classes of steps.
    """

    name: str
    looks_for: str
    title: str
    cause: str | None
    remedy: Remedy
    kind: str = COST
    of_steps: Callable[[StepView], Seen | CannotTell | None] | None = None
    of_recording: Callable[[Observation], Seen | CannotTell | None] | None = None

    def examine_steps(self, view: StepView) -> Answer:
        """What the rule finds in a class of steps."""
        found = self.of_steps(view) if self.of_steps else None
        if not isinstance(found, Seen):
            return found
        high = found.saving.high_us or 0.0
        share = view.weight * high / view.step_us
        return self._finding(found, steps=view.name, phase=view.phase, step_us=view.step_us, share=share)

    def examine_recording(self, seen: Observation) -> Answer:
        """What the rule finds in the whole recording."""
        found = self.of_recording(seen) if self.of_recording else None
        if not isinstance(found, Seen):
            return found
        return self._finding(found, steps=None, phase=None, step_us=None, share=0.0)

    def _finding(
        self, found: Seen, *, steps: str | None, phase: str | None, step_us: float | None, share: float
    ) -> Finding:
        return Finding(
            rule=self.name,
            title=self.title,
            kind=self.kind,
            state=MEASURED if found.measured else EXPECTED,
            cause=self.cause,
            steps=steps,
            phase=phase,
            step_us=step_us,
            share_of_run=share,
            evidence=tuple(found.evidence),
            remedy=found.remedy or self.remedy.text,
            known_from=self.remedy.known_from,
            saving=found.saving,
        )


@dataclass(frozen=True)
class Seen:
    """What a rule saw.

    Attributes:
        evidence: what it rests on, most time first.
        saving: what the remedy saves.
        measured: whether its cost is in the recording; else it is expected with CC on.
        remedy: a remedy for this case, in the place of the rule's.
    """

    evidence: Sequence[Evidence]
    saving: Saving
    measured: bool
    remedy: str = ""
