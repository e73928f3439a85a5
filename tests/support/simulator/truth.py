"""Pairs of runs, and what each cause really does to them: Shapley values of the simulator itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import factorial

from simulator.costs import PLAYERS, changed, mixed
from simulator.recorder import Recorder
from simulator.recording import SimulatedTrace
from simulator.run import Run
from simulator.simulation import simulate


@dataclass(frozen=True)
class Pair:
    """Two arms. A difference of their loads (more graph pieces, say) counts as launch toll."""

    off: Run
    on: Run

    @property
    def players(self) -> tuple[str, ...]:
        """What differs between the arms."""
        found = changed(self.off.costs, self.on.costs)
        if self.off.load != self.on.load and "launch" not in found:
            found = ("launch", *found)
        return found

    def traces(self) -> tuple[SimulatedTrace, SimulatedTrace]:
        """What the recorders kept of the off arm, and of the on arm."""
        return simulate(self.off).trace(cc_mode="off"), simulate(self.on).trace(cc_mode="on")

    def between(self, players: frozenset[str], seed: int) -> Run:
        """The off arm with some players as in the on arm, with a noise of its own and nothing recorded."""
        return replace(
            self.off,
            load=self.on.load if "launch" in players else self.off.load,
            costs=mixed(self.off.costs, self.on.costs, players),
            seed=seed,
            recorder=Recorder(),
        )


@dataclass(frozen=True)
class Truth:
    """What a pair's difference is made of, µs per step.

    Attributes:
        off_us: mean step with nothing switched on.
        on_us: mean step with everything switched on.
        shares: Shapley value of each player (all of PLAYERS; 0 where nothing differs).
        alone: how much longer the step gets with one player alone.
        saved: how much shorter the whole gets without it.
    """

    off_us: float
    on_us: float
    shares: Mapping[str, float]
    alone: Mapping[str, float]
    saved: Mapping[str, float]

    @property
    def delta_us(self) -> float:
        """How much longer the on arm's step is."""
        return self.on_us - self.off_us


def truth_of(pair: Pair, *, phase: str | None = None, seed: int | None = None) -> Truth:
    """The truth of a pair: 2ⁿ simulations of n players, all with the same noise.

    Args:
        pair: the arms.
        phase: means over the steps of one phase; all steps if None.
        seed: of the noise; the off arm's if None.
    """
    return truths_of(pair, (phase,), seed=seed)[phase]


def truths_of(
    pair: Pair, phases: tuple[str | None, ...], *, seed: int | None = None
) -> dict[str | None, Truth]:
    """The truth by phase, from one set of simulations."""
    noise = pair.off.seed if seed is None else seed
    outcomes = {
        players: simulate(pair.between(players, noise))
        for size in range(len(pair.players) + 1)
        for players in map(frozenset, combinations(pair.players, size))
    }
    return {
        phase: _truth(pair.players, {key: outcome.mean_us(phase) for key, outcome in outcomes.items()})
        for phase in phases
    }


def _truth(players: tuple[str, ...], value: Mapping[frozenset[str], float]) -> Truth:
    nobody, everybody = frozenset[str](), frozenset(players)
    zeros = dict.fromkeys(PLAYERS, 0.0)
    return Truth(
        off_us=value[nobody],
        on_us=value[everybody],
        shares=zeros | {one: _shapley(one, players, value) for one in players},
        alone=zeros | {one: value[nobody | {one}] - value[nobody] for one in players},
        saved=zeros | {one: value[everybody] - value[everybody - {one}] for one in players},
    )


def _shapley(player: str, players: tuple[str, ...], value: Mapping[frozenset[str], float]) -> float:
    """A player's marginal effect, averaged over all orders (Shapley 1953)."""
    others = [one for one in players if one != player]
    total = 0.0
    for size in range(len(others) + 1):
        weight = factorial(size) * factorial(len(others) - size) / factorial(len(players))
        for before in map(frozenset, combinations(others, size)):
            total += weight * (value[before | {player}] - value[before])
    return total
