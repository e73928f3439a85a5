"""What `record --emulate` charges: some causes of a profile, in the form that the collector reads.

A profile gives the charges of each cause; `--emulate-set` replaces some (`cctrace.profiles.overrides`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from cctrace.errors import UnusableInputError
from cctrace.profiles.charges import (
    FACTOR_KEYS,
    LATENCY_KEY,
    LAUNCH_KEYS,
    OVERLAP_KEY,
    PINNED_TABLE,
    TABLE_KEYS,
    Charge,
    Table,
    charge_text,
)
from cctrace.profiles.files import SUFFIX, load_profile
from cctrace.profiles.model import CAUSES, Entry, Profile, SizeTable
from cctrace.profiles.overrides import Override, apply, parse_override


@dataclass(frozen=True)
class Emulation:
    """The costs that are charged to a recorded program.

    Attributes:
        profile: name of the platform profile.
        causes: the causes that are charged, in the order of `CAUSES`.
        charges: key → what is charged. `*_us`: microseconds for one submission, for one peer
            (`peer_latency_us`), or a table over size; `*_factor`: time of a transfer between GPUs over its
            time without CC; `overlap`: 1 if pinned copies block.
    """

    profile: str
    causes: tuple[str, ...]
    charges: Mapping[str, Charge]

    def environment_value(self) -> str:
        """Returns the value of `CCTRACE_EMULATE`: comma-separated `key=value`."""
        return ",".join(f"{key}={charge_text(charge)}" for key, charge in self.charges.items())

    def to_json(self) -> dict[str, Any]:
        """Returns the metadata's `emulation`; a table is the text that `--emulate-set` takes."""
        values = {
            key: charge if isinstance(charge, float) else charge_text(charge)
            for key, charge in self.charges.items()
        }
        return {"profile": self.profile, "causes": list(self.causes), "values": values}


def parse_emulation(text: str, overrides: Sequence[str] = ()) -> Emulation:
    """Reads `PROFILE[:cause,…]` and the `cause.key=value` overrides of `--emulate-set`.

    Without causes, every cause is charged that the profile has values for; NVLink only where it is encrypted.
    A cause that is named although the profile has nothing for it needs an override that has.

    Raises:
        UnusableInputError: unknown profile, a profile of measurements, a cause that does not exist or costs
            nothing, a bad override.
    """
    name, wanted = _split(text)
    profile = load_profile(name)
    if profile.profile.kind != "tolls":
        raise UnusableInputError(
            f"--emulate: the profile {profile.name} holds what a machine takes, not what CC adds; "
            "make a profile of tolls with `cctrace calibrate --compare ON OFF -o FILE`"
        )
    changes = [parse_override(override) for override in overrides]
    causes = _default_causes(profile) if wanted is None else _named_causes(profile, wanted, changes)
    for change in changes:
        if change.cause not in causes:
            raise UnusableInputError(
                f"--emulate-set {change.text!r}: the cause {change.cause} is not among those emulated; "
                f"name it: --emulate {name}:{','.join((*causes, change.cause))}"
            )
    charges: dict[str, Charge] = {}
    for cause in causes:
        charges.update(_charges(profile, cause))
    for change in changes:
        apply(change, charges)
    for pageable, pinned in PINNED_TABLE.items():
        if pageable not in charges and pinned in charges:
            charges[pageable] = charges[pinned]
    ordered = {key: charges[key] for key in _ORDER if key in charges}
    return Emulation(profile.name, causes, MappingProxyType(ordered))


_ORDER: Final[tuple[str, ...]] = (*LAUNCH_KEYS, *TABLE_KEYS, OVERLAP_KEY, *FACTOR_KEYS, LATENCY_KEY)


def _split(text: str) -> tuple[str, tuple[str, ...] | None]:
    """Returns the name of the profile, and the causes if any are named."""
    name, colon, wanted = text.rpartition(":")
    if not colon or wanted.endswith(SUFFIX):
        return text, None
    causes = tuple(cause.strip() for cause in wanted.split(","))
    for cause in causes:
        if cause not in CAUSES:
            raise UnusableInputError(
                f"--emulate: there is no cause {cause!r}; causes are {', '.join(CAUSES)}"
            )
    return name, causes


def chargeable(profile: Profile) -> tuple[str, ...]:
    """Returns the causes that a profile has something to charge for; NVLink only where it is encrypted."""
    return tuple(cause for cause in CAUSES if _nothing_in(profile, cause) is None)


def _default_causes(profile: Profile) -> tuple[str, ...]:
    causes = chargeable(profile)
    if not causes:
        raise UnusableInputError(f"--emulate: the profile {profile.name} has nothing that can be emulated")
    return causes


def _named_causes(profile: Profile, wanted: tuple[str, ...], changes: Sequence[Override]) -> tuple[str, ...]:
    given = {change.cause for change in changes}
    for cause in wanted:
        nothing = _nothing_in(profile, cause)
        if nothing is not None and cause not in given:
            raise UnusableInputError(
                f"--emulate: {nothing}; give values with --emulate-set {cause}.KEY=VALUE"
            )
    return tuple(cause for cause in CAUSES if cause in wanted)


def _nothing_in(profile: Profile, cause: str) -> str | None:
    """Returns why a cause cannot be charged; None if it can."""
    encrypted = profile.nvlink.encrypted
    if cause == "nvlink" and encrypted is not None and encrypted.value == 0.0:
        return f"the profile {profile.name} says that NVLink is not encrypted, so it costs nothing"
    if not _charges(profile, cause):
        return f"the profile {profile.name} has no values for the cause {cause}"
    return None


def _charges(profile: Profile, cause: str) -> dict[str, Charge]:
    """Returns what a profile charges for one cause; empty if it has nothing for it."""
    entries = profile.entries(cause)
    if cause == "launch":
        found = {key: entry.value for key in LAUNCH_KEYS if isinstance(entry := entries.get(key), Entry)}
        return {key: found.get(key, 0.0) for key in LAUNCH_KEYS} if found else {}
    if cause == "pcie":
        tables = ((key, entries.get(key)) for key in TABLE_KEYS)
        return {key: Table(entry.bytes, entry.value) for key, entry in tables if isinstance(entry, SizeTable)}
    if cause == "overlap":
        rule = profile.overlap.pinned_copies_block
        return {OVERLAP_KEY: 1.0} if rule is not None and rule.value == 1.0 else {}
    keys = (*FACTOR_KEYS, LATENCY_KEY)
    return {key: entry.value for key in keys if isinstance(entry := entries.get(key), Entry)}
