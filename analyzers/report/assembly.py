"""The document of a comparison, made of what its pairs of runs say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from cctrace.analyzers.attribution.result import CAUSES, Attribution
from cctrace.analyzers.comparability import ArmsCompared
from cctrace.analyzers.diff import Diff
from cctrace.analyzers.findings import Findings
from cctrace.analyzers.report.combine import (
    combined,
    combined_classes,
    combined_phases,
    explained,
    union,
    without_shares,
)
from cctrace.analyzers.report.document import DIFF_FORMAT_VERSION, Report, RunPair
from cctrace.analyzers.report.gate import judged
from cctrace.analyzers.report.headline import headline_of
from cctrace.analyzers.statistics import MeasuredPair, PairStatistics, TeeSplit, WithinRun, statistics_of

PAIRED: Final = "paired t, 95 % over pairs of runs"
WITHIN_RUN: Final = "within-run only, which is no significance"


@dataclass(frozen=True, eq=False)
class ComparedPair:
    """What one pair of runs says.

    Attributes:
        off: recording of the off arm.
        on: recording of the on arm.
        attribution: the causes.
        calls: calls and waiting.
        within: within-run spread of the main class's steps; None if the runs are too short for one.
        findings: what to change.
    """

    off: str
    on: str
    attribution: Attribution
    calls: Diff
    within: WithinRun | None
    findings: Findings


def assembled(
    pairs: Sequence[ComparedPair],
    arms: ArmsCompared,
    *,
    notes: Sequence[str] = (),
    tee: TeeSplit | None = None,
    kernel_times: str | None = None,
    fail_over_pct: float | None = None,
) -> Report:
    """The document.

    Args:
        pairs: pairs of runs in recorded order, at least one.
        arms: what differs between the arms, and between the runs of one.
        notes: what weakens conclusions from the pairs.
        tee: the split by a third arm.
        kernel_times: recording that supplied GPU times of kernels.
        fail_over_pct: growth of the step above which the check fails, % of the off arm's step.
    """
    counted = explained([pair.attribution for pair in pairs])
    used = [pairs[number] for number in counted]
    statistics = statistics_of([measured(pair.attribution, pair.within) for pair in used])
    whole = _whole(used, arms, statistics)
    whole = replace(whole, notes=(*whole.notes, *notes, *_left_out(pairs, counted)))
    nearest = min(used, key=lambda pair: abs(pair.attribution.delta_us - whole.delta_us))
    growth = whole.on_step_us / whole.off_step_us - 1
    # Arms without a step in common did different work: their steps' times say nothing about each other.
    unjudged = arms.forbidden_because or (() if whole.phases.found() else whole.refused_because)
    gate = None if fail_over_pct is None else judged(fail_over_pct, growth, statistics, unjudged)
    return Report(
        **{
            field.name: getattr(whole, field.name)
            for field in fields(Attribution)
            if field.name != "headline"
        },
        headline=headline_of(whole, statistics, nearest.calls),
        step_growth=growth,
        throughput_loss=1 - whole.off_step_us / whole.on_step_us,
        statistics=statistics,
        tee=tee,
        gate=gate,
        kernel_times=kernel_times,
        runs=tuple(_run(number, pair, counted=number in counted) for number, pair in enumerate(pairs)),
        equal_fields=arms.equal_fields,
        unknown_fields=arms.unknown_fields,
        kernels=arms.kernels,
        calls_of_pair=pairs.index(nearest) + 1,
        calls=nearest.calls,
        findings=nearest.findings.findings,
        checked=nearest.findings.checked,
        finding_notes=nearest.findings.notes,
    )


def measured(one: Attribution, within: WithinRun | None = None) -> MeasuredPair:
    """One pair of runs as the statistics want it."""
    parts: dict[str, float] = {}
    if one.shares is not None and one.residual is not None:
        shares = {cause: getattr(one.shares, cause) for cause in CAUSES}
        rest = one.residual
        parts = {
            **{cause: share.share_us for cause, share in shares.items() if share is not None},
            "host": rest.host_us,
            "gpu": rest.gpu_us,
            "schedule_mix": rest.schedule_mix_us,
            "model_error": rest.model_error_us,
            "residual": rest.total_us,
        }
    return MeasuredPair(one.off_step_us, one.on_step_us, parts, within)


def _whole(used: Sequence[ComparedPair], arms: ArmsCompared, statistics: PairStatistics) -> Attribution:
    """All pairs' attributions as one; without shares if the arms cannot be compared."""
    several = [pair.attribution for pair in used]
    whole = replace(
        combined(several),
        format_version=DIFF_FORMAT_VERSION,
        pairs=len(used),
        verdict=statistics.verdict.verdict,
        verdict_because=statistics.verdict.because,
        comparability=arms.items,
        labels=union(one.labels for one in several),
        phases=combined_phases([one.phases for one in several]),
        classes=combined_classes([one.classes for one in several]),
        not_compared=union(one.not_compared for one in several),
    )
    whole = replace(whole, **_intervals(whole, statistics))
    return without_shares(whole, arms.forbidden_because) if arms.forbidden_because else whole


def _intervals(whole: Attribution, statistics: PairStatistics) -> dict[str, Any]:
    """What the intervals are; of one pair of one class of steps, the within-run one of the difference."""
    if statistics.delta_us is not None:
        return {"ci_kind": PAIRED}
    within = statistics.within_run
    if within is None or len(whole.classes) > 1:
        return {"ci_kind": None}
    half = (within.high_us - within.low_us) / 2
    return {"ci_kind": WITHIN_RUN, "delta_ci_us": (whole.delta_us - half, whole.delta_us + half)}


def _left_out(pairs: Sequence[ComparedPair], counted: Sequence[int]) -> list[str]:
    """Pairs that no mean holds, and why."""
    return [
        f"pair {number + 1} has no part in these numbers: cannot attribute it, because "
        f"{pair.attribution.refused_because[0]}"
        for number, pair in enumerate(pairs)
        if number not in counted
    ]


def _run(number: int, pair: ComparedPair, *, counted: bool) -> RunPair:
    one = pair.attribution
    return RunPair(
        pair=number + 1,
        off=pair.off,
        on=pair.on,
        off_step_us=one.off_step_us,
        on_step_us=one.on_step_us,
        delta_us=one.delta_us,
        step_growth=one.on_step_us / one.off_step_us - 1,
        counted=counted,
        refused_because=one.refused_because,
    )
