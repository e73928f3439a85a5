"""Which run of the off arm belongs to which run of the on arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Recorded = TypeVar("Recorded")


@dataclass(frozen=True)
class Pairing(Generic[Recorded]):
    """Runs in pairs.

    Attributes:
        pairs: (off, on), in recorded order.
        unpaired: runs of the arm that has more, the latest ones.
        by_time: whether the order is that of the recordings; else it is the one in which they were given.
        notes: what weakens conclusions from the pairs, each a sentence.
    """

    pairs: tuple[tuple[Recorded, Recorded], ...]
    unpaired: tuple[Recorded, ...]
    by_time: bool
    notes: tuple[str, ...]


def paired_in_order(
    off: Sequence[Recorded], on: Sequence[Recorded], started: Callable[[Recorded], float | None]
) -> Pairing[Recorded]:
    """Pairs the n-th run of one arm with the n-th of the other, in the order in which they were recorded.

    Runs of a pair then lie near each other in time if the arms alternated, and what drifts slowly meets both.

    Args:
        off: recordings of the off arm.
        on: recordings of the on arm.
        started: when a recording began, s since any fixed moment; None if not known.
    """
    times = {id(one): started(one) for one in (*off, *on)}
    by_time = all(time is not None for time in times.values())

    def when(one: Recorded) -> float:
        return times[id(one)] or 0.0

    firsts, seconds = (sorted(off, key=when), sorted(on, key=when)) if by_time else (list(off), list(on))
    count = min(len(firsts), len(seconds))
    unpaired = (*firsts[count:], *seconds[count:])
    pairs = tuple(zip(firsts[:count], seconds[:count], strict=True))
    starts = [(when(first), when(second)) for first, second in pairs]
    return Pairing(pairs, unpaired, by_time, _notes(len(unpaired), starts, by_time=by_time))


def _notes(unpaired: int, starts: list[tuple[float, float]], *, by_time: bool) -> tuple[str, ...]:
    notes = []
    if unpaired:
        runs, verb = ("run", "has") if unpaired == 1 else ("runs", "have")
        notes.append(f"{unpaired} {runs} of one arm {verb} no partner and {verb} no part in the result")
    if not by_time:
        notes.append("not all recordings say when they began: they are paired in the order given")
    elif len(starts) > 1 and not _alternate(starts):
        notes.append(
            "one arm was recorded before the other: what changed meanwhile counts as a difference; "
            "alternate the arms"
        )
    return tuple(notes)


def _alternate(starts: list[tuple[float, float]]) -> bool:
    """Whether some run of each arm began after some run of the other."""
    off, on = [first for first, _ in starts], [second for _, second in starts]
    return max(off) > min(on) and max(on) > min(off)
