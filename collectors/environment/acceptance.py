"""What the machine says, in the words of a trace's acceptance table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cctrace.collectors.environment.packages import Packages
from cctrace.collectors.environment.snapshot import Snapshot
from cctrace.trace.acceptance import Acceptance


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
