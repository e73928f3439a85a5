"""Breakdowns of several pairs of runs, taken together: means, and intervals over the pairs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeVar, get_type_hints

from cctrace.analyzers.attribution.result import (
    CAUSES,
    PHASE_NAMES,
    Attribution,
    Breakdown,
    CauseShare,
    ClassBreakdown,
    ModelCheck,
    Phases,
    Residual,
    Shares,
    Site,
)
from cctrace.analyzers.statistics import t_interval

Part = TypeVar("Part", bound=Breakdown)

MAX_SITES: Final = 20
"""Places in the step that are kept of all pairs together."""


def combined(parts: Sequence[Part]) -> Part:
    """The mean of breakdowns of the same thing, one for each pair of runs; of one, the breakdown itself.

    Every mean is over the same pairs, so that shares and residual still add up to the difference. Breakdowns
    without shares are left out if most have some; else the result has none either.
    """
    used = [parts[number] for number in explained(parts)]
    if len(used) == 1:
        return used[0]
    first, off = used[0], _mean(used, "off_step_us")
    refused = any(one.refused_because for one in used)
    if not refused and any(one.shares is not None and one.shares.nvlink is None for one in used):
        used = [_without_nvlink(one) for one in used]
    return replace(
        first,
        off_step_us=off,
        on_step_us=_mean(used, "on_step_us"),
        delta_us=_mean(used, "delta_us"),
        delta_pct_of_off=100 * _mean(used, "delta_us") / off,
        delta_ci_us=_interval([one.delta_us for one in used]),
        off_steps=sum(one.off_steps for one in used),
        on_steps=sum(one.on_steps for one in used),
        off_weight=_mean(used, "off_weight"),
        on_weight=_mean(used, "on_weight"),
        shares=None if refused else _shares([one.shares for one in used if one.shares], off),
        residual=None if refused else _residual([one.residual for one in used if one.residual], off),
        model=_model([one.model for one in used if one.model]),
        refused_because=union(one.refused_because for one in used),
        notes=union(one.notes for one in used),
    )


def explained(parts: Sequence[Breakdown]) -> list[int]:
    """Positions of the breakdowns that count: those with shares if they are the most, else all."""
    with_shares = [number for number, one in enumerate(parts) if not one.refused_because]
    return with_shares if 2 * len(with_shares) > len(parts) else list(range(len(parts)))


def without_shares(one: Part, because: tuple[str, ...]) -> Part:
    """A breakdown, with all that it holds, that says why it has no shares."""
    bare: dict[str, Any] = {"shares": None, "residual": None, "refused_because": because}
    if isinstance(one, Attribution):
        found = {name: without_shares(part, because) for name, part in one.phases.found()}
        bare["phases"] = replace(one.phases, **found)
        bare["classes"] = tuple(without_shares(part, because) for part in one.classes)
    if isinstance(one, ClassBreakdown):
        bare["sites"] = ()
    return replace(one, **bare)


def combined_phases(parts: Sequence[Phases]) -> Phases:
    """Each phase, over the pairs that have it."""
    found = {name: [getattr(one, name) for one in parts if getattr(one, name)] for name in PHASE_NAMES}
    return Phases(**{name: combined(several) if several else None for name, several in found.items()})


def combined_classes(parts: Sequence[Sequence[ClassBreakdown]]) -> tuple[ClassBreakdown, ...]:
    """Each step class, over the pairs that have it, most time of the off arm first."""
    several: dict[Hashable, list[ClassBreakdown]] = {}
    for classes in parts:
        for one in classes:
            several.setdefault((one.phase, one.off_class, one.on_class), []).append(one)
    made = [
        replace(combined(group), sites=_sites([one.sites for one in group])) for group in several.values()
    ]
    return tuple(sorted(made, key=lambda one: -one.off_weight * one.off_step_us))


def _mean(items: Sequence[Any], name: str) -> float:
    return float(sum(getattr(one, name) for one in items) / len(items))


def _means(items: Sequence[Any]) -> dict[str, Any]:
    """Means of all fields that are plain numbers."""
    hints = get_type_hints(type(items[0]))
    return {field.name: _mean(items, field.name) for field in fields(items[0]) if hints[field.name] is float}


def _interval(values: Sequence[float]) -> tuple[float, ...] | None:
    found = t_interval(values)
    return None if found is None else (found.low, found.high)


def union(texts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """All texts, each once."""
    return tuple(dict.fromkeys(text for several in texts for text in several))


def _shares(several: Sequence[Shares], off_us: float) -> Shares:
    causes = {cause: [getattr(one, cause) for one in several] for cause in CAUSES}
    made: dict[str, Any] = {
        name: None if None in shares else _share(shares, off_us) for name, shares in causes.items()
    }
    return replace(several[0], **made)


def _share(several: Sequence[CauseShare], off_us: float) -> CauseShare:
    means = _means(several)
    means["share_pct_of_off"] = 100 * means["share_us"] / off_us
    return replace(several[0], **means, ci_us=_interval([one.share_us for one in several]))


def _residual(several: Sequence[Residual], off_us: float) -> Residual:
    means = _means(several)
    means["total_pct_of_off"] = 100 * means["total_us"] / off_us
    return replace(
        several[0],
        **means,
        gpu_holds_nvlink=any(one.gpu_holds_nvlink for one in several),
        host_ci_us=_interval([one.host_us for one in several]),
        gpu_ci_us=_interval([one.gpu_us for one in several]),
        total_ci_us=_interval([one.total_us for one in several]),
    )


def _model(several: Sequence[ModelCheck]) -> ModelCheck | None:
    """Mean errors, and the worst one of all pairs."""
    if not several:
        return None
    worst = max(one.worst_pct_of_off for one in several)
    return replace(several[0], **{**_means(several), "worst_pct_of_off": worst})


def _without_nvlink(one: Part) -> Part:
    """A breakdown with its NVLink share in the GPU's part of the residual, as in a pair that cannot tell."""
    if one.shares is None or one.shares.nvlink is None or one.residual is None:
        return one
    moved, rest = one.shares.nvlink.share_us, one.residual
    total = rest.total_us + moved
    because = "not every pair of runs tells collectives from other GPU work"
    return replace(
        one,
        shares=replace(one.shares, nvlink=None, nvlink_unknown_because=because),
        residual=replace(
            rest,
            total_us=total,
            total_pct_of_off=100 * total / one.off_step_us,
            gpu_us=rest.gpu_us + moved,
            gpu_holds_nvlink=True,
        ),
    )


def _sites(several: Sequence[tuple[Site, ...]]) -> tuple[Site, ...]:
    """Places that most pairs name, with means; the number of a thread is that of the first pair."""
    found: dict[Hashable, list[Site]] = {}
    for sites in several:
        for one in sites:
            role = one.thread.rsplit(" ", 1)[0]
            found.setdefault((one.cause, role, one.category, one.position), []).append(one)
    common = [sites for sites in found.values() if 2 * len(sites) > len(several)]
    made = [replace(sites[0], **_means(sites)) if len(sites) > 1 else sites[0] for sites in common]
    return tuple(sorted(made, key=lambda one: -one.saved_if_removed_us)[:MAX_SITES])
