"""The GPUs: what they are, and the state they are in."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from cctrace.collectors.environment.nvml import Nvml

_SYSFS_PCI: Final = Path("/sys/bus/pci/devices")
_MILLI: Final = 1e-3


def describe_gpu(nvml: Nvml, device: Any) -> dict[str, Any]:
    """Returns what does not change during a recording; what NVML does not answer is left out."""
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", device)
    power_limit = nvml.ask("nvmlDeviceGetEnforcedPowerLimit", device)
    bus = bus_id(nvml, device)
    ecc = nvml.ask("nvmlDeviceGetEccMode", device)
    mig = nvml.ask("nvmlDeviceGetMigMode", device)
    persistence = nvml.ask("nvmlDeviceGetPersistenceMode", device)
    capability = nvml.ask("nvmlDeviceGetCudaComputeCapability", device)
    protected = nvml.ask("nvmlDeviceGetConfComputeMemSizeInfo", device)
    return known(
        name=nvml.ask("nvmlDeviceGetName", device),
        uuid=nvml.ask("nvmlDeviceGetUUID", device),
        compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        memory_bytes=None if memory is None else int(memory.total),
        protected_memory_bytes=None if protected is None else int(protected.protectedMemSizeKib) << 10,
        vbios=nvml.ask("nvmlDeviceGetVbiosVersion", device),
        gsp_firmware=nvml.ask("nvmlDeviceGetGspFirmwareVersion", device),
        ecc=None if ecc is None else bool(ecc[0]),
        mig=None if mig is None else bool(mig[0]),
        persistence_mode=None if persistence is None else bool(persistence),
        pci_bus=bus,
        numa_node=None if bus is None else _numa_node(bus),
        pcie_generation=nvml.ask("nvmlDeviceGetCurrPcieLinkGeneration", device),
        pcie_width=nvml.ask("nvmlDeviceGetCurrPcieLinkWidth", device),
        pcie_max_generation=nvml.ask("nvmlDeviceGetMaxPcieLinkGeneration", device),
        power_limit_w=None if power_limit is None else power_limit * _MILLI,
        max_sm_clock_mhz=nvml.ask("nvmlDeviceGetMaxClockInfo", device, nvml.constant("NVML_CLOCK_SM")),
        max_memory_clock_mhz=nvml.ask("nvmlDeviceGetMaxClockInfo", device, nvml.constant("NVML_CLOCK_MEM")),
        nvlinks_active=_active_nvlinks(nvml, device),
    )


def gpu_state(nvml: Nvml, device: Any, ours: frozenset[int] = frozenset()) -> dict[str, Any]:
    """Returns what changes: clocks, power, temperature, memory, and who else uses the GPU.

    Args:
        nvml: an open NVML.
        device: handle of the GPU.
        ours: process ids that do not count as others.
    """
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", device)
    power = nvml.ask("nvmlDeviceGetPowerUsage", device)
    processes = nvml.ask("nvmlDeviceGetComputeRunningProcesses", device)
    corrected = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", device)
    return known(
        sm_clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", device, nvml.constant("NVML_CLOCK_SM")),
        memory_clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", device, nvml.constant("NVML_CLOCK_MEM")),
        power_w=None if power is None else power * _MILLI,
        temperature_c=nvml.ask("nvmlDeviceGetTemperature", device, nvml.constant("NVML_TEMPERATURE_GPU")),
        memory_used_bytes=None if memory is None else int(memory.used),
        clock_event_reasons=corrected,
        other_processes=None if processes is None else sum(process.pid not in ours for process in processes),
    )


def nvlink_topology(nvml: Nvml, devices: list[Any]) -> dict[str, Any] | None:
    """Returns the number of active NVLinks of each GPU and which GPUs reach each other over NVLink."""
    links = [_active_nvlinks(nvml, device) for device in devices]
    if not any(links):
        return None
    capability = nvml.constant("NVML_P2P_CAPS_INDEX_NVLINK")
    pairs = [
        [first, second]
        for first in range(len(devices))
        for second in range(first + 1, len(devices))
        if nvml.ask("nvmlDeviceGetP2PStatus", devices[first], devices[second], capability) == 0
    ]
    return {"active_links": links, "connected_pairs": pairs}


def _active_nvlinks(nvml: Nvml, device: Any) -> int | None:
    most = nvml.constant("NVML_NVLINK_MAX_LINKS") or 0
    states = [nvml.ask("nvmlDeviceGetNvLinkState", device, link) for link in range(most)]
    known = [state for state in states if state is not None]
    return sum(bool(state) for state in known) if known else None


def bus_id(nvml: Nvml, device: Any) -> str | None:
    """Returns the PCI bus id of a GPU, as NVML writes it."""
    info = nvml.ask("nvmlDeviceGetPciInfo", device)
    if info is None:
        return None
    bus = info.busId
    return bus.decode("ascii", "replace") if isinstance(bus, bytes) else str(bus)


def bus_key(bus: str) -> str:
    """Returns a PCI bus id in one form: NVML writes the domain with eight digits, CUDA and sysfs four."""
    domain, _, rest = bus.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _numa_node(bus: str) -> int | None:
    try:
        node = int((_SYSFS_PCI / bus_key(bus) / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def known(**values: Any) -> dict[str, Any]:
    """Returns the values without those that nobody knows."""
    return {key: value for key, value in values.items() if value is not None}
