"""Measured profiles side by side: two states of one machine, or one machine and a published platform."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from cctrace.errors import UnusableInputError
from cctrace.profiles.model import AnyEntry, Entry, Factor, Profile, Rule, SizeTable
from cctrace.profiles.tables import at

Unit = Literal["µs", "GB/s", ""]

LAUNCH: Final = MappingProxyType(
    {
        "kernel_us": "submit one kernel",
        "graph_us": "replay a graph of 1 node",
        "graph_64_us": "replay a graph of 64 nodes",
        "graph_512_us": "replay a graph of 512 nodes",
        "copy_us": "submit a 64 B device copy",
        "memset_us": "submit a memset",
        "event_us": "record an event",
        "sync_us": "synchronize without work",
    }
)
"""Key of a profile → the operation, in the words of the published table."""

PATHS: Final = MappingProxyType(
    {
        "h2d": "H2D pinned",
        "d2h": "D2H pinned",
        "h2d_pageable": "H2D pageable",
        "d2h_pageable": "D2H pageable",
        "d2d": "inside the device",
    }
)
TRANSFERS: Final = MappingProxyType(
    {
        "peer_read_us": "copy engine, one-way read",
        "peer_copy_us": "copy engine, one-way write",
        "kernel_read_us": "read by SM",
        "all_reduce_us": "NCCL all-reduce (bus)",
        "all_to_all_us": "NCCL all-to-all (bus)",
    }
)
RULES: Final = MappingProxyType(
    {
        ("overlap", "pinned_copies_block"): "pinned copies wait for earlier work",
        ("overlap", "pinned_reported_pinned"): "pinned memory is reported as pinned",
        ("overlap", "host_register_works"): "existing memory can be page-locked",
        ("nvlink", "encrypted"): "NVLink is encrypted",
        ("nvlink", "multicast"): "the device can multicast",
    }
)

ON_STATES: Final = ("on", "devtools", "emulated")
DEFAULT_PLATFORM: Final = "b200-tdx"
_DEFAULT_TEE: Final = "tdx"

BLOCKED_SHARE: Final = 0.8
"""A call that returns only after so much of the copy's time has blocked: on H20 with CC 98 % of 64 MB passed
before the call returned, and 17 % of 4 KB."""
SYNCHRONIZATIONS: Final = 1.5
"""No more left after the call than so many synchronizations without work: nothing was left of the copy."""
_US_PER_MS: Final = 1e3
_SAME_MODEL: Final = 4
_SAME_FAMILY: Final = 2


@dataclass(frozen=True)
class Range:
    """A value and the range in which it was found."""

    value: float
    low: float
    high: float

    def overlaps(self, other: Range) -> bool:
        """True if the two ranges have a part in common."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class Line:
    """One quantity in both states.

    Attributes:
        table: launch, pcie, nvlink or rules.
        name: what it is.
        bytes: size of the copy or collective; None if it has none.
        unit: of `off` and `on`; rules have none.
    """

    table: str
    name: str
    bytes: int | None
    unit: Unit
    off: Range
    on: Range

    @property
    def within_spread(self) -> bool:
        """True if the ranges overlap: repeats differ as much as the two states do."""
        return self.off.overlaps(self.on)

    @property
    def difference(self) -> float:
        """On − off, in `unit`."""
        return self.on.value - self.off.value

    @property
    def ratio(self) -> float | None:
        """On ÷ off; None if off is zero."""
        return self.on.value / self.off.value if self.off.value else None

    def to_json(self) -> dict[str, Any]:
        """Returns the line as JSON types."""
        return {
            **asdict(self),
            "on_minus_off": self.difference,
            "on_over_off": self.ratio,
            "within_spread": self.within_spread,
        }


@dataclass(frozen=True)
class Comparison:
    """Two measured profiles.

    Attributes:
        null_test: both were measured in the same state: what differs is noise.
        warnings: what else differs than the state.
        lines: what both have.
    """

    on: Profile
    off: Profile
    null_test: bool
    warnings: tuple[str, ...]
    lines: tuple[Line, ...]

    def of(self, table: str) -> list[Line]:
        """Returns the lines of one table."""
        return [line for line in self.lines if line.table == table]

    def to_json(self) -> dict[str, Any]:
        """Returns the comparison as JSON types."""
        heads = {
            "on": self.on.profile.model_dump(mode="json"),
            "off": self.off.profile.model_dump(mode="json"),
        }
        return {
            **heads,
            "null_test": self.null_test,
            "warnings": list(self.warnings),
            "lines": [line.to_json() for line in self.lines],
        }


