"""A third arm, with the trusted VM on and the GPU's confidential computing off, tells their costs apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cctrace.analyzers.results import Result, about, value
from cctrace.analyzers.statistics.intervals import Interval, t_interval
from cctrace.analyzers.statistics.paired import MeasuredPair


@dataclass(frozen=True, kw_only=True)
class TeePart(Result):
    """One part of the difference, split."""

    name: str = value("cause, or part of the residual")
    vm_us: float = value("what it costs from off to TEE only, per step", "µs")
    gpu_us: float = value("what it costs from TEE only to on, per step", "µs")


@dataclass(frozen=True, kw_only=True)
class TeeSplit(Result):
    """What the trusted VM costs, and what the GPU's confidential computing costs on top of it.

    The two add up to the difference of on and off.
    """

    runs: int = value("sets of three runs", "sets")
    vm_us: float = value("TEE only − off, per step, mean over the sets", "µs")
    gpu_us: float = value("on − TEE only, per step, mean over the sets", "µs")
    vm_interval: Interval | None = field(metadata=about("the same, paired t, 95 %; null for one set", "µs"))
    gpu_interval: Interval | None = field(metadata=about("the same, paired t, 95 %; null for one set", "µs"))
    parts: tuple[TeePart, ...] = value("the same by cause; only parts that both comparisons know")


def split_by_tee(vm: Sequence[MeasuredPair], gpu: Sequence[MeasuredPair]) -> TeeSplit:
    """Splits a difference by its third arm.

    Args:
        vm: comparisons of TEE only (in the place of on) with off, one for each set of runs.
        gpu: comparisons of on with TEE only (in the place of off), of the same sets in the same order.

    Raises:
        ValueError: the lists are empty or of different length.
    """
    if not vm or len(vm) != len(gpu):
        raise ValueError("each set of runs needs both comparisons")
    vm_us = [pair.on_us - pair.off_us for pair in vm]
    gpu_us = [pair.on_us - pair.off_us for pair in gpu]
    first, second = _mean_parts(vm), _mean_parts(gpu)
    return TeeSplit(
        runs=len(vm),
        vm_us=sum(vm_us) / len(vm_us),
        gpu_us=sum(gpu_us) / len(gpu_us),
        vm_interval=t_interval(vm_us),
        gpu_interval=t_interval(gpu_us),
        parts=tuple(
            TeePart(name=name, vm_us=first[name], gpu_us=second[name]) for name in first if name in second
        ),
    )


def _mean_parts(pairs: Sequence[MeasuredPair]) -> Mapping[str, float]:
    """Mean of the parts that all pairs know."""
    names = [name for name in pairs[0].parts_us if all(name in pair.parts_us for pair in pairs)]
    return {name: sum(pair.parts_us[name] for pair in pairs) / len(pairs) for name in names}
