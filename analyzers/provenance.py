"""Where a recording comes from: what every output says before its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from cctrace.analyzers.loading import Recording
from cctrace.analyzers.results import Result, value


@dataclass(frozen=True, kw_only=True)
class Provenance(Result):
    """What was recorded, and how."""

    path: str = value("the trace")
    label: str | None = value("name that the user gave the recording")
    cc_mode: str | None = value(
        "confidential-computing mode of the GPUs: off, on or devtools; null if not known"
    )
    nvlink_encryption: str | None = value("NVLink encryption: off or on; null if not known")
    gpu_model: str | None = value("model of the GPUs")
    gpu_mode: str | None = value("source of GPU times: none, stamps, graphs or nodes")
    timing: str | None = value("undisturbed, or distorted by CUPTI")
    emulated: str | None = value(
        "platform whose costs were charged to the program, with the causes; null if none"
    )
    warnings: tuple[str, ...] = value("labels that every output carries: emulated, distorted, devtools")


def provenance_of(recording: Recording) -> Provenance:
    """The provenance of a recording."""
    metadata = recording.metadata
    emulation, security = metadata.emulation, metadata.acceptance.security
    warnings = list(metadata.labels)
    if emulation is not None and "emulated" not in warnings:
        warnings.append("emulated")
    if recording.distorted and "distorted" not in warnings:
        warnings.append("distorted")
    if (security.devtools or security.cc_mode == "devtools") and "devtools" not in warnings:
        warnings.append("devtools")
    return Provenance(
        path=recording.path,
        label=metadata.label,
        cc_mode=security.cc_mode,
        nvlink_encryption=security.nvlink_encryption,
        gpu_model=metadata.acceptance.hardware.gpu_model,
        gpu_mode=metadata.collector.gpu_mode,
        timing=metadata.collector.timing,
        emulated=None if emulation is None else _emulated(emulation.profile, emulation.causes),
        warnings=tuple(warnings),
    )


def _emulated(profile: str | None, causes: tuple[str, ...]) -> str:
    return f"{profile or 'unknown profile'} ({', '.join(causes)})" if causes else profile or "unknown profile"
