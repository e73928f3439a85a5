"""What a calibration found: each quantity with its spread, less what calling the driver from Python costs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from cctrace.collectors.calibrate.probes import BARE, BEHIND, BLOCKED_SHARE, BUSY_US, QUESTION
from cctrace.collectors.calibrate.sampling import Quantity, Samples, Spread, spread
from cctrace.collectors.environment.snapshot import Snapshot

CcState = Literal["on", "off", "devtools", "emulated", "unknown"]
STATES: Final[Mapping[str, CcState]] = MappingProxyType(
    {"on": "on", "off": "off", "devtools": "devtools", "emulated": "emulated", "unknown": "unknown"}
)

_NS_PER_US: Final = 1e3
_NO_CAUSE: Final = (BARE, BEHIND, QUESTION)
"""What is measured for the sake of other quantities."""


@dataclass(frozen=True)
class Measured:
    """One quantity.

    Attributes:
        us: microseconds without the cost of the binding.
        raw: microseconds as the clock showed them.
        binding_us: what was taken off.
        repeats: number of samples.
    """

    us: Spread
    raw: Spread
    binding_us: float
    repeats: int

    def to_json(self) -> dict[str, float]:
        """Returns the numbers as JSON types."""
        ranges = {"": self.us, "raw_": self.raw}
        spreads = {
            f"{prefix}{key}_us": number
            for prefix, one in ranges.items()
            for key, number in asdict(one).items()
        }
        return {**spreads, "binding_us": self.binding_us, "repeats": self.repeats}


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
        shapes: quantity → shape of the submission that was timed.
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
    shapes: Mapping[Quantity, str]
    rounds: int
    notes: tuple[str, ...]

    def bindings(self) -> dict[str, float]:
        """Returns shape of a submission → microseconds that calling it from Python costs.

        It is the time of a call that the driver turns down, less what turning down costs, which is known from
        one question that was asked both ways. What is left is too large by at most the work of answering,
        some 0.1 µs.
        """
        refusal = max(0.0, self._median(QUESTION, "refused") - self._median(QUESTION, "answered"))
        return {
            quantity.key: max(0.0, self._median(*quantity[:2]) - refusal)
            for quantity in self.samples
            if quantity.cause == BARE
        }

    def measured(self) -> dict[Quantity, Measured]:
        """Returns everything that has a place in a profile, in the order of cause, key and size."""
        bindings = self.bindings()
        # The driver has accepted what it should turn down: all that is known is that no call costs less.
        least = min(bindings.values(), default=0.0)
        found = {}
        for quantity in sorted(self.samples, key=lambda one: (one.cause, one.key, one.bytes or 0)):
            if quantity.cause not in _NO_CAUSE:
                samples = self.samples[quantity]
                raw = spread(samples)
                shape = self.shapes.get(quantity)
                binding = 0.0 if shape is None else bindings.get(shape, least)
                found[quantity] = Measured(raw.less(binding), raw, binding, len(samples))
        return found

    def blocks(self) -> dict[str, bool]:
        """Returns path of a copy → whether a small one waits for earlier work of its stream."""
        return {
            quantity.key: self._median(*quantity[:2]) >= BLOCKED_SHARE * BUSY_US
            for quantity in self.samples
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
            "binding_us": self.bindings(),
            "waits_for_earlier_work": self.blocks(),
            "measured": [
                {**quantity._asdict(), **one.to_json()} for quantity, one in self.measured().items()
            ],
            "notes": list(self.notes),
        }

    def _median(self, cause: str, key: str) -> float:
        return _median_us(self.samples.get(Quantity(cause, key), ()))


def _median_us(nanoseconds: Sequence[float]) -> float:
    return statistics.median(nanoseconds) / _NS_PER_US if nanoseconds else 0.0
