"""Samples, their order and their spread. Nothing here knows a GPU.

The measurements take turns, each a little in every round, in an order that changes from round to round: a
clock that drifts or a neighbour that wakes up meets all of them alike.
"""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

Clock = Callable[[], int]
"""Nanoseconds of the host's monotonic clock."""

MIN_ROUNDS: Final = 3
"""So many rounds are made even if they take longer than allowed: fewer show no spread between rounds."""

_SEED: Final = 20260901
_NS_PER_US: Final = 1e3
_DECILES: Final = 10


class Quantity(NamedTuple):
    """What is measured: an entry of a profile, or one node of it.

    Attributes:
        cause: table of the profile.
        key: entry in it.
        bytes: size of the node; None if the entry is a single number.
    """

    cause: str
    key: str
    bytes: int | None = None


Samples = Mapping[Quantity, Sequence[float]]
"""Quantity → nanoseconds of each repeat."""


@dataclass(frozen=True)
class Probe:
    """One measurement that takes turns with the others.

    Attributes:
        turn: measures a few repeats and returns them.
        shape: the shape of the submission that is timed (`interface.Submission`); None: nothing of a binding
            is to be taken off.
    """

    turn: Callable[[], Samples]
    shape: str | None = None


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: rounds at most.
        limit_s: no round begins after so long, once there are `MIN_ROUNDS`.
        bursts: repeats of a burst of submissions in one turn.
        singles: repeats of single calls in one turn.
        size_step: a table's sizes are so many times apart.
    """

    rounds: int
    limit_s: float
    bursts: int
    singles: int
    size_step: int


THOROUGH: Final = Effort(rounds=40, limit_s=40.0, bursts=8, singles=12, size_step=4)
"""With a limit of 40 s and the last round, a GPU takes less than a minute."""
QUICK: Final = Effort(rounds=4, limit_s=4.0, bursts=4, singles=6, size_step=16)


@dataclass(frozen=True)
class Spread:
    """Microseconds: the median of all repeats, and their 10th and 90th percentile."""

    value: float
    low: float
    high: float

    def less(self, us: float) -> Spread:
        """Returns the same with `us` taken off each, not below zero."""
        return Spread(*(max(0.0, number - us) for number in (self.value, self.low, self.high)))


def spread(nanoseconds: Sequence[float]) -> Spread:
    """Returns median and percentiles of at least one sample, in microseconds."""
    samples = [sample / _NS_PER_US for sample in nanoseconds]
    middle = statistics.median(samples)
    if len(samples) == 1:
        return Spread(middle, middle, middle)
    deciles = statistics.quantiles(samples, n=_DECILES, method="inclusive")
    # Interpolation may be off by a rounding where all samples are alike.
    return Spread(middle, min(deciles[0], middle), max(deciles[-1], middle))


@dataclass(frozen=True)
class Collected:
    """The samples of all rounds.

    Attributes:
        samples: quantity → nanoseconds.
        shapes: quantity → shape of the submission that was timed.
        rounds: rounds made.
        planned: rounds that were wanted.
    """

    samples: Samples
    shapes: Mapping[Quantity, str]
    rounds: int
    planned: int


def collect(
    probes: Sequence[Probe], effort: Effort, clock: Clock, progress: Callable[[int, int], None] | None = None
) -> Collected:
    """Runs the probes in rounds until there are enough or time is up.

    Args:
        probes: what takes turns.
        effort: how many rounds, and for how long.
        clock: tells how long it takes.
        progress: called with turns made and turns planned.
    """
    gathered: defaultdict[Quantity, list[float]] = defaultdict(list)
    shapes: dict[Quantity, str] = {}
    order = random.Random(_SEED)  # noqa: S311 - an order, no secret
    begin = clock()
    made = 0
    while made < effort.rounds:
        if made >= MIN_ROUNDS and (clock() - begin) * 1e-9 >= effort.limit_s:
            break
        for number, probe in enumerate(order.sample(probes, len(probes))):
            for quantity, samples in probe.turn().items():
                gathered[quantity].extend(samples)
                if probe.shape is not None:
                    shapes[quantity] = probe.shape
            if progress is not None:
                progress(made * len(probes) + number + 1, effort.rounds * len(probes))
        made += 1
    return Collected(dict(gathered), shapes, made, effort.rounds)


def sizes(smallest: int, largest: int, step: int) -> tuple[int, ...]:
    """Returns smallest, smallest × step, … and the largest, which is always the last one."""
    found = []
    size = smallest
    while size < largest:
        found.append(size)
        size *= step
    return (*found, largest)