def compare(on: Profile, off: Profile) -> Comparison:
    """Puts two measured profiles side by side.

    Two of the same state are a null test.

    Raises:
        UnusableInputError: one of them holds no measurement, or they are swapped.
    """
    for one in (on, off):
        if one.profile.kind != "measured":
            raise UnusableInputError(
                f"the profile {one.name} holds tolls: --compare takes two that `cctrace calibrate -o` wrote"
            )
    if on.profile.cc == "off" and off.profile.cc in ON_STATES:
        raise UnusableInputError(
            f"{on.name} was measured with CC off and {off.name} with CC {off.profile.cc}: "
            "give the one with CC on first"
        )
    null_test = on.profile.cc == off.profile.cc and on.profile.cc != "unknown"
    lines = (*_launch(on, off), *_pcie(on, off), *_nvlink(on, off), *_rules(on, off))
    return Comparison(on, off, null_test, tuple(_warnings(on, off)), lines)


def _warnings(on: Profile, off: Profile) -> Iterator[str]:
    first, second = on.profile, off.profile
    for one in (on, off):
        if one.profile.cc == "unknown":
            yield f"{one.name}: the state of CC is not known"
    for field in ("gpu", "gpus", "driver", "cuda", "nccl", "machine", "tee"):
        ours, theirs = getattr(first, field), getattr(second, field)
        if ours != theirs:
            yield f"{field} differs: {ours or 'not known'} (on), {theirs or 'not known'} (off)"


def _launch(on: Profile, off: Profile) -> Iterator[Line]:
    for key, name in LAUNCH.items():
        alone = key.replace("_us", "_isolated_us")
        for one, manner in ((key, ""), (alone, ", GPU idle")):
            ours, theirs = _entry(on, "launch", one), _entry(off, "launch", one)
            if ours and theirs:
                yield Line("launch", name + manner, None, "µs", _range(theirs), _range(ours))


def _entry(profile: Profile, cause: str, key: str) -> Entry | None:
    found = profile.entries(cause).get(key)
    return found if isinstance(found, Entry) else None


def _table(profile: Profile, cause: str, key: str) -> SizeTable | None:
    found = profile.entries(cause).get(key)
    return found if isinstance(found, SizeTable) else None


def _range(entry: Entry | Rule) -> Range:
    return Range(entry.value, entry.low, entry.high)


def node(table: SizeTable, size: int) -> Range:
    """Returns microseconds at a size; between nodes as `cctrace.profiles.tables` interpolates."""
    return Range(*(float(at(table, size, column)) for column in ("value", "low", "high")))


def _both(on: Profile, off: Profile, cause: str, key: str) -> tuple[SizeTable, SizeTable, list[int]] | None:
    """Returns two tables and the sizes that both have."""
    ours, theirs = _table(on, cause, key), _table(off, cause, key)
    if ours is None or theirs is None:
        return None
    return ours, theirs, [size for size in ours.bytes if size in theirs.bytes]


def _pcie(on: Profile, off: Profile) -> Iterator[Line]:
    names = {**PATHS, "host_alloc": "page-locked allocation"}
    for path, name in names.items():
        found = _both(on, off, "pcie", f"{path}_us")
        if found is not None:
            ours, theirs, sizes = found
            for size in sizes:
                yield Line("pcie", name, size, "µs", node(theirs, size), node(ours, size))


def _nvlink(on: Profile, off: Profile) -> Iterator[Line]:
    for key, name in TRANSFERS.items():
        found = _both(on, off, "nvlink", key)
        if found is not None and found[2]:
            ours, theirs, sizes = found
            size = sizes[-1]
            share = bus_share(key, on.profile.gpus or 1)
            rates = [rate(node(table, size), size, share) for table in (theirs, ours)]
            yield Line("nvlink", name, size, "GB/s", *rates)
    ours_entry, theirs_entry = (_entry(one, "nvlink", "peer_latency_us") for one in (on, off))
    if ours_entry and theirs_entry:
        yield Line("nvlink", "small P2P write", None, "µs", _range(theirs_entry), _range(ours_entry))


