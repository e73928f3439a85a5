"""Random factors that belong to a place in the run, not to the order in which they are drawn.

A call, kernel or stretch of host code of one step has the same factor whatever else is switched on: the
difference of two simulations with the same noise is then the effect of what differs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

_FACTORS: Final = 4096
_STRIDE: Final = 977
"""Steps begin this far apart in the factors. Odd, so that all begins are used before one comes again."""
SOURCES: Final = ("host", "call", "kernel", "copy", "collective", "extra")


class Noise:
    """Noise of one rank: log-normal with mean 1, and a slow AR(1) wander from step to step.

    Args:
        seed: of the run.
        rank: each rank has its own.
        spread: standard deviation of the factor of one operation.
        wander: standard deviation of the factor that all operations of a step share.
        memory: correlation of that factor from one step to the next.
    """

    def __init__(
        self, seed: int, rank: int, *, spread: float = 0.03, wander: float = 0.0, memory: float = 0.7
    ) -> None:
        self._factors = _operation_factors(seed, rank, spread)
        self._wander = _step_factors(seed, wander, memory)

    def of_step(self, number: int) -> StepNoise:
        """A new reader of one step's factors."""
        return StepNoise(self._factors, number * _STRIDE, self._wander[number % _FACTORS])


class StepNoise:
    """The factors of one step, in order, by what they are for."""

    __slots__ = ("_factors", "_next", "_shared")

    def __init__(self, factors: dict[str, list[float]], begin: int, shared: float) -> None:
        self._factors = factors
        self._next = dict.fromkeys(SOURCES, begin)
        self._shared = shared

    def vary(self, source: str, us: float) -> float:
        """A duration times its next factor."""
        position = self._next[source]
        self._next[source] = position + 1
        return us * self._factors[source][position % _FACTORS] * self._shared


@lru_cache(maxsize=64)
def _operation_factors(seed: int, rank: int, spread: float) -> dict[str, list[float]]:
    if not spread:
        return {source: [1.0] * _FACTORS for source in SOURCES}
    random = np.random.default_rng((seed, rank))
    logs = random.normal(-(spread**2) / 2, spread, (len(SOURCES), _FACTORS))
    return dict(zip(SOURCES, np.exp(logs).tolist(), strict=True))


@lru_cache(maxsize=64)
def _step_factors(seed: int, wander: float, memory: float) -> list[float]:
    """The machine's own ups and downs: the same for all ranks."""
    if not wander:
        return [1.0] * _FACTORS
    shocks = np.random.default_rng((seed, 1 << 20)).normal(0.0, 1.0, _FACTORS)
    levels = [shocks[0]]
    for shock in shocks[1:]:
        levels.append(memory * levels[-1] + (1 - memory**2) ** 0.5 * shock)
    factors: list[float] = np.exp(wander * np.array(levels)).tolist()
    return factors
