"""What NVML says about a GPU before the check touches it, and under load. Keys are those of `GpuState`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from cctrace.collectors.environment.gpus import bus_id, bus_key, known
from cctrace.collectors.environment.nvml import Nvml

THROTTLE_REASONS: Final = {
    0x002: "application clocks",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "power brake",
    0x100: "display clocks",
}
"""Bits of NVML's clock event reasons. Being idle (bit 0) is no throttling."""
_COMPUTE_MODES: Final = {0: "default", 2: "prohibited", 3: "exclusive-process"}
_RECOVERY: Final = {0: "none", 1: "reset", 2: "reboot", 3: "reset", 4: "reset", 6: "reset", 7: "reboot"}
"""NVML's recovery actions: 3 and 4 are a reset after the GPU was drained, 6 a reset of its bus."""

BUSY_PERCENT: Final = 10
"""Above this utilization somebody is at work: an idle GPU says 0; a monitor or a keep-alive kernel stays
below."""
AFTERGLOW_S: Final = 1.0
"""NVML's utilization is that of up to a second before: a program that has just ended still shows."""


def gpus_by_bus(nvml: Nvml) -> dict[str, Any]:
    """Returns NVML's handle of each GPU by its PCI bus id, in the order of the bus."""
    found = ((bus_id(nvml, device), device) for device in nvml.devices())
    return {bus_key(bus): device for bus, device in found if bus is not None}


def before(nvml: Nvml, devices: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the state of GPUs that this process does not use yet, under the keys of `devices`.

    What NVML does not say is left out.
    """
    states = {key: _state(nvml, device) for key, device in devices.items()}
    busy = [key for key, state in states.items() if state.get("utilization_percent", 0) > BUSY_PERCENT]
    if busy:
        time.sleep(AFTERGLOW_S)
        for key in busy:
            states[key]["utilization_percent"] = _utilization(nvml, devices[key])
    return states


def _state(nvml: Nvml, device: Any) -> dict[str, Any]:
    power = nvml.ask("nvmlDeviceGetPowerUsage", device)
    mig = nvml.ask("nvmlDeviceGetMigMode", device)
    persistence = nvml.ask("nvmlDeviceGetPersistenceMode", device)
    return known(
        uuid=nvml.ask("nvmlDeviceGetUUID", device),
        name=nvml.ask("nvmlDeviceGetName", device),
        utilization_percent=_utilization(nvml, device),
        **_clocks(nvml, device, "nvmlDeviceGetClockInfo", ""),
        **_clocks(nvml, device, "nvmlDeviceGetMaxClockInfo", "_max"),
        **_clocks(nvml, device, "nvmlDeviceGetApplicationsClock", "_application"),
        throttle_reasons=_throttle_reasons(nvml, device),
        temperature_c=nvml.ask("nvmlDeviceGetTemperature", device, nvml.constant("NVML_TEMPERATURE_GPU")),
        power_w=None if power is None else round(power * 1e-3, 1),
        performance_state=_performance_state(nvml, device),
        mig=None if mig is None else bool(mig[0]),
        persistence_mode=None if persistence is None else bool(persistence),
        compute_mode=_COMPUTE_MODES.get(nvml.ask("nvmlDeviceGetComputeMode", device)),
        **_memory(nvml, device),
        **_processes(nvml, device),
        **_errors(nvml, device),
    )


def under_load(nvml: Nvml, device: Any) -> dict[str, Any]:
    """Returns the clocks while the compute loop runs, and what holds them down."""
    return known(
        **_clocks(nvml, device, "nvmlDeviceGetClockInfo", "_load"),
        throttle_reasons_load=_throttle_reasons(nvml, device),
    )


def _clocks(nvml: Nvml, device: Any, function: str, suffix: str) -> dict[str, Any]:
    kinds = {"sm": "NVML_CLOCK_SM", "memory": "NVML_CLOCK_MEM"}
    return {
        f"{name}_clock{suffix}_mhz": nvml.ask(function, device, nvml.constant(kind))
        for name, kind in kinds.items()
    }


def _throttle_reasons(nvml: Nvml, device: Any) -> list[str] | None:
    bits = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", device)
    if bits is None:  # an older driver knows them by their older name
        bits = nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", device)
    return None if bits is None else [name for bit, name in THROTTLE_REASONS.items() if bits & bit]


def _utilization(nvml: Nvml, device: Any) -> int | None:
    rates = nvml.ask("nvmlDeviceGetUtilizationRates", device)
    return None if rates is None else int(rates.gpu)


def _performance_state(nvml: Nvml, device: Any) -> int | None:
    state = nvml.ask("nvmlDeviceGetPerformanceState", device)
    return state if isinstance(state, int) and 0 <= state <= 15 else None


def _memory(nvml: Nvml, device: Any) -> dict[str, Any]:
    """The newer call tells the driver's own memory, some hundred MB, from what programs use."""
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", device, nvml.constant("nvmlMemory_v2"))
    if memory is None:
        memory = nvml.ask("nvmlDeviceGetMemoryInfo", device)
    if memory is None:
        return {}
    reserved = getattr(memory, "reserved", None)
    return {
        "memory_total_bytes": int(memory.total),
        "memory_used_bytes": int(memory.used),
        "memory_reserved_bytes": None if reserved is None else int(reserved),
    }


def _processes(nvml: Nvml, device: Any) -> dict[str, Any]:
    """How many processes there are and what they hold; who they are is nobody's business."""
    processes = nvml.ask("nvmlDeviceGetComputeRunningProcesses", device)
    if processes is None:
        return {}
    held = [process.usedGpuMemory for process in processes]
    return {
        "other_processes": len(processes),
        "other_processes_bytes": None if None in held else sum(map(int, held)),
    }


def _errors(nvml: Nvml, device: Any) -> dict[str, Any]:
    volatile = nvml.constant("NVML_VOLATILE_ECC")
    kinds = {
        "corrected": "NVML_MEMORY_ERROR_TYPE_CORRECTED",
        "uncorrected": "NVML_MEMORY_ERROR_TYPE_UNCORRECTED",
    }
    counts = {
        f"ecc_{name}": nvml.ask("nvmlDeviceGetTotalEccErrors", device, nvml.constant(kind), volatile)
        for name, kind in kinds.items()
    }
    return {**counts, "recovery_action": _recovery_action(nvml, device)}


def _recovery_action(nvml: Nvml, device: Any) -> str | None:
    """What the driver asks for; rows of memory that wait to be remapped need a reset as well."""
    rows = nvml.ask("nvmlDeviceGetRemappedRows", device)
    if rows is not None and rows[2]:
        return "reset"
    field = nvml.constant("NVML_FI_DEV_GET_GPU_RECOVERY_ACTION")
    answers = None if field is None else nvml.ask("nvmlDeviceGetFieldValues", device, [field])
    if not answers or answers[0].nvmlReturn != 0:
        return None
    return _RECOVERY.get(int(answers[0].value.uiVal))
