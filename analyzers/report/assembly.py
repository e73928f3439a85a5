"""The document of a comparison, made of what its pairs of runs say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from cctrace.analyzers.attribution.result import CAUSES, SEVERITIES, Attribution, Comparability
from cctrace.analyzers.diff import Diff
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
from cctrace.analyzers.verdicts import cause_of

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
    """

    off: str
    on: str
    attribution: Attribution
    calls: Diff
    within: WithinRun | None


def assembled(
    pairs: Sequence[ComparedPair],
    *,
    notes: Sequence[str] = (),
    tee: TeeSplit | None = None,
    fail_over_pct: float | None = None,
) -> Report:
    """The document.

    Args:
        pairs: pairs of runs in recorded order, at least one.
        notes: what weakens conclusions from the pairs.
        tee: the split by a third arm.
        fail_over_pct: growth of the step above which the check fails, % of the off arm's step.
    """
    counted = explained([pair.attribution for pair in pairs])
    used = [pairs[number] for number in counted]
    statistics = statistics_of([measured(pair.attribution, pair.within) for pair in used])
    whole = _whole(used, merged([pair.attribution.comparability for pair in pairs]), statistics)
    whole = replace(whole, notes=(*whole.notes, *notes, *_left_out(pairs, counted)))
    nearest = min(used, key=lambda pair: abs(pair.attribution.delta_us - whole.delta_us))
    subject = cause_of(nearest.calls.off.provenance, nearest.calls.on.provenance)
    growth = whole.on_step_us / whole.off_step_us - 1
    gate = None if fail_over_pct is None else judged(fail_over_pct, growth, statistics, whole.comparability)
    return Report(
        **{
            field.name: getattr(whole, field.name)
            for field in fields(Attribution)
            if field.name != "headline"
        },
        headline=headline_of(whole, statistics, "The on arm" if subject == "Difference" else subject),
        step_growth=growth,
        throughput_loss=1 - whole.off_step_us / whole.on_step_us,
        statistics=statistics,
        tee=tee,
        gate=gate,
        runs=tuple(_run(number, pair, counted=number in counted) for number, pair in enumerate(pairs)),
        calls_of_pair=pairs.index(nearest) + 1,
        calls=nearest.calls,
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


def merged(several: Sequence[tuple[Comparability, ...]]) -> tuple[Comparability, ...]:
    """What differs between the arms of any pair, the gravest first; what all pairs share once."""
    pairs: dict[Comparability, list[int]] = {}
    for number, found in enumerate(several, 1):
        for one in found:
            pairs.setdefault(one, []).append(number)
    made = [
        one if len(numbers) == len(several) else replace(one, message=f"{_of_pairs(numbers)}: {one.message}")
        for one, numbers in pairs.items()
    ]
    return tuple(sorted(made, key=lambda one: SEVERITIES.index(one.severity)))


def _whole(
    used: Sequence[ComparedPair], comparability: tuple[Comparability, ...], statistics: PairStatistics
) -> Attribution:
    """All pairs' attributions as one; without shares if the arms cannot be compared."""
    several = [pair.attribution for pair in used]
    whole = replace(
        combined(several),
        format_version=DIFF_FORMAT_VERSION,
        pairs=len(used),
        verdict=statistics.verdict.verdict,
        verdict_because=statistics.verdict.because,
        comparability=comparability,
        labels=union(one.labels for one in several),
        phases=combined_phases([one.phases for one in several]),
        classes=combined_classes([one.classes for one in several]),
        not_compared=union(one.not_compared for one in several),
    )
    whole = replace(whole, **_intervals(whole, statistics))
    forbidden = tuple(one.message for one in comparability if one.severity == "forbids")
    return without_shares(whole, forbidden) if forbidden else whole


def _intervals(whole: Attribution, statistics: PairStatistics) -> dict[str, Any]:
    """What the intervals are; of one pair of one class of steps, the within-run one of the difference."""
    if statistics.delta_us is not None:
        return {"ci_kind": PAIRED}
    within = statistics.within_run
    if within is None or len(whole.classes) > 1:
        return {"ci_kind": None}
    half = (within.high_us - within.low_us) / 2
    return {"ci_kind": WITHIN_RUN, "delta_ci_us": (whole.delta_us - half, whole.delta_us + half)}


def _of_pairs(numbers: Sequence[int]) -> str:
    """`pair 2`, `pairs 1, 3`."""
    word = "pair" if len(numbers) == 1 else "pairs"
    return f"{word} {', '.join(map(str, numbers))}"


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
