"""The state of the GPUs right before a recording: what NVML says, and how fast three reference loops ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cctrace.trace.documents import described, unknown_keys


@dataclass(frozen=True)
class ReferenceLoop:
    """Repeated runs of the same fixed work, timed by the host."""

    median_us: float = described("median of the repeats", unit="µs", default=0.0)
    low_us: float = described("10th percentile of the repeats", unit="µs", default=0.0)
    high_us: float = described("90th percentile of the repeats", unit="µs", default=0.0)
    repeats: int = described("repeats", default=0)
    work: int = described(
        "what one repeat does: fused multiply-adds, bytes read and written, or launches; only loops of the "
        "same work can be compared",
        default=0,
    )
    extra: Mapping[str, Any] = unknown_keys()

    @property
    def spread(self) -> float:
        """Distance of the 90th from the 10th percentile, as a share of the median."""
        return (self.high_us - self.low_us) / self.median_us if self.median_us > 0 else 0.0


@dataclass(frozen=True)
class GpuState:
    """One GPU: its state before the check touched it, its clocks under the compute loop, the loops."""

    index: int = described("position among the GPUs that the program can see", default=0)
    name: str | None = described("model")
    uuid: str | None = described("the board")
    compute_capability: str | None = described("compute capability")
    multiprocessors: int | None = described("multiprocessors (SMs)")
    sm_clock_mhz: int | None = described("SM clock before the check", unit="MHz")
    sm_clock_load_mhz: int | None = described("SM clock under the compute loop", unit="MHz")
    sm_clock_max_mhz: int | None = described("largest SM clock", unit="MHz")
    sm_clock_application_mhz: int | None = described("application clock of the SMs", unit="MHz")
    memory_clock_mhz: int | None = described("memory clock before the check", unit="MHz")
    memory_clock_load_mhz: int | None = described("memory clock under the compute loop", unit="MHz")
    memory_clock_max_mhz: int | None = described("largest memory clock", unit="MHz")
    memory_clock_application_mhz: int | None = described("application clock of the memory", unit="MHz")
    throttle_reasons: tuple[str, ...] | None = described(
        "what held the clocks down before the check; being idle does not count"
    )
    throttle_reasons_load: tuple[str, ...] | None = described(
        "what held the clocks down under the compute loop"
    )
    temperature_c: int | None = described("temperature", unit="°C")
    power_w: float | None = described("power drawn", unit="W")
    utilization_percent: int | None = described(
        "time in which kernels of other programs ran, over NVML's last period", unit="%"
    )
    memory_total_bytes: int | None = described("device memory", unit="bytes")
    memory_used_bytes: int | None = described("device memory in use before the check", unit="bytes")
    memory_reserved_bytes: int | None = described(
        "device memory of the driver, not in memory_used_bytes; null if NVML does not tell them apart",
        unit="bytes",
    )
    other_processes: int | None = described("other processes on the GPU")
    other_processes_bytes: int | None = described("device memory that they hold", unit="bytes")
    ecc_corrected: int | None = described("corrected memory errors since the driver was loaded")
    ecc_uncorrected: int | None = described("uncorrected memory errors since the driver was loaded")
    recovery_action: str | None = described("what the driver asks for", choices=("none", "reset", "reboot"))
    mig: bool | None = described("the GPU is partitioned (MIG)")
    persistence_mode: bool | None = described("the driver stays loaded while nothing uses the GPU")
    compute_mode: str | None = described(
        "who may use the GPU", choices=("default", "exclusive-process", "prohibited")
    )
    performance_state: int | None = described("performance state before the check: 0 is the fastest")
    compute: ReferenceLoop | None = field(
        default=None, metadata={"meaning": "a chain of fused multiply-adds on all multiprocessors"}
    )
    memory: ReferenceLoop | None = field(default=None, metadata={"meaning": "a copy of device memory"})
    launch: ReferenceLoop | None = field(
        default=None, metadata={"meaning": "launches of an empty kernel; times are per launch"}
    )
    missing: str | None = described("why loops were not measured; null if all were")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class StateCheck:
    """The check of all GPUs that the program can see."""

    version: int = described("version of the reference loops", default=0)
    duration_s: float | None = described("how long the check took", unit="s")
    missing: str | None = described("why the check is not complete; null if it is")
    findings: tuple[str, ...] = field(
        default=(), metadata={"meaning": "what looks stale or busy, and what to do about it"}
    )
    gpus: tuple[GpuState, ...] = field(default=(), metadata={"meaning": "one object a GPU"})
    extra: Mapping[str, Any] = unknown_keys()

    @property
    def measured(self) -> bool:
        """Whether at least one reference loop was timed."""
        return any(gpu.compute or gpu.memory or gpu.launch for gpu in self.gpus)
