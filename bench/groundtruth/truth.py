"""What each cause really costs: Shapley values of the step times that the programs measured themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

import numpy as np

from cctrace.analyzers.attribution.shapley import shapley_values
from cctrace.analyzers.columns import FloatArray
from groundtruth.expectations import toll_of_step, unit_of
from groundtruth.scenarios import ZERO

Result = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """What was measured, lowest to highest."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Half-way between."""
        return (self.low + self.high) / 2

    def reaching_down_to(self, value: float) -> Range:
        """The range with a value below it."""
        return Range(min(self.low, value), self.high)

    def distance(self, value: float) -> float:
        """How far a value lies outside of the range; 0 inside, negative below."""
        return value - min(max(value, self.low), self.high)


@dataclass(frozen=True)
class Truth:
    """What an arm lost, in µs per step; each cause that the arm has not is (0, 0).

    Attributes:
        off_us: step of the arm `zero`.
        delta_us: growth of the step.
        shares: cause → its Shapley value. That of launch reaches down to what was charged: where a step grew
            by more, host code between the calls ran slower, and that is no toll.
        charged_us: launch toll of a step; None if the arm has none, 0 if no step is known.
    """

    off_us: Range
    delta_us: Range
    shares: Mapping[str, Range]
    charged_us: float | None = None


def truth_of(result: Result, arm: str, causes: Sequence[str]) -> Truth | None:
    """The truth of one arm, None if an arm with some of its causes was not measured.

    A machine whose host is slowed down in some rounds gives several truths: each process once with the mean
    of its rounds, as a recording sees them, and once with its fastest round. Of a scenario whose pace the
    host sets the faster half of the rounds counts.

    Args:
        result: a result of `run.py`.
        arm: causes joined by `+`.
        causes: all causes that are asked for.
    """
    taking_part = arm.split("+")
    arms = [_arm(taking_part, mix) for mix in range(1 << len(taking_part))]
    if not set(arms) <= result["arms"].keys():
        return None
    worth = _steps_us(result, arms)
    shares = shapley_values(worth)
    found = {cause: _range(shares[number]) for number, cause in enumerate(taking_part)}
    recording = result["arms"][arm][0].get("recording")
    charged = toll_of_step(recording) if recording and "launch" in found else None
    if charged:
        found["launch"] = found["launch"].reaching_down_to(charged)
    return Truth(
        off_us=_range(worth[0]),
        delta_us=_range(worth[-1] - worth[0]),
        shares={cause: found.get(cause, Range(0.0, 0.0)) for cause in causes},
        charged_us=charged,
    )


def is_host_bound(result: Result) -> bool:
    """Whether only the faster half of the rounds counts; results of old did not say."""
    return bool(result["scenario"].get("host_bound", False))


def faster_half(rounds: Sequence[T], time: Callable[[T], float]) -> list[T]:
    """The rounds that took the least time: half of them, at least one."""
    return sorted(rounds, key=time)[: max(1, len(rounds) // 2)]


def _arm(causes: Sequence[str], mix: int) -> str:
    """The arm with the causes whose bits are set."""
    return "+".join(cause for bit, cause in enumerate(causes) if mix >> bit & 1) or ZERO


def _steps_us(result: Result, arms: Sequence[str]) -> FloatArray:
    """Arms × measurements: steps, µs."""
    processes = range(min(len(result["arms"][arm]) for arm in arms))
    ways = (lambda values: fmean(faster_half(values, float)),) if is_host_bound(result) else (fmean, min)
    return np.array(
        [[_step_us(result, arm, number, of) for number in processes for of in ways] for arm in arms]
    )


def _step_us(result: Result, arm: str, process: int, of: Callable[[Sequence[float]], float]) -> float:
    """Step of a process: of its rounds of each variant, and the mean of the variants."""
    field = result["scenario"]["step"]
    factor = 1e3 if unit_of(field) == "ms" else 1.0
    variants = result["arms"][arm][process]["rounds"].values()
    return factor * fmean(of(rounds[field]) for rounds in variants)


def _range(values: FloatArray) -> Range:
    return Range(float(values.min()), float(values.max()))
