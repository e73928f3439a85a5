"""What will and what will not be recordable on this machine, and why."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from cctrace.collectors.environment.cupti import find_libcupti
from cctrace.collectors.environment.isolated import take_snapshot
from cctrace.collectors.environment.snapshot import Snapshot
from cctrace.collectors.library import elf_machine, find_library
from cctrace.collectors.record.folder import MIN_FREE_BYTES, free_bytes
from cctrace.collectors.state.check import PATIENT_LIMIT_S, check_state
from cctrace.collectors.state.findings import unknown_of
from cctrace.errors import CollectorMissingError
from cctrace.trace.documents import to_document
from cctrace.trace.state_check import StateCheck

OK: Final = "ok"
WARNING: Final = "warning"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"

YES: Final = "yes"
NO: Final = "no"
MAYBE: Final = "cannot tell"

_DRIVER_LIBRARY: Final = "libcuda.so.1"
_DLSYM_HOOKS: Final = ("libvgpu", "hami", "cuda_hook", "alnair", "torch_memory_saver")
"""Parts of the names of preloaded objects that wrap driver calls themselves."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `status` is ok, warning, failed or unknown."""

    name: str
    status: str
    detail: str


@dataclass(frozen=True)
class Mode:
    """Whether a source of GPU times works here: `works` is yes, no or cannot tell."""

    name: str
    works: str
    why: str


