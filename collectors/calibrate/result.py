"""What a calibration found: each quantity with its spread, less what calling the driver from Python costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from cctrace.collectors.calibrate.probes import BEHIND, BLOCKED_SHARE, BUSY_US
from cctrace.collectors.calibrate.sampling import Quantity, Samples, Spread, spread
from cctrace.collectors.environment.snapshot import Snapshot

CcState = Literal["on", "off", "devtools", "emulated", "unknown"]
STATES: Final[Mapping[str, CcState]] = MappingProxyType(
    {"on": "on", "off": "off", "devtools": "devtools", "emulated": "emulated", "unknown": "unknown"}
)


@dataclass(frozen=True)
class Measured:
    """One quantity.

    Attributes:
        us: microseconds without what Python and the clock cost.
        raw: microseconds as the clock showed them.
        bare: microseconds of the same with calls that do nothing, whose median was taken off; None: nothing
            was to be taken off.
        repeats: number of samples.
    """

    us: Spread
    raw: Spread
    bare: Spread | None
    repeats: int

    def to_json(self) -> dict[str, float]:
        """Returns the numbers as JSON types."""
        ranges = {"": self.us, "raw_": self.raw, **({"bare_": self.bare} if self.bare else {})}
        spreads = {
            f"{prefix}{key}_us": number
            for prefix, one in ranges.items()
            for key, number in asdict(one).items()
        }
        return {**spreads, "repeats": self.repeats}


@dataclass(frozen=True)
class Gpu:
    """What one GPU says, and what it does with page-locked memory.

    Attributes:
        host_register_error: code with which existing memory cannot be page-locked; 0: it can.
    """

    index: int
    name: str
    multicast: bool
    pinned_reported_pinned: bool
    host_register_error: int


@dataclass(frozen=True)
class Calibration:
    """All that was found.

    Attributes:
        gpus: the GPUs that were measured by themselves.
        visible: GPUs that the driver shows.
        linked: GPUs between which transfers were measured, 0 if none were.
        cc: state of CC; emulated: a recorder charged the tolls of `emulated` meanwhile.
        emulated: those tolls as the emulator reads them, None outside of `record --emulate`.
        cuda: CUDA version of the driver.
        nccl: version of NCCL, None if it was not used.
        samples: quantity → nanoseconds.
        bare: quantity → nanoseconds of the same with calls that do nothing.
        rounds: rounds made on each GPU.
        notes: what was left out, and what to know about the numbers.
    """

    gpus: tuple[Gpu, ...]
    visible: int
    linked: int
    cc: CcState
    emulated: str | None
    cuda: str
    nccl: str | None
    snapshot: Snapshot
    samples: Samples
    bare: Samples
    rounds: int
    notes: tuple[str, ...]

    def measured(self) -> dict[Quantity, Measured]:
        """Returns everything that has a place in a profile, in the order of cause, key and size."""
        found = {}
        for quantity in sorted(self.samples, key=lambda one: (one.cause, one.key, one.bytes or 0)):
            if quantity.cause != BEHIND:
                samples = self.samples[quantity]
                raw = spread(samples)
                bare = spread(self.bare[quantity]) if quantity in self.bare else None
                found[quantity] = Measured(raw.less(bare) if bare else raw, raw, bare, len(samples))
        return found

    def binding(self) -> tuple[float, float]:
        """Returns the least and the most that Python costs in one submission, in microseconds."""
        found = [
            one.bare.value
            for quantity, one in self.measured().items()
            if quantity.cause == "launch" and one.bare is not None
        ]
        return min(found), max(found)

    def blocks(self) -> dict[str, bool]:
        """Returns path of a copy → whether a small one waits for earlier work of its stream."""
        return {
            quantity.key: spread(samples).value >= BLOCKED_SHARE * BUSY_US
            for quantity, samples in self.samples.items()
            if quantity.cause == BEHIND
        }

    def to_json(self) -> dict[str, Any]:
        """Returns everything but the single samples, as JSON types."""
        snapshot = self.snapshot
        return {
            "cc": self.cc,
            "emulated": self.emulated,
            "confidential_computing": snapshot.confidential.to_json(),
            "gpus": [asdict(gpu) for gpu in self.gpus],
            "gpus_visible": self.visible,
            "gpus_linked": self.linked,
            "driver": snapshot.driver,
            "cuda": self.cuda,
            "nccl": self.nccl,
            "machine": snapshot.machine.to_json(),
            "rounds": self.rounds,
            "waits_for_earlier_work": self.blocks(),
            "measured": [
                {**quantity._asdict(), **one.to_json()} for quantity, one in self.measured().items()
            ],
            "notes": list(self.notes),
        }
