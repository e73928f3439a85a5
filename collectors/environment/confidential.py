"""The state of confidential computing, as NVML reports it.

`nvmlSystemGetConfComputeSettings` is asked first, `nvmlSystemGetConfComputeState` if the driver is too old
for it. Three traps: the CC feature is also on in devtools mode, where nothing is secret; protected PCIe on
Hopper may leave the feature at 0; NVLink encryption alone is not confidential computing.
"""

from __future__ import annotations

import ctypes
from dataclasses import asdict, dataclass
from typing import Any, Final

from cctrace.collectors.environment.nvml import Nvml

_ENVIRONMENTS: Final = {0: "unavailable", 1: "simulation", 2: "production"}
_MULTI_GPU_MODES: Final = {0: "none", 1: "protected-pcie", 2: "nvle"}
_CPU_CAPABILITIES: Final = {0: "none", 1: "sev", 2: "tdx", 3: "sev-snp", 4: "sev-snp"}
_PROTECTED_PCIE: Final = 1
_NVLE: Final = 2
_SUCCESS: Final = 0


@dataclass(frozen=True)
class ConfidentialState:
    """What NVML says about confidential computing; None is "does not say".

    Attributes:
        cc_mode: off, on or devtools.
        environment: unavailable, simulation or production.
        multi_gpu_mode: none, protected-pcie or nvle.
        devtools: developer tools are allowed.
        ready_state: ready or not-ready; CUDA refuses to start (error 802) while it is not-ready. None with CC
            off: NVML then answers not-ready for GPUs that work.
        nvlink_encryption: off or on.
        cpu_capability: the TEE of the CPU that the driver sees: none, sev, tdx, sev-snp.
        gpu_capable: the GPU could be put into CC mode.
        asked: the NVML function that answered: settings or state.
    """

    cc_mode: str | None = None
    environment: str | None = None
    multi_gpu_mode: str | None = None
    devtools: bool | None = None
    ready_state: str | None = None
    nvlink_encryption: str | None = None
    cpu_capability: str | None = None
    gpu_capable: bool | None = None
    asked: str | None = None

    @property
    def refuses_work(self) -> bool:
        """True if CC is known to be on and the GPUs are known to accept no work."""
        return self.cc_mode in ("on", "devtools") and self.ready_state == "not-ready"

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return asdict(self)


def read_confidential_state(nvml: Nvml) -> ConfidentialState:
    """Returns the state of confidential computing of this machine's GPUs."""
    asked = "settings"
    answer = _settings(nvml)
    if answer is None:
        asked = "state"
        answer = nvml.ask("nvmlSystemGetConfComputeState")
    capabilities = nvml.ask("nvmlSystemGetConfComputeCapabilities")
    ready = nvml.ask("nvmlSystemGetConfComputeGpusReadyState")
    feature = None if answer is None else bool(answer.ccFeature)
    devtools = None if answer is None else bool(answer.devToolsMode)
    multi_gpu = getattr(answer, "multiGpuMode", None)
    cc_mode = _cc_mode(feature, devtools, multi_gpu)
    return ConfidentialState(
        cc_mode=cc_mode,
        environment=None if answer is None else _named(_ENVIRONMENTS, answer.environment),
        multi_gpu_mode=None if multi_gpu is None else _named(_MULTI_GPU_MODES, multi_gpu),
        devtools=devtools,
        ready_state=None if ready is None or cc_mode == "off" else ("ready" if ready else "not-ready"),
        nvlink_encryption=_nvlink_encryption(nvml, multi_gpu),
        cpu_capability=None if capabilities is None else _named(_CPU_CAPABILITIES, capabilities.cpuCaps),
        gpu_capable=None if capabilities is None else bool(capabilities.gpusCaps),
        asked=None if answer is None else asked,
    )


def _settings(nvml: Nvml) -> Any:
    structure = nvml.constant("c_nvmlSystemConfComputeSettings_v1_t")
    if structure is None:
        return None
    # The caller hands over a structure with its version filled in, and gets a code back instead of an
    # exception.
    settings = structure()
    code = nvml.ask("nvmlSystemGetConfComputeSettings", ctypes.byref(settings))
    return settings if code == _SUCCESS else None


def _cc_mode(feature: bool | None, devtools: bool | None, multi_gpu: int | None) -> str | None:
    if feature is None:
        return None
    if feature or multi_gpu == _PROTECTED_PCIE:
        return "devtools" if devtools else "on"
    return "off"


def _nvlink_encryption(nvml: Nvml, multi_gpu: int | None) -> str | None:
    answers = [_nvle_of(nvml, device) for device in nvml.devices()]
    if multi_gpu == _NVLE or any(answers):
        return "on"
    return "off" if any(answer is not None for answer in answers) else None


def _nvle_of(nvml: Nvml, device: Any) -> bool | None:
    for name in ("c_nvmlNvLinkInfo_v2_t", "c_nvmlNvLinkInfo_v1_t"):
        structure = nvml.constant(name)
        if structure is None:
            continue
        info = structure()
        if nvml.ask("nvmlDeviceGetNvLinkInfo", device, ctypes.byref(info)) == _SUCCESS:
            return bool(info.isNvleEnabled)
    return None


def _named(names: dict[int, str], value: int) -> str:
    return names.get(int(value), f"unknown ({value})")