@dataclass(frozen=True)
class Diagnosis:
    """All checks of a machine.

    Attributes:
        snapshot: the machine.
        checks: what was looked at.
        modes: sources of GPU times.
        state: what the reference loops and NVML say about the GPUs; None if that was not asked for.
    """

    snapshot: Snapshot
    checks: tuple[Check, ...]
    modes: tuple[Mode, ...]
    state: StateCheck | None = None

    @property
    def can_record(self) -> bool:
        """True if no check failed."""
        return all(check.status != FAILED for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Returns the diagnosis as JSON types."""
        snapshot = self.snapshot
        return {
            "can_record": self.can_record,
            "confidential_computing": snapshot.confidential.to_json(),
            "tee": {"kind": snapshot.machine.tee, "evidence": snapshot.machine.tee_evidence},
            "driver": {
                "version": snapshot.driver,
                "kind": snapshot.machine.driver_kind,
                "cuda": snapshot.cuda,
                "nvml": snapshot.nvml_missing or "answers",
            },
            "gpus": [
                {**gpu, "state": dict(state)}
                for gpu, state in zip(snapshot.gpus, snapshot.gpu_states, strict=True)
            ],
            "machine": snapshot.machine.to_json(),
            "checks": [asdict(check) for check in self.checks],
            "gpu_times": [asdict(mode) for mode in self.modes],
            "state_check": to_document(self.state),
            "state_not_known": [] if self.state is None else list(unknown_of(self.state)),
        }


def diagnose(folder: Path, environment: Mapping[str, str], *, measure: bool = False) -> Diagnosis:
    """Looks at this machine.

    Args:
        folder: where traces would be written.
        environment: environment of the programs that would be recorded.
        measure: also run the reference loops on the GPUs.
    """
    snapshot = take_snapshot()
    collector = _check_collector(environment)
    driver = _check_driver(snapshot)
    checks = (
        collector,
        driver,
        _check_confidential(snapshot),
        _check_disk(folder),
        _check_preload(environment),
        _check_injection(environment, "CUDA_INJECTION64_PATH", "--gpu graphs and nodes are refused"),
        _check_injection(environment, "NVTX_INJECTION64_PATH", "NVTX labels are not recorded"),
        _check_neighbours(snapshot),
    )
    usable = collector.status == OK and driver.status == OK
    state = check_state(PATIENT_LIMIT_S) if measure else None
    return Diagnosis(snapshot, checks, _modes(snapshot, environment, usable=usable), state)


def _check_collector(environment: Mapping[str, str]) -> Check:
    try:
        path = find_library(environment)
    except CollectorMissingError as error:
        return Check("native collector", FAILED, str(error))
    return Check("native collector", OK, f"{path} ({elf_machine(path)})")


def _check_driver(snapshot: Snapshot) -> Check:
    try:
        ctypes.CDLL(_DRIVER_LIBRARY)
    except OSError:
        detail = f"{_DRIVER_LIBRARY} cannot be loaded: no NVIDIA driver, or not passed into this container"
        return Check("CUDA driver", FAILED, detail)
    if snapshot.nvml_missing:
        return Check("CUDA driver", WARNING, f"{_DRIVER_LIBRARY} is there, but {snapshot.nvml_missing}")
    if not snapshot.gpus:
        return Check("CUDA driver", FAILED, f"driver {snapshot.driver} sees no GPU")
    return Check("CUDA driver", OK, f"driver {snapshot.driver}, CUDA {snapshot.cuda}")


def _check_confidential(snapshot: Snapshot) -> Check:
    state = snapshot.confidential
    name = "confidential computing"
    if state.cc_mode is None:
        return Check(name, UNKNOWN, "NVML does not say; set it with --set security.cc_mode=on|off")
    if state.refuses_work:
        detail = (
            "the GPUs do not accept work (CUDA error 802); `nvidia-smi conf-compute -srs 1` after attestation"
        )
        return Check(name, FAILED, detail)
    if state.cc_mode == "devtools":
        return Check(
            name, WARNING, "devtools mode: profilers work, security does not; not a production state"
        )
    extra = ", multi-GPU mode protected PCIe" if state.multi_gpu_mode == "protected-pcie" else ""
    return Check(name, OK, f"{state.cc_mode}{extra}")


def _check_disk(folder: Path) -> Check:
    try:
        free = free_bytes(folder)
    except OSError as error:
        return Check("disk", FAILED, f"{folder}: {error.strerror}")
    detail = f"{free / 2**30:.1f} GiB free in {folder}"
    if free < MIN_FREE_BYTES:
        return Check("disk", FAILED, f"{detail}; record with --spool-dir and -o on another disk")
    return Check("disk", OK, detail)


def _check_preload(environment: Mapping[str, str]) -> Check:
    existing = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    if not existing:
        return Check("LD_PRELOAD", OK, "not set")
    hooks = [entry for entry in existing if any(word in entry.lower() for word in _DLSYM_HOOKS)]
    if hooks:
        detail = f"{hooks[0]} wraps driver calls too: what it hides from us is not recorded"
        return Check("LD_PRELOAD", WARNING, detail)
    return Check("LD_PRELOAD", OK, f"kept, after the collector: {' '.join(existing)}")


def _check_injection(environment: Mapping[str, str], name: str, effect: str) -> Check:
    other = environment.get(name)
    return Check(name, WARNING, f"set to {other}: {effect}") if other else Check(name, OK, "not set")


def _check_neighbours(snapshot: Snapshot) -> Check:
    counts = [state.get("other_processes") for state in snapshot.gpu_states]
    busy = [str(index) for index, count in enumerate(counts) if count]
    if busy:
        return Check(
            "other programs", WARNING, f"GPU {', '.join(busy)} is in use: measure on an idle machine"
        )
    if not counts or None in counts:
        return Check("other programs", UNKNOWN, "NVML does not list the processes on the GPUs")
    return Check("other programs", OK, "none on the GPUs")


def _modes(snapshot: Snapshot, environment: Mapping[str, str], *, usable: bool) -> tuple[Mode, ...]:
    if not usable:
        why = "the collector or the driver is missing"
        return tuple(Mode(name, NO, why) for name in ("none", "stamps", "graphs", "nodes"))
    cupti = _cupti_mode(snapshot, environment)
    return (
        Mode("none", YES, "host calls only; needs no permission, also in production CC"),
        Mode("stamps", YES, "own kernels read %globaltimer; needs no permission, also in production CC"),
        Mode("graphs", *cupti),
        Mode("nodes", *cupti),
    )


def _cupti_mode(snapshot: Snapshot, environment: Mapping[str, str]) -> tuple[str, str]:
    mode = snapshot.confidential.cc_mode
    if environment.get("CUDA_INJECTION64_PATH"):
        return NO, "CUDA_INJECTION64_PATH is set by another tool"
    if mode == "on":
        return (
            NO,
            "CUPTI is refused in production CC (error 41); host calls and stamps are recorded all the same",
        )
    library = find_libcupti(environment)
    where = (
        f"CUPTI at {library}"
        if library
        else "no libcupti found here; that of the program is used if it has one"
    )
    if mode is None:
        return (
            MAYBE,
            f"{where}; NVML does not say whether CC is on, and production CC refuses CUPTI (error 41)",
        )
    if library is None:
        return MAYBE, where
    return YES, f"{where}; host times are distorted, so never use them for tolls"
