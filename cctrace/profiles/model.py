"""The profile document: what one platform costs, each value with its range and its source.

A profile is of one of two kinds. `tolls` holds what CC adds (time with CC on minus time with CC off);
`measured` holds what one machine takes in one state of CC. Both have the same tables and keys, which
docs/profiles.md lists.

    about = {"gpu": "NVIDIA H200", "tee": "none", "cc": "off", "sources": ("here: one run",)}
    profile = Profile(
        profile=Head(name="mine", kind="measured", **about),
        launch=Launch(kernel_us=Entry(value=3.4, low=3.3, high=3.6, source="here")),
        pcie=Pcie(h2d_us=SizeTable(bytes=(64,), value=(4.3,), low=(4.2,), high=(4.5,), source="here")),
    )

Every model is frozen, refuses unknown keys, and raises `pydantic.ValidationError` for values that cannot be
true; `cctrace.profiles.files` reads and writes documents and turns such errors into one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date as calendar_date
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

if TYPE_CHECKING:
    from typing_extensions import Self

CAUSES: Final = ("launch", "pcie", "overlap", "nvlink")
"""The causes into which the cost of CC is split; each is a table of the document."""

WITHOUT_LAUNCH: Final = ("pcie.h2d_us", "pcie.d2h_us", "pcie.h2d_pageable_us", "pcie.d2h_pageable_us")
"""Tables that hold the time of a whole copy, of which the cause launch has its own part."""

MAX_NODES: Final = 32
"""Nodes of a table over size: three times what 64 B to 64 MB need at one node for each factor of 4. The
collector reads no more."""
MAX_US: Final = 1e8
"""100 s for one call: beyond it a time is a slip of the unit."""
MAX_BYTES: Final = 2**40
"""1 TiB in one copy: no GPU holds as much."""
MAX_FACTOR: Final = 100.0
"""A transfer that takes 100 times as long is another transfer."""
MAX_SOURCES: Final = 32

_ROUNDING: Final = 0.002
"""Values are written with three or four digits: the difference of two may be off by so much of their sum."""
_ROUNDING_US: Final = 0.02

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", strict=True)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=500, strict=True)]
Note = Annotated[str, StringConstraints(max_length=2000, strict=True)]
Number = Annotated[float, Field(ge=0.0, le=MAX_US, allow_inf_nan=False, strict=True)]
Ratio = Annotated[float, Field(ge=1.0, le=MAX_FACTOR, allow_inf_nan=False, strict=True)]
Bytes = Annotated[int, Field(ge=1, le=MAX_BYTES, strict=True)]
Numbers = Annotated[tuple[Number, ...], Field(min_length=1, max_length=MAX_NODES)]
Switch = Annotated[float, Field(ge=0.0, le=1.0, multiple_of=1.0, strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Ranged(_Part):
    """A single number with its range and source."""

    value: float
    low: float
    high: float
    source: Text
    note: Note = ""

    @model_validator(mode="after")
    def _range(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise ValueError("low ≤ value ≤ high does not hold")
        return self


class Entry(_Ranged):
    """One number, in the unit at the end of its key: `_us` microseconds; `_factor` has none.

    Attributes:
        value: the best single value.
        low: lower end of the range in which the true value may lie; of repeats, the lower spread.
        high: upper end of it.
        source: who published or measured it.
        note: how value and range were derived.
        off: the published absolute with CC off that `value` came from.
        on: the same with CC on. Of a time `value` = on − off; of a factor both are rates in
            GB/s, and `value` = off ÷ on.
    """

    value: Number
    low: Number
    high: Number
    off: Number | None = None
    on: Number | None = None


class Factor(Entry):
    """Time with CC on ÷ time with CC off of one transfer, at least 1."""

    value: Ratio
    low: Ratio
    high: Ratio


class Rule(_Ranged):
    """What holds (1) or does not hold (0) on a platform. A range of 0 to 1: it is not sure."""

    value: Switch
    low: Switch
    high: Switch


class SizeTable(_Part):
    """Microseconds over size. All lists are of one length, which is at most `MAX_NODES`.

    Attributes:
        bytes: sizes of the nodes, ascending.
        value: microseconds at each node; `cctrace.profiles.tables.interpolate` says what holds between them.
        low: lower ends of the ranges.
        high: upper ends of them.
        source: who published or measured it.
        note: how values and ranges were derived.
        off: the published absolutes with CC off, in microseconds.
        on: the same with CC on.
    """

    bytes: Annotated[tuple[Bytes, ...], Field(min_length=1, max_length=MAX_NODES)]
    value: Numbers
    low: Numbers
    high: Numbers
    source: Text
    note: Note = ""
    off: Numbers | None = None
    on: Numbers | None = None

    @model_validator(mode="after")
    def _lists(self) -> SizeTable:
        for key in ("value", "low", "high", "off", "on"):
            numbers = getattr(self, key)
            if numbers is not None and len(numbers) != len(self.bytes):
                raise ValueError(f"{key} has {len(numbers)} numbers for {len(self.bytes)} sizes in bytes")
        if any(later <= size for size, later in zip(self.bytes, self.bytes[1:], strict=False)):
            raise ValueError("the sizes in bytes do not ascend")
        for size, low, value, high in zip(self.bytes, self.low, self.value, self.high, strict=True):
            if not low <= value <= high:
                raise ValueError(f"low ≤ value ≤ high does not hold at {size} bytes")
        return self


class Launch(_Part):
    """What the calling thread spends on one submission, in microseconds.

    The first five are those that `record --emulate` charges. The others are for information: graphs of 64
    and 512 nodes, a synchronization with nothing submitted, and each kind by itself (`_isolated`: the GPU was
    idle before it) where the plain key is back to back.
    """

    kernel_us: Entry | None = None
    graph_us: Entry | None = None
    copy_us: Entry | None = None
    memset_us: Entry | None = None
    event_us: Entry | None = None
    graph_64_us: Entry | None = None
    graph_512_us: Entry | None = None
    sync_us: Entry | None = None
    kernel_isolated_us: Entry | None = None
    graph_isolated_us: Entry | None = None
    graph_64_isolated_us: Entry | None = None
    graph_512_isolated_us: Entry | None = None
    copy_isolated_us: Entry | None = None
    memset_isolated_us: Entry | None = None
    event_isolated_us: Entry | None = None


class Pcie(_Part):
    """Copies over PCIe by size, in microseconds from the call to the end of the copy.

    In a profile of tolls the launch toll of the copy (`launch.copy_us`) is not contained. `h2d`: host to
    device, `d2h`: device to host, pinned memory unless the key says pageable; a missing pageable table is
    that of pinned memory. `host_alloc_us`: allocation of page-locked memory. For information: copies inside
    the device (`d2d_us`), and the time until the call returned (`_call_us`): all of it where a copy blocks.
    """

    h2d_us: SizeTable | None = None
    d2h_us: SizeTable | None = None
    h2d_pageable_us: SizeTable | None = None
    d2h_pageable_us: SizeTable | None = None
    host_alloc_us: SizeTable | None = None
    d2d_us: SizeTable | None = None
    h2d_call_us: SizeTable | None = None
    d2h_call_us: SizeTable | None = None
    h2d_pageable_call_us: SizeTable | None = None
    d2h_pageable_call_us: SizeTable | None = None
    d2d_call_us: SizeTable | None = None


class Overlap(_Part):
    """How copies of page-locked memory behave.

    Attributes:
        pinned_copies_block: asynchronous copies between the device and pinned memory return only when their
            stream is drained.
        pinned_reported_pinned: memory that was allocated page-locked is reported as such, not as managed
            memory.
        host_register_works: memory of the program can be page-locked afterwards.
    """

    pinned_copies_block: Rule | None = None
    pinned_reported_pinned: Rule | None = None
    host_register_works: Rule | None = None


class Nvlink(_Part):
    """Transfers between GPUs.

    Attributes:
        encrypted: NVLink is encrypted under CC.
        multicast: the device can multicast (what NVLS needs).
        collective_factor: time on ÷ time off of a collective's transfer. Only in profiles of tolls, like the
            next two.
        all_to_all_factor: the same for all-to-all; without it, `collective_factor` does NOT apply.
        peer_copy_factor: the same for a copy from one GPU to another.
        peer_latency_us: latency for each peer: a collective of n ranks has n − 1 of them, a peer copy one.
            Measured: a small write to another GPU.
        peer_copy_us: a copy from one GPU to another by size.
        peer_read_us: the same, by the copy engine of the GPU that receives; for information, like the next.
        kernel_read_us: a kernel that reads the memory of another GPU.
        all_reduce_us: an all-reduce over all GPUs of the machine, by bytes of one rank.
        all_to_all_us: an all-to-all over all GPUs of the machine, by bytes of one rank.
    """

    encrypted: Rule | None = None
    multicast: Rule | None = None
    collective_factor: Factor | None = None
    all_to_all_factor: Factor | None = None
    peer_copy_factor: Factor | None = None
    peer_latency_us: Entry | None = None
    peer_copy_us: SizeTable | None = None
    peer_read_us: SizeTable | None = None
    kernel_read_us: SizeTable | None = None
    all_reduce_us: SizeTable | None = None
    all_to_all_us: SizeTable | None = None


class Head(_Part):
    """The table `[profile]`: what the numbers are about.

    Attributes:
        name: short name, as in the file's.
        title: one line for people; default: the name.
        kind: `tolls` (what CC adds) or `measured` (what a machine takes).
        gpu: model of the GPU.
        tee: what protects the CPU's side: tdx, sev-snp, none, unknown.
        sources: what the abbreviations in `source` stand for.
        cc: state of CC while measuring, only in measured profiles. `emulated`: under `record --emulate`.
        date: day of the measurement, ISO 8601.
        gpus: number of GPUs that took part.
        machine: CPU, virtual machine, NUMA placement, whatever tells one machine from another.
    """

    name: Name
    title: Text = "no title"
    kind: Literal["tolls", "measured"]
    gpu: Text
    tee: Text
    sources: Annotated[tuple[Text, ...], Field(min_length=1, max_length=MAX_SOURCES)]
    cc: Literal["on", "off", "devtools", "emulated", "unknown"] | None = None
    date: Text | None = None
    driver: Text | None = None
    cuda: Text | None = None
    nccl: Text | None = None
    gpus: Annotated[int, Field(ge=1, le=1024, strict=True)] | None = None
    machine: Text | None = None
    created_by: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _title_is_the_name(cls, document: Any) -> Any:
        if isinstance(document, dict) and "title" not in document and "name" in document:
            return {**document, "title": document["name"]}
        return document

    @field_validator("date", mode="before")
    @classmethod
    def _text_of_a_date(cls, day: Any) -> Any:
        """TOML has dates of its own; one without quotes means the same."""
        return day.isoformat() if isinstance(day, calendar_date) else day

    @model_validator(mode="after")
    def _state(self) -> Head:
        if self.kind == "measured" and self.cc is None:
            raise ValueError("a measured profile needs cc: the state of CC while measuring")
        if self.kind == "tolls" and self.cc is not None:
            raise ValueError("a profile of tolls has no cc: it is the difference of on and off")
        return self


AnyEntry = Entry | Rule | SizeTable


class Profile(_Part):
    """A whole profile."""

    profile: Head
    launch: Launch = Launch()
    pcie: Pcie = Pcie()
    overlap: Overlap = Overlap()
    nvlink: Nvlink = Nvlink()

    @property
    def name(self) -> str:
        """The profile's short name."""
        return self.profile.name

    def entries(self, cause: str) -> Mapping[str, AnyEntry]:
        """Returns key → entry of one cause, without those that the profile does not have."""
        part = getattr(self, cause)
        found = {key: getattr(part, key) for key in type(part).model_fields}
        return MappingProxyType({key: entry for key, entry in found.items() if entry is not None})

    def all_entries(self) -> Iterator[tuple[str, str, AnyEntry]]:
        """Yields cause, key and entry of everything that the profile has."""
        for cause in CAUSES:
            for key, entry in self.entries(cause).items():
                yield cause, key, entry

    @model_validator(mode="after")
    def _consistent(self) -> Profile:
        measured = self.profile.kind == "measured"
        for cause, key, entry in self.all_entries():
            where = f"{cause}.{key}"
            if isinstance(entry, Rule):
                continue
            if measured and isinstance(entry, Factor):
                raise ValueError(f"{where} compares on with off: it belongs to a profile of tolls")
            if measured and (entry.on is not None or entry.off is not None):
                raise ValueError(
                    f"{where}: on and off belong to a profile of tolls; a measured one has value"
                )
            self._check_absolutes(where, entry)
        return self

    def _check_absolutes(self, where: str, entry: Entry | SizeTable) -> None:
        """Raises `ValueError` if a value is not what its published absolutes say."""
        if entry.on is None or entry.off is None:
            return
        if isinstance(entry, SizeTable):
            launch = self.launch.copy_us.value if where in WITHOUT_LAUNCH and self.launch.copy_us else 0.0
            nodes = zip(entry.bytes, entry.value, entry.off, entry.on, strict=True)
            for size, value, off, on in nodes:
                if not _close(value, max(0.0, on - off - launch), on + off):
                    less = f" − launch.copy_us ({launch:g})" if launch else ""
                    raise ValueError(
                        f"{where} at {size} bytes: {value:g} is not on − off{less} ({on:g} − {off:g})"
                    )
        elif isinstance(entry, Factor):
            if entry.on == 0.0 or not _close(entry.value, entry.off / entry.on, entry.value):
                raise ValueError(f"{where}: {entry.value:g} is not off ÷ on ({entry.off:g} ÷ {entry.on:g})")
        elif not _close(entry.value, max(0.0, entry.on - entry.off), entry.on + entry.off):
            raise ValueError(f"{where}: {entry.value:g} is not on − off ({entry.on:g} − {entry.off:g})")


def name_from(text: str, default: str = "mine") -> str:
    """Returns a profile's name made of any text, such as the stem of a file."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64] or default


def _close(value: float, expected: float, scale: float) -> bool:
    return abs(value - expected) <= _ROUNDING * scale + _ROUNDING_US
