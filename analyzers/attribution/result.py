"""What an attribution says: the contract between the engine, the statistics and every output.

All times are microseconds per step, means over the compared steps. Positive means: the on arm is slower.
A number that cannot be told is null, and a text beside it says why; nothing is ever filled in with zero.

Three identities hold in every `Breakdown` whose `refused_because` is empty:

- `delta_us = on_step_us − off_step_us`
- `delta_us = Σ shares.*.share_us + residual.total_us`
- `residual.total_us = host_us + gpu_us + schedule_mix_us + model_error_us`
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from cctrace.analyzers.results import Result, about, value

CAUSES: Final = ("launch", "pcie", "overlap", "nvlink")
"""What confidential computing does. Their shares are what a user came for."""
RESIDUAL_PARTS: Final = ("host", "gpu")
"""Players of the replay that are no causes: a slower CPU, slower kernels."""
PLAYERS: Final = (*CAUSES, *RESIDUAL_PARTS)
"""What the replay can switch from the off arm's to the on arm's behaviour, in the order of its bit masks."""
SEVERITIES: Final = ("forbids", "warns", "informs", "expected")
"""Severities of what differs between the arms, the gravest first."""
PHASE_NAMES: Final = ("decode", "prefill", "mixed", "other", "unknown")
"""Keys of `Attribution.phases`."""


@dataclass(frozen=True, kw_only=True)
class CauseShare(Result):
    """What one cause does to a step. The three counterfactuals differ because causes interact."""

    share_us: float = value("part of the difference that the cause makes, averaged over all orders", "µs")
    share_pct_of_off: float = value("the same, of the off arm's step", "%")
    alone_us: float = value("how much longer the off arm's step gets with this cause alone", "µs")
    saved_if_removed_us: float = value("how much shorter the on arm's step gets without this cause", "µs")
    raw_toll_us: float = value(
        "what its calls take longer in sum, whether it shows or not; for overlap: how long copies block", "µs"
    )
    hidden_us: float = value("raw toll − share: what something else hides", "µs")
    ci_us: tuple[float, ...] | None = value(
        "interval of share_us: [low, high]; null if the runs give none (see ci_kind)", "µs"
    )


@dataclass(frozen=True, kw_only=True)
class Shares(Result):
    """The shares of the four causes."""

    launch: CauseShare = field(metadata=about("launch toll: what handing work to the GPU costs more"))
    pcie: CauseShare = field(metadata=about("PCIe crypto: what copies between host and GPU cost more"))
    overlap: CauseShare = field(metadata=about("lost overlap: copies that keep the host waiting"))
    nvlink: CauseShare | None = field(
        metadata=about("NVLink encryption; null if collectives cannot be told from other GPU work")
    )
    nvlink_unknown_because: str | None = value(
        "why nvlink is null; its part then lies in residual.gpu_us; null if nvlink is known"
    )


@dataclass(frozen=True, kw_only=True)
class Residual(Result):
    """What no cause explains; always shown."""

    total_us: float = value("sum of the parts", "µs")
    total_pct_of_off: float = value("the same, of the off arm's step", "%")
    host_us: float = value("host code outside of calls: a slower CPU, other code paths", "µs")
    gpu_us: float = value("other GPU work: clocks, other kernels", "µs")
    gpu_holds_nvlink: bool = value("whether gpu_us holds what NVLink encryption costs, too")
    schedule_mix_us: float = value(
        "another mix of steps (more prefills per decode, other batches); 0 within one class", "µs"
    )
    model_error_us: float = value("difference of the measured steps − difference of the replayed steps", "µs")
    host_ci_us: tuple[float, ...] | None = value("interval of host_us: [low, high]", "µs")
    gpu_ci_us: tuple[float, ...] | None = value("interval of gpu_us: [low, high]", "µs")
    total_ci_us: tuple[float, ...] | None = value("interval of total_us: [low, high]", "µs")


@dataclass(frozen=True, kw_only=True)
class ModelCheck(Result):
    """Whether the replay reproduces what was measured: v(∅) the off arm's step, v(all) the on arm's."""

    off_replayed_us: float = value("step of the replay with every cause as in the off arm", "µs")
    on_replayed_us: float = value("step of the replay with every cause as in the on arm", "µs")
    off_error_us: float = value("off_replayed_us − measured", "µs")
    on_error_us: float = value("on_replayed_us − measured", "µs")
    worst_pct_of_off: float = value("the larger error, of the off arm's step; above 2 % no shares", "%")


@dataclass(frozen=True, kw_only=True)
class Breakdown(Result):
    """One difference and its parts: of all steps together, of a phase, or of a step class."""

    name: str = value("what is broken down: all steps, a phase, or the name of a step class")
    off_step_us: float = value("mean step of the off arm", "µs")
    on_step_us: float = value("mean step of the on arm", "µs")
    delta_us: float = value("on − off", "µs")
    delta_pct_of_off: float = value("the same, of the off arm's step", "%")
    delta_ci_us: tuple[float, ...] | None = value("interval of delta_us: [low, high]; null if none", "µs")
    denominator: str = value("what every percentage is a part of, in words")
    off_steps: int = value("steps of the off arm behind it")
    on_steps: int = value("steps of the on arm behind it")
    off_weight: float = value("part of the off arm's compared steps that these are; 0–1")
    on_weight: float = value("the same in the on arm")
    shares: Shares | None = field(metadata=about("shares by cause; null if refused"))
    residual: Residual | None = field(metadata=about("what no cause explains; null if refused"))
    model: ModelCheck | None = field(metadata=about("whether the replay reproduces the measured steps"))
    refused_because: tuple[str, ...] = value(
        "why there are no shares, each to be read after 'cannot attribute, because'; empty if there are"
    )
    notes: tuple[str, ...] = value("what was assumed or merged on the way to the shares")


@dataclass(frozen=True, kw_only=True)
class Phases(Result):
    """The same by phase. Null: the arms have no comparable steps of it."""

    decode: Breakdown | None = field(metadata=about("steps that decode only"))
    prefill: Breakdown | None = field(metadata=about("steps that only prefill"))
    mixed: Breakdown | None = field(metadata=about("steps that do both"))
    other: Breakdown | None = field(metadata=about("steps that are neither, as far as their structure tells"))
    unknown: Breakdown | None = field(metadata=about("steps whose phase nothing tells"))

    def found(self) -> tuple[tuple[str, Breakdown], ...]:
        """(name, breakdown) of the phases that were compared, decode first."""
        pairs = [(name, getattr(self, name)) for name in PHASE_NAMES]
        return tuple((name, one) for name, one in pairs if one is not None)


@dataclass(frozen=True, kw_only=True)
class Site(Result):
    """One place in the step: the n-th call of its thread, the same in every step of the class."""

    cause: str = value("launch, pcie or overlap: the cause that makes it cost")
    thread: str = value("role of the thread and its number, for example 'scheduler 1519'")
    category: str = value("kernel, graph, copy d2h, event-sync …")
    position: int = value("number of the call within the step, on its thread, from 0")
    offset_us: float = value("median time from the begin of the step to the call, on arm", "µs")
    calls_per_step: float = value("calls at this place per step, on arm", "calls")
    bytes: int | None = value("size of the copy; null for other calls", "bytes")
    off_us: float = value("mean time in the call, off arm", "µs")
    on_us: float = value("mean time in the call, on arm", "µs")
    saved_if_removed_us: float = value(
        "how much shorter the on arm's step gets if this place alone behaves as in the off arm", "µs"
    )


@dataclass(frozen=True, kw_only=True)
class ClassBreakdown(Breakdown):
    """One step class."""

    phase: str = value("decode, prefill, mixed, other or unknown")
    off_class: str = value("name in the off arm")
    on_class: str = value("name in the on arm")
    sites: tuple[Site, ...] = value("places in the step that cost most, dearest first")


@dataclass(frozen=True, kw_only=True)
class Comparability(Result):
    """One thing that differs between the arms besides confidential computing."""

    name: str = value("field of the metadata, or what was observed")
    severity: str = value(
        "forbids: no shares; warns: read it first; informs: good to know, or not known in either arm; "
        "expected: the comparison is about it"
    )
    off: str | None = value("value in the off arm")
    on: str | None = value("value in the on arm")
    message: str = value("what it means for the comparison, one sentence")


@dataclass(frozen=True, kw_only=True)
class Attribution(Breakdown):
    """The result of `cctrace diff`: all steps together, then each phase and each step class."""

    format_version: int = value("version of this JSON")
    headline: str = value("the sentence that matters first")
    pairs: int = value("pairs of runs behind it", "pairs")
    kind_of_input: str = value(
        "kernels: both arms have GPU rows of kernels or --kernel-times supplied them; "
        "graphs: GPU times of whole graphs; host-only: none"
    )
    verdict: str | None = value(
        "difference, equivalent, or within noise; null where no verdict was asked for"
    )
    verdict_because: str | None = value("what the verdict rests on, one sentence")
    ci_kind: str | None = value(
        "paired t, 95 % over pairs of runs; or within-run only, which is no significance; null: no intervals"
    )
    comparability: tuple[Comparability, ...] = value("what else differs, the gravest first")
    labels: tuple[str, ...] = value("labels that every output carries: emulated, distorted, devtools")
    phases: Phases = field(metadata=about("the same by phase"))
    classes: tuple[ClassBreakdown, ...] = value("the same by step class, most time first")
    not_compared: tuple[str, ...] = value(
        "steps of either arm that have no counterpart, in words with their number"
    )