def _rules(on: Profile, off: Profile) -> Iterator[Line]:
    for (cause, key), name in RULES.items():
        ours, theirs = on.entries(cause).get(key), off.entries(cause).get(key)
        if isinstance(ours, Rule) and isinstance(theirs, Rule):
            yield Line("rules", name, None, "", _range(theirs), _range(ours))


def rate(us: Range, size: int, share: float = 1.0) -> Range:
    """Returns GB/s (10⁹ bytes a second) from microseconds; the ends of the range change places."""
    # A rate of zero stands for a time too short to be told from none.
    value, high, low = (
        size * share / (time * _US_PER_MS) if time > 0 else 0.0 for time in (us.value, us.low, us.high)
    )
    return Range(value, min(low, value), max(high, value))


def bus_share(key: str, ranks: int) -> float:
    """Returns what crosses the busiest link ÷ bytes of one rank, as NCCL's own tests count it."""
    if key == "all_reduce_us":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if key == "all_to_all_us" else 1.0


def blocking(profile: Profile, path: str) -> dict[int, bool]:
    """Returns size → whether the call of a copy returns only when the copy is done; empty: not measured."""
    whole, call = _table(profile, "pcie", f"{path}_us"), _table(profile, "pcie", f"{path}_call_us")
    if whole is None or call is None or whole.bytes != call.bytes:
        return {}
    sync = profile.launch.sync_us.value if profile.launch.sync_us else 0.0
    nodes = zip(whole.bytes, whole.value, call.value, strict=True)
    return {
        size: taken >= BLOCKED_SHARE * complete or complete - taken <= SYNCHRONIZATIONS * sync
        for size, complete, taken in nodes
    }


@dataclass(frozen=True)
class Published:
    """What a platform's profile says of one quantity; None where it does not.

    Attributes:
        off: time with CC off.
        on: time with CC on.
        toll: what CC adds; a factor if `factor`.
    """

    off: float | None = None
    on: float | None = None
    toll: float | None = None
    factor: bool = False


def published(platform: Profile, cause: str, key: str, size: int | None = None) -> Published:
    """Returns what a profile says of a quantity; a measured one has the state that it was measured in."""
    entry = platform.entries(cause).get(key)
    if entry is None or isinstance(entry, Rule):
        return Published()
    value = _number(entry, size, entry.value)
    if platform.profile.kind == "tolls":
        numbers = [_number(entry, size, numbers) for numbers in (entry.off, entry.on)]
        return Published(numbers[0], numbers[1], value, isinstance(entry, Factor))
    if platform.profile.cc == "off":
        return Published(off=value)
    return Published(on=value) if platform.profile.cc in ON_STATES else Published()


def _number(entry: AnyEntry, size: int | None, numbers: float | Sequence[float] | None) -> float | None:
    if numbers is None or isinstance(numbers, int | float):
        return numbers
    if size is None or not isinstance(entry, SizeTable):
        return None
    return float(at(entry.model_copy(update={"value": tuple(numbers)}), size))


def nearest(gpu: str, tee: str, platforms: Iterable[Profile]) -> Profile:
    """Returns the platform that resembles a machine most: its GPU's model, then its family, then the TEE.

    Args:
        gpu: model of the GPU, as the driver names it.
        tee: tdx, sev-snp, none or unknown.
        platforms: at least `DEFAULT_PLATFORM`, which is taken if none resembles the machine.
    """
    wanted = tee if tee not in ("none", "unknown") else _DEFAULT_TEE

    def likeness(platform: Profile) -> int:
        same = _models(gpu) & _models(platform.profile.gpu)
        related = {model[0] for model in _models(gpu)} & {model[0] for model in _models(platform.profile.gpu)}
        if not related:
            return int(platform.name == DEFAULT_PLATFORM)
        return (_SAME_MODEL if same else _SAME_FAMILY) + (platform.profile.tee == wanted)

    # Of equals the first, in the order in which they are listed.
    return max([one for one in platforms if one.profile.kind == "tolls" and one.name != "zero"], key=likeness)


def _models(gpu: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]{1,2}\d{2,4}\b", gpu.upper()))
