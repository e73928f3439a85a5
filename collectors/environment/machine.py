"""The machine around the GPUs: CPU, memory, NUMA, kernel, hypervisor, container, TEE."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path("/")


@dataclass(frozen=True)
class Machine:
    """What /proc, /sys and /dev say; None is "not known".

    Attributes:
        tee: trusted execution environment of the guest: none, tdx, sev-snp, sev, cca.
        tee_evidence: what `tee` was read from.
        virtual_machine: the hypervisor, "none" on bare metal.
        container: the kind of container, if there is a sign of one.
        numa: node → its CPUs, as the kernel writes them ("0-15").
    """

    cpu_model: str | None
    cpus: int
    sockets: int | None
    memory_bytes: int | None
    virtual_machine: str | None
    container: str | None
    tee: str | None
    tee_evidence: str
    numa: Mapping[str, str]
    kernel: str
    distribution: str | None
    driver_kind: str | None

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return {**self.__dict__, "numa": dict(self.numa)}


def read_machine(root: Path = _ROOT) -> Machine:
    """Returns what is known about this machine; `root` stands for `/`, so that a test can bring its own."""
    cpuinfo = _text(root / "proc/cpuinfo")
    flags = _cpu_flags(cpuinfo)
    virtual_machine = _hypervisor(root, flags)
    tee, evidence = _tee(root, cpuinfo, flags, virtual_machine)
    return Machine(
        cpu_model=_field(cpuinfo, "model name"),
        cpus=len(os.sched_getaffinity(0)),
        sockets=len({line for line in cpuinfo.splitlines() if line.startswith("physical id")}) or None,
        memory_bytes=_memory_bytes(_text(root / "proc/meminfo")),
        virtual_machine=virtual_machine,
        container=_container(root),
        tee=tee,
        tee_evidence=evidence,
        numa=_numa(root),
        kernel=platform.release(),
        distribution=_os_release(_text(root / "etc/os-release")),
        driver_kind=_driver_kind(_text(root / "proc/driver/nvidia/version")),
    )


def _tee(root: Path, cpuinfo: str, flags: set[str], virtual_machine: str | None) -> tuple[str | None, str]:
    if "tdx_guest" in flags:
        return "tdx", "the CPU flag tdx_guest"
    for device, name in (("tdx_guest", "tdx"), ("sev-guest", "sev-snp"), ("sev_guest", "sev-snp")):
        if (root / "dev" / device).exists():
            return name, f"/dev/{device}"
    if (root / "sys/devices/system/cpu/sev/vmpl").exists():
        return "sev-snp", "/sys/devices/system/cpu/sev/vmpl"
    if not flags:
        return None, "/proc/cpuinfo lists no CPU flags"
    if virtual_machine == "none":
        return "none", "not a virtual machine"
    if _field(cpuinfo, "vendor_id") == "GenuineIntel":
        return "none", "an Intel guest without the CPU flag tdx_guest"
    # A SEV guest without its device (a container, an old kernel) shows no sign of it: the flags are those
    # of the host.
    return None, "no sign of TDX or SEV-SNP, which does not rule SEV out"


def _hypervisor(root: Path, flags: set[str]) -> str | None:
    if not flags:
        return None
    if "hypervisor" not in flags:
        return "none"
    vendor = _text(root / "sys/class/dmi/id/sys_vendor").strip()
    product = _text(root / "sys/class/dmi/id/product_name").strip()
    return " ".join(part for part in (vendor, product) if part) or "unknown"


def _container(root: Path) -> str | None:
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    groups = _text(root / "proc/1/cgroup")
    for sign, name in (
        ("kubepods", "kubernetes"),
        ("docker", "docker"),
        ("containerd", "containerd"),
        ("lxc", "lxc"),
    ):
        if sign in groups:
            return name
    return "gvisor" if "gVisor" in _text(root / "proc/version") else None


def _numa(root: Path) -> dict[str, str]:
    nodes = sorted((root / "sys/devices/system/node").glob("node[0-9]*"), key=lambda path: int(path.name[4:]))
    return {path.name[4:]: _text(path / "cpulist").strip() for path in nodes}


def _driver_kind(version: str) -> str | None:
    if not version:
        return None
    return "open" if "Open Kernel Module" in version else "proprietary"


def _os_release(text: str) -> str | None:
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip().strip('"') or None
    return None


def _memory_bytes(text: str) -> int | None:
    for line in text.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) << 10
    return None


def _cpu_flags(cpuinfo: str) -> set[str]:
    return set((_field(cpuinfo, "flags") or _field(cpuinfo, "Features") or "").split())


def _field(text: str, name: str) -> str | None:
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() == name:
            return value.strip() or None
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
