"""What CC adds on a machine: a profile measured with CC on, less one measured with CC off."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np

from cctrace.errors import UnusableInputError
from cctrace.profiles.model import (
    CAUSES,
    MAX_FACTOR,
    WITHOUT_LAUNCH,
    AnyEntry,
    Entry,
    Factor,
    Profile,
    Rule,
    SizeTable,
    name_from,
)
from cctrace.profiles.tables import at

FACTORS: Final = {
    "collective_factor": "all_reduce_us",
    "all_to_all_factor": "all_to_all_us",
    "peer_copy_factor": "peer_copy_us",
}
"""Factor of a transfer between GPUs ← the measured table that it comes from."""

SOURCE: Final = "measured"

_LONGEST: Final = 200
"""Characters of a GPU's name in a title, which must have room for two names of profiles."""

Column: TypeAlias = Literal["value", "low", "high"]


def tolls(on: Profile, off: Profile, name: str) -> Profile:
    """Returns what CC adds: times as on − off, at least 0; factors as on ÷ off; rules as with CC on.

    The range of a difference goes from the lowest on − highest off to the highest on − lowest off. What only
    one of the two profiles has is left out. A factor is that of the largest size that both measured: there
    the transfer outweighs its latency. The tables of copies do not contain the launch toll of a copy.

    Raises:
        UnusableInputError: one of them holds no measurement, the two are swapped, or of different GPUs.
    """
    _check(on, off)
    launch = _part("launch", on, off)
    copy = launch.get("copy_us")
    copy_toll = copy.value if isinstance(copy, Entry) else 0.0
    parts = {cause: _part(cause, on, off, copy_toll) for cause in CAUSES}
    parts["nvlink"].update(_factors(on, off))
    head = on.profile.model_dump(exclude={"cc"}) | {
        "name": name_from(name),
        "title": f"{on.profile.gpu[:_LONGEST]}: {on.name} minus {off.name}",
        "kind": "tolls",
        "sources": (f"{SOURCE}: {on.name} (CC {on.profile.cc}) and {off.name} (CC {off.profile.cc})",),
    }
    return Profile.model_validate({"profile": head, **parts})


def _check(on: Profile, off: Profile) -> None:
    for one in (on, off):
        if one.profile.kind != "measured":
            raise UnusableInputError(f"the profile {one.name} holds tolls, not a measurement")
    if on.profile.cc == "off" or off.profile.cc not in ("off", "unknown"):
        raise UnusableInputError(
            f"{on.name} was measured with CC {on.profile.cc}, {off.name} with CC {off.profile.cc}: "
            "give the one with CC on first, then the one with CC off"
        )
    if on.profile.gpu != off.profile.gpu:
        raise UnusableInputError(
            f"{on.name} is of {on.profile.gpu}, {off.name} of {off.profile.gpu}: "
            "the difference would be that of the GPUs"
        )


def _part(cause: str, on: Profile, off: Profile, copy_toll: float = 0.0) -> dict[str, AnyEntry]:
    """Returns the differences of one cause."""
    found: dict[str, AnyEntry] = {}
    before = off.entries(cause)
    for key, entry in on.entries(cause).items():
        other = before.get(key)
        if isinstance(entry, Rule):
            found[key] = _rule(key, entry, other)
        elif isinstance(entry, SizeTable) and isinstance(other, SizeTable):
            contained = copy_toll if f"{cause}.{key}" in WITHOUT_LAUNCH else 0.0
            found[key] = _table(entry, other, contained)
        elif isinstance(entry, Entry) and isinstance(other, Entry):
            found[key] = _entry(entry, other)
    return found


def _entry(on: Entry, off: Entry) -> Entry:
    return Entry(
        value=max(0.0, on.value - off.value),
        low=max(0.0, on.low - off.high),
        high=max(0.0, on.high - off.low),
        source=SOURCE,
        on=on.value,
        off=off.value,
    )


def _table(on: SizeTable, off: SizeTable, copy_toll: float) -> SizeTable:
    """Returns the difference at the sizes that were measured with CC on."""

    def less(ours: Column, theirs: Column) -> tuple[float, ...]:
        difference = at(on, on.bytes, ours) - at(off, on.bytes, theirs) - copy_toll
        return tuple(np.maximum(difference, 0.0).tolist())

    value = less("value", "value")
    return SizeTable(
        bytes=on.bytes,
        value=value,
        # Between nodes, an interpolated end of a range may cross the value where it comes near to zero.
        low=tuple(map(min, less("low", "high"), value)),
        high=tuple(map(max, less("high", "low"), value)),
        source=SOURCE,
        on=on.value,
        off=tuple(at(off, on.bytes).tolist()),
    )


def _rule(key: str, on: Rule, off: AnyEntry | None) -> Rule:
    """Returns a rule as it holds with CC on; copies that block with CC off as well are none of its doing."""
    if key == "pinned_copies_block" and isinstance(off, Rule) and off.value == 1.0:
        return Rule(value=0.0, low=0.0, high=0.0, source=SOURCE, note="they block with CC off as well")
    return on.model_copy(update={"source": SOURCE})


def _factors(on: Profile, off: Profile) -> dict[str, AnyEntry]:
    found: dict[str, AnyEntry] = {}
    for factor, key in FACTORS.items():
        ours, theirs = getattr(on.nvlink, key), getattr(off.nvlink, key)
        if ours is not None and theirs is not None and theirs.value[-1] > 0.0:
            found[factor] = _factor(ours, theirs)
    return found


def _factor(on: SizeTable, off: SizeTable) -> Factor:
    size = min(on.bytes[-1], off.bytes[-1])

    def ratio(ours: Column, theirs: Column) -> float:
        with_cc, without = float(at(on, size, ours)), float(at(off, size, theirs))
        return min(max(1.0, with_cc / without), MAX_FACTOR) if without > 0.0 else MAX_FACTOR

    return Factor(
        value=ratio("value", "value"),
        low=ratio("low", "high"),
        high=ratio("high", "low"),
        source=SOURCE,
        note=f"at {size} bytes",
    )
