import os
import sys
import textwrap
from pathlib import Path

import pytest

from cctrace.collectors.environment.acceptance import fill_acceptance
from cctrace.collectors.environment.machine import read_machine
from cctrace.collectors.environment.packages import Packages, find_interpreter, read_packages
from cctrace.collectors.environment.snapshot import without_nvml
from cctrace.trace.acceptance import Acceptance, Hardware


def _root(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def _cpuinfo(vendor: str, flags: str) -> str:
    fields = {
        "processor": 0,
        "vendor_id": vendor,
        "model name": "A CPU",
        "physical id": 0,
        "flags": f"fpu {flags}",
    }
    return "".join(f"{name}\t: {value}\n" for name, value in fields.items())


@pytest.mark.parametrize(
    ("files", "tee", "evidence"),
    [
        ({"proc/cpuinfo": _cpuinfo("GenuineIntel", "hypervisor tdx_guest")}, "tdx", "flag"),
        (
            {"proc/cpuinfo": _cpuinfo("GenuineIntel", "hypervisor"), "dev/tdx_guest": ""},
            "tdx",
            "/dev/tdx_guest",
        ),
        ({"proc/cpuinfo": _cpuinfo("GenuineIntel", "hypervisor")}, "none", "without"),
        ({"proc/cpuinfo": _cpuinfo("GenuineIntel", "avx512f")}, "none", "not a virtual machine"),
        (
            {"proc/cpuinfo": _cpuinfo("AuthenticAMD", "hypervisor"), "dev/sev-guest": ""},
            "sev-snp",
            "/dev/sev-guest",
        ),
        (
            {"proc/cpuinfo": _cpuinfo("AuthenticAMD", "hypervisor"), "sys/devices/system/cpu/sev/vmpl": "0"},
            "sev-snp",
            "vmpl",
        ),
        # The flags of an AMD guest are those of its host: they prove nothing, and so does their absence.
        ({"proc/cpuinfo": _cpuinfo("AuthenticAMD", "hypervisor sev sev_es sev_snp")}, None, "does not rule"),
        ({}, None, "no CPU flags"),
    ],
)
def test_tee(tmp_path: Path, files: dict[str, str], tee: str | None, evidence: str) -> None:
    machine = read_machine(_root(tmp_path, files))
    assert machine.tee == tee
    assert evidence in machine.tee_evidence


def test_machine_facts(tmp_path: Path) -> None:
    files = {
        "proc/cpuinfo": _cpuinfo("GenuineIntel", "hypervisor")
        + _cpuinfo("GenuineIntel", "").replace("id\t: 0", "id\t: 1"),
        "proc/meminfo": "MemTotal:       1024 kB\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1\n",
        "sys/class/dmi/id/sys_vendor": "QEMU\n",
        "sys/class/dmi/id/product_name": "Standard PC\n",
        "sys/devices/system/node/node0/cpulist": "0-15\n",
        "sys/devices/system/node/node10/cpulist": "16-31\n",
        "etc/os-release": 'NAME="X"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n',
        ".dockerenv": "",
    }
    machine = read_machine(_root(tmp_path, files))
    assert machine.cpu_model == "A CPU"
    assert machine.sockets == 2
    assert machine.memory_bytes == 1 << 20
    assert machine.driver_kind == "open"
    assert machine.virtual_machine == "QEMU Standard PC"
    assert dict(machine.numa) == {"0": "0-15", "10": "16-31"}
    assert machine.distribution == "Ubuntu 24.04.3 LTS"
    assert machine.container == "docker"


def _executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_interpreter_of_a_command(tmp_path: Path) -> None:
    console_script = _executable(tmp_path / "vllm", f"#!{sys.executable}\nprint()\n")
    through_env = _executable(tmp_path / "tool", "#!/usr/bin/env python3\n")
    binary = _executable(tmp_path / "server", "\x7fELF")
    python = os.path.realpath(sys.executable)
    for command in (
        [sys.executable, "serve.py"],
        ["env", "X=1", sys.executable, "serve.py"],
        ["taskset", "-c", "0-3", sys.executable, "-m", "vllm"],
        [str(console_script), "serve"],
    ):
        found = find_interpreter(command)
        assert found is not None
        assert os.path.realpath(found) == python, command
    assert find_interpreter([str(through_env)]) is not None
    assert find_interpreter([str(binary)]) is None
    assert find_interpreter(["no-such-command-anywhere"]) is None


def test_packages_of_the_programs_own_interpreter(tmp_path: Path) -> None:
    info = tmp_path / "vllm-0.26.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.26.0\n")
    packages = read_packages([sys.executable, "x.py"], {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert packages.versions["vllm"] == "0.26.0"
    assert packages.python == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize("body", ["exit 3", "echo not json", "echo '[]'", "kill -9 $$"])
def test_a_broken_interpreter_is_not_known(tmp_path: Path, body: str) -> None:
    fake = _executable(tmp_path / "python3", f"#!/bin/sh\n{body}\n")
    assert read_packages([str(fake), "x.py"], os.environ) == Packages()


def test_a_question_to_the_interpreter_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent("import sys\nprint('noise')\nprint('n', file=sys.stderr)\n")
    )
    packages = read_packages([sys.executable, "x.py"], {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert packages.python is not None
    assert capfd.readouterr() == ("", "")


def test_what_the_user_set_is_not_overwritten() -> None:
    snapshot = without_nvml("nobody asked")
    known = Acceptance(hardware=Hardware(cpu_model="as I say"))
    filled = fill_acceptance(
        known, snapshot, Packages("3.12.1", {"torch": "2.11", "nvidia-nccl-cu13": "2.28.9"})
    )
    assert filled.hardware.cpu_model == "as I say"
    assert filled.hardware.cpus == len(os.sched_getaffinity(0))
    assert filled.software.nccl == "2.28.9"
    assert filled.software.frameworks == {"torch": "2.11", "nvidia-nccl-cu13": "2.28.9"}
