"""One look at the machine.

What NVML says is read in a process of its own (`probe`) and comes to the recorder as a JSON document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cctrace.collectors.environment.confidential import ConfidentialState, read_confidential_state
from cctrace.collectors.environment.gpus import describe_gpu, gpu_state, nvlink_topology
from cctrace.collectors.environment.machine import Machine, read_machine
from cctrace.collectors.environment.nvml import Nvml


@dataclass(frozen=True)
class Snapshot:
    """The machine at one moment.

    Attributes:
        nvml_missing: why there is nothing from NVML; None if there is.
        unknown_because: set if NVML could not even be asked; then `nvml_missing` says so, too.
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
    unknown_because: str | None = None

    def state(self) -> dict[str, Any]:
        """Returns what may differ between the start and the end of a recording, as JSON types."""
        return {
            "nvml": self.nvml_missing or "answers",
            "confidential_computing": self.confidential.to_json(),
            "gpus": [dict(state) for state in self.gpu_states],
        }


def read_gpus(nvml: Nvml, ours: frozenset[int] = frozenset()) -> dict[str, Any]:
    """Returns what NVML says now, as a JSON document for `snapshot_of`; takes some milliseconds.

    Args:
        nvml: an open NVML.
        ours: process ids that do not count as other users of a GPU.
    """
    devices = nvml.devices()
    return {
        "nvml_missing": nvml.missing,
        "confidential": read_confidential_state(nvml).to_json(),
        "gpus": [describe_gpu(nvml, device) for device in devices],
        "gpu_states": [gpu_state(nvml, device, ours) for device in devices],
        "driver": nvml.ask("nvmlSystemGetDriverVersion"),
        "cuda": _cuda_version(nvml),
        "topology": nvlink_topology(nvml, devices),
    }


def snapshot_of(document: Mapping[str, Any]) -> Snapshot:
    """Returns this machine with the GPUs of a document of `read_gpus`.

    Raises:
        KeyError, TypeError: it is no such document.
    """
    return Snapshot(
        machine=read_machine(),
        confidential=ConfidentialState(**document["confidential"]),
        nvml_missing=document["nvml_missing"],
        gpus=tuple(document["gpus"]),
        gpu_states=tuple(document["gpu_states"]),
        driver=document["driver"],
        cuda=document["cuda"],
        topology=document["topology"],
    )


def without_nvml(why: str) -> Snapshot:
    """Returns this machine with GPUs that nothing is known about, because NVML could not be asked."""
    missing = f"not known, because {why}"
    return Snapshot(read_machine(), ConfidentialState(), missing, (), (), None, None, None, why)


def _cuda_version(nvml: Nvml) -> str | None:
    number = nvml.ask("nvmlSystemGetCudaDriverVersion_v2")
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"
