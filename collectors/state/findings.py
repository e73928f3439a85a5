"""What looks stale or busy in a state check, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cctrace.collectors.state.readings import BUSY_PERCENT
from cctrace.trace.state_check import GpuState, ReferenceLoop, StateCheck

MAX_IDLE_MEMORY_BYTES: Final = 256 << 20
"""Memory in use before we started. An idle driver holds a few MB beside its reserve; a CUDA context alone
takes 300 MB and more."""
MAX_IDLE_MEMORY_AND_RESERVE_BYTES: Final = 1 << 30
"""The same where NVML does not tell the driver's reserve apart: that is 615 MiB on an H200."""
MIN_CLOCK_SHARE: Final = 0.9
"""SM clock under load ÷ largest clock. A GPU that is free to boost stays within a few percent of its largest
clock in the reference loop; a locked, capped or hot one does not."""
MAX_SPREAD: Final = 0.03
"""Distance of the 90th from the 10th percentile of the repeats ÷ median. The repeats of an idle GPU agree to
well under 1 %; a neighbour's time slices are milliseconds, as long as a repeat."""
MAX_COMPUTE_EXCESS: Final = 0.1
"""The compute loop's time ÷ what the multiprocessors need at the clock that NVML reports, − 1. The loop
spends 2 % on its counter; the clock may move by a few percent meanwhile. A neighbour, also one that this
guest or container cannot see, takes half."""
_BAD_REASONS: Final = (
    "hardware slowdown",
    "software thermal slowdown",
    "hardware thermal slowdown",
    "power brake",
)
"""Reasons that no healthy GPU has in a loop of 0.1 s. A power cap or application clocks matter only if the
clock is low, and are named then."""
_FMA_LANES: Final = {7: 64, 9: 128, 10: 128, 11: 128, 12: 128}
_FMA_LANES_OF: Final = {"8.0": 64, "8.6": 128, "8.7": 128, "8.9": 128}
"""32-bit multiply-adds of a multiprocessor in a cycle, by major or whole compute capability: table
"Throughput of Native Arithmetic Instructions" of the CUDA Programming Guide."""


def findings_of(check: StateCheck) -> tuple[str, ...]:
    """Returns one sentence for each thing that looks stale or busy; none if all is well, or not known."""
    return tuple(f"GPU {gpu.index}: {text}" for gpu in check.gpus for text in _of_gpu(gpu))


def unknown_of(check: StateCheck) -> tuple[str, ...]:
    """Returns what the check could not tell, one line a GPU."""
    lines = []
    for gpu in check.gpus:
        asked = {
            "memory in use": gpu.memory_used_bytes,
            "other processes": gpu.other_processes,
            "utilization": gpu.utilization_percent,
            "throttle reasons": gpu.throttle_reasons,
            "clock under load": gpu.sm_clock_load_mhz if gpu.compute else 0,
        }
        absent = [name for name, value in asked.items() if value is None]
        if absent:
            lines.append(f"GPU {gpu.index}: NVML does not say {', '.join(absent)}")
    return tuple(lines)


def _of_gpu(gpu: GpuState) -> Iterator[str]:
    yield from _neighbours(gpu)
    yield from _health(gpu)
    yield from _clocks(gpu)
    yield from _loops(gpu)


def _neighbours(gpu: GpuState) -> Iterator[str]:
    used = gpu.memory_used_bytes or 0
    reserve_apart = gpu.memory_reserved_bytes is not None
    limit = MAX_IDLE_MEMORY_BYTES if reserve_apart else MAX_IDLE_MEMORY_AND_RESERVE_BYTES
    if gpu.other_processes:
        count = gpu.other_processes
        who = "1 other process uses it" if count == 1 else f"{count} other processes use it"
        yield f"{who} ({used / 2**30:.1f} GiB in use): stop what does not belong to the measurement"
    elif used > limit:
        yield (
            f"{used / 2**30:.1f} GiB are in use by no process that can be seen here: look for one outside "
            "this container or guest; if there is none, reset the GPU or reboot the guest"
        )
    if (gpu.utilization_percent or 0) > BUSY_PERCENT:
        yield f"it was {gpu.utilization_percent} % busy before the check: wait until it is idle"


def _health(gpu: GpuState) -> Iterator[str]:
    if gpu.recovery_action == "reset":
        yield "the driver asks for a reset of it: `nvidia-smi --gpu-reset`, or reboot the guest"
    elif gpu.recovery_action == "reboot":
        yield "the driver asks for a reboot of the machine"
    if gpu.ecc_uncorrected:
        yield f"{gpu.ecc_uncorrected} uncorrected memory errors since the driver was loaded: reset the GPU"
    if gpu.mig:
        yield "it is partitioned (MIG): other partitions share its power; measure on a whole GPU"


def _clocks(gpu: GpuState) -> Iterator[str]:
    reasons = list(gpu.throttle_reasons_load or gpu.throttle_reasons or ())
    bad = [reason for reason in reasons if reason in _BAD_REASONS]
    if bad:
        yield f"it is throttled ({', '.join(bad)}): check cooling and power supply, let it cool down"
    load, largest = gpu.sm_clock_load_mhz, gpu.sm_clock_max_mhz
    if load and largest and load < MIN_CLOCK_SHARE * largest and not bad:
        why = f" ({', '.join(reasons)})" if reasons else ""
        yield (
            f"its SM clock under load is {load} of {largest} MHz{why}: release locked clocks "
            "(`nvidia-smi -rgc`) or hold both runs at the same one (`nvidia-smi -lgc`)"
        )


def _loops(gpu: GpuState) -> Iterator[str]:
    excess = compute_excess(gpu)
    if excess is not None and excess > MAX_COMPUTE_EXCESS:
        yield (
            f"the compute loop takes {excess:.0%} longer than its clock allows: another program, maybe one "
            "that cannot be seen from here, shares the GPU; stop it, or reset the GPU"
        ).replace("%", " %")
    loops: dict[str, ReferenceLoop | None] = {"compute": gpu.compute, "memory": gpu.memory}
    for name, loop in loops.items():
        if loop is not None and loop.spread > MAX_SPREAD:
            yield (
                f"repeats of the {name} loop differ by {loop.spread:.0%}: something else runs on the GPU, "
                "or its clock moves; wait, and check again"
            ).replace("%", " %")


def compute_excess(gpu: GpuState) -> float | None:
    """Returns the compute loop's time ÷ what it needs at the clock under load, − 1; None if not known."""
    capability = gpu.compute_capability or ""
    major = capability.partition(".")[0]
    lanes = _FMA_LANES_OF.get(capability) or (_FMA_LANES.get(int(major)) if major.isdigit() else None)
    if not (gpu.compute and lanes and gpu.multiprocessors and gpu.sm_clock_load_mhz):
        return None
    needed_us = gpu.compute.work / (gpu.multiprocessors * lanes * gpu.sm_clock_load_mhz)
    return gpu.compute.median_us / needed_us - 1
