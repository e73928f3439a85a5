"""Samples, their order and their spread. Nothing here knows a GPU.

The measurements take turns, each a little in every round, in an order that changes from round to round: a
clock that drifts or a neighbour that wakes up meets all of them alike.
"""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

Clock = Callable[[], int]
"""Nanoseconds of the host's monotonic clock."""

MIN_ROUNDS: Final = 3
"""So many rounds are made even if they take longer than allowed: fewer show no spread between rounds."""

FINEST_US: Final = 0.01
"""No shorter time is told from nothing: two digits of a microsecond are printed."""

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
class Turn:
    """What one turn of a measurement took.

    Attributes:
        taken: of calls of the driver.
        bare: of calls that do nothing, made in the same way and in alternation with them; what is not in it
            has nothing of Python to be taken off.
    """

    taken: Samples
    bare: Samples = field(default_factory=dict)


Probe = Callable[[], Turn]
"""One measurement that takes turns with the others: makes a few repeats and returns them."""


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

    @property
    def width(self) -> float:
        """From the 10th to the 90th percentile."""
        return self.high - self.low

    def less(self, bare: Spread) -> Spread:
        """Returns what is left without `bare`'s median.

        What is not more than the width of `bare` cannot be told from nothing: its range begins at zero and
        ends no lower than that width.
        """
        value, low, high = (max(0.0, number - bare.value) for number in (self.value, self.low, self.high))
        finest = max(bare.width, FINEST_US)
        return Spread(value, 0.0, max(high, finest)) if value <= finest else Spread(value, low, high)


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
        bare: quantity → nanoseconds of the same with calls that do nothing.
        rounds: rounds made.
        planned: rounds that were wanted.
    """

    samples: Samples
    bare: Samples
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
    bare: defaultdict[Quantity, list[float]] = defaultdict(list)
    order = random.Random(_SEED)  # noqa: S311 - an order, no secret
    begin = clock()
    made = 0
    while made < effort.rounds:
        if made >= MIN_ROUNDS and (clock() - begin) * 1e-9 >= effort.limit_s:
            break
        for number, probe in enumerate(order.sample(probes, len(probes))):
            turn = probe()
            for all_samples, samples in ((gathered, turn.taken), (bare, turn.bare)):
                for quantity, some in samples.items():
                    all_samples[quantity].extend(some)
            if progress is not None:
                progress(made * len(probes) + number + 1, effort.rounds * len(probes))
        made += 1
    return Collected(dict(gathered), dict(bare), made, effort.rounds)


def sizes(smallest: int, largest: int, step: int) -> tuple[int, ...]:
    """Returns smallest, smallest × step, … and the largest, which is always the last one."""
    found = []
    size = smallest
    while size < largest:
        found.append(size)
        size *= step
    return (*found, largest)
