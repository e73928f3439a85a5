"""One look at the machine: what goes into the acceptance table of a trace, and the state at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cctrace.collectors.environment.confidential import ConfidentialState, read_confidential_state
from cctrace.collectors.environment.gpus import describe_gpu, gpu_state, nvlink_topology
from cctrace.collectors.environment.machine import Machine, read_machine
from cctrace.collectors.environment.nvml import Nvml, open_nvml
from cctrace.collectors.environment.packages import Packages
from cctrace.trace.acceptance import Acceptance


@dataclass(frozen=True)
class Snapshot:
    """The machine at one moment.

    Attributes:
        nvml_missing: why NVML did not answer; None if it did.
        gpus: what each GPU is; see `describe_gpu`.
        gpu_states: the state each is in; see `gpu_state`.
        driver: version of the NVIDIA driver.
        cuda: CUDA version that the driver supports.
        topology: NVLink connections.
    """

    machine: Machine
    confidential: ConfidentialState
    nvml_missing: str | None
    gpus: tuple[Mapping[str, Any], ...]
    gpu_states: tuple[Mapping[str, Any], ...]
    driver: str | None
    cuda: str | None
    topology: Mapping[str, Any] | None

    def state(self) -> dict[str, Any]:
        """Returns what may differ between the start and the end of a recording, as JSON types."""
        return {
            "nvml": self.nvml_missing or "answers",
            "confidential_computing": self.confidential.to_json(),
            "gpus": [dict(state) for state in self.gpu_states],
        }


def take_snapshot(ours: frozenset[int] = frozenset()) -> Snapshot:
    """Looks at the machine now; takes some milliseconds with a loaded driver.

    Args:
        ours: process ids that do not count as other users of a GPU.
    """
    machine = read_machine()
    with open_nvml() as nvml:
        devices = nvml.devices()
        return Snapshot(
            machine=machine,
            confidential=read_confidential_state(nvml),
            nvml_missing=nvml.missing,
            gpus=tuple(describe_gpu(nvml, device) for device in devices),
            gpu_states=tuple(gpu_state(nvml, device, ours) for device in devices),
            driver=nvml.ask("nvmlSystemGetDriverVersion"),
            cuda=_cuda_version(nvml),
            topology=nvlink_topology(nvml, devices),
        )


def fill_acceptance(known: Acceptance, snapshot: Snapshot, packages: Packages) -> Acceptance:
    """Returns `known` with everything that the machine says and the user has not set by hand."""
    return replace(
        known,
        hardware=_fill(known.hardware, _hardware(snapshot)),
        security=_fill(known.security, _security(snapshot)),
        software=_fill(known.software, _software(snapshot, packages)),
    )


def _fill(area: Any, found: Mapping[str, Any]) -> Any:
    return replace(area, **{key: value for key, value in found.items() if getattr(area, key) is None})


def _hardware(snapshot: Snapshot) -> dict[str, Any]:
    machine, gpus = snapshot.machine, snapshot.gpus
    models = sorted({str(gpu["name"]) for gpu in gpus if "name" in gpu})
    memory = [gpu["memory_bytes"] for gpu in gpus if "memory_bytes" in gpu]
    links = sorted(
        {
            f"gen{gpu['pcie_generation']} x{gpu['pcie_width']}"
            for gpu in gpus
            if "pcie_generation" in gpu and "pcie_width" in gpu
        }
    )
    return {
        "cpu_model": machine.cpu_model,
        "cpus": machine.cpus,
        "sockets": machine.sockets,
        "memory_bytes": machine.memory_bytes,
        "virtual_machine": machine.virtual_machine,
        "gpu_model": ", ".join(models) or None,
        "gpus": None if snapshot.nvml_missing else len(gpus),
        "gpu_memory_bytes": min(memory) if memory else None,
        "gpu_details": gpus or None,
        "numa": dict(machine.numa) or None,
        "nvlink_topology": snapshot.topology,
        "pcie": ", ".join(links) or None,
    }


def _security(snapshot: Snapshot) -> dict[str, Any]:
    state = snapshot.confidential
    firmware = sorted(
        {
            f"VBIOS {gpu['vbios']}" + (f", GSP {gpu['gsp_firmware']}" if "gsp_firmware" in gpu else "")
            for gpu in snapshot.gpus
            if "vbios" in gpu
        }
    )
    return {
        "tee": snapshot.machine.tee
        or (state.cpu_capability if state.cc_mode in ("on", "devtools") else None),
        "cc_mode": state.cc_mode,
        "cc_environment": state.environment,
        "multi_gpu_mode": state.multi_gpu_mode,
        "devtools": state.devtools,
        "ready_state": state.ready_state,
        "nvlink_encryption": state.nvlink_encryption,
        "firmware": "; ".join(firmware) or None,
    }


def _software(snapshot: Snapshot, packages: Packages) -> dict[str, Any]:
    return {
        "driver": snapshot.driver,
        "driver_kind": snapshot.machine.driver_kind,
        "cuda": snapshot.cuda,
        "cuda_runtime": packages.first("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"),
        "nccl": packages.first("nvidia-nccl-cu13", "nvidia-nccl-cu12"),
        "python": packages.python,
        "frameworks": dict(packages.versions) or None,
        "os": snapshot.machine.distribution,
        "kernel": snapshot.machine.kernel,
    }


def _cuda_version(nvml: Nvml) -> str | None:
    number = nvml.ask("nvmlSystemGetCudaDriverVersion_v2")
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"
