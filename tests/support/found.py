"""Shortcuts for tests of findings."""

from __future__ import annotations

from pathlib import Path

from call_program import Program, metadata, write

from cctrace.analyzers.attribution.engine import attribute_arms
from cctrace.analyzers.findings import Finding, Findings, Observation, find_in_pair, observe
from cctrace.trace import Metadata, open_trace

SAMPLES = Path(__file__).parents[2] / "sample_traces"


def one(result: Findings, rule: str, phase: str | None = None) -> Finding | None:
    """The finding of a rule, about one phase or any; None if the rule found nothing."""
    found = [each for each in result.findings if each.rule == rule and phase in (None, each.phase)]
    assert len(found) <= 1
    return found[0] if found else None


def outcome(result: Findings, rule: str) -> str:
    return next(each.outcome for each in result.checked if each.rule == rule)


def looked_at(folder: Path, program: Program, about: Metadata | None = None) -> Observation:
    """A program as a recording that was looked at."""
    number = len(list(folder.iterdir()))
    return observe(open_trace(write(folder / f"{number}.parquet", program, about or metadata())))


def sample(name: str) -> Observation:
    return observe(open_trace(SAMPLES / f"{name}.parquet"))


def sample_pair(name: str, *, replay: bool = False) -> Findings:
    """The findings of a shipped pair, with or without what its replay says."""
    on, off = sample(f"{name}-emulated"), sample(f"{name}-off")
    assert on.arm is not None
    assert off.arm is not None
    return find_in_pair(on, off, attribute_arms(off.arm, on.arm) if replay else None)
