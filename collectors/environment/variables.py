"""Which environment variables are stored with a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ALLOWED: Final = {
    "CUDA_": "visible devices, launch blocking, module loading, queue and connection limits",
    "NVIDIA_": "devices and capabilities that a container got",
    "NCCL_": "algorithm, protocol, transports, NVLS: they decide how much crosses NVLink",
    "VLLM_": "attention backend, compile and graph switches, worker start method",
    "SGLANG_": "scheduler and confidential-computing switches",
    "SGL_": "older names of the same",
    "TLLM_": "TensorRT LLM: profiling timer and scheduling switches",
    "TRTLLM_": "TensorRT LLM",
    "FLASHINFER_": "autotune timer, confidential-computing switch",
    "TORCH_": "NCCL and graph handling of torch",
    "TORCHINDUCTOR_": "what compilation fuses",
    "PYTORCH_": "allocator settings: they decide on allocations and frees in a step",
    "TRITON_": "kernel cache and compilation",
    "OMP_": "threads on the host",
    "MKL_": "threads on the host",
    "UCX_": "transports between hosts",
    "CCTRACE_": "settings of the recorder",
    "LD_PRELOAD": "other interposers: allocators, profilers",
    "LD_LIBRARY_PATH": "which CUDA libraries are loaded",
    "MALLOC_": "host allocator",
}
"""Variable, or prefix if it ends in `_`, → why it matters for the cost of a step."""

DENIED: Final = (
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASSCODE",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
)
"""A name with one of these words is never stored, even if `ALLOWED` would let it pass."""
_DENIED_ENDING: Final = "_PASS"

VISIBLE_DEVICES: Final = "CUDA_VISIBLE_DEVICES"

MAX_VALUE_CHARACTERS: Final = 1000
"""Longer values are cut: settings are short, and metadata is read with every trace."""


def is_stored(name: str) -> bool:
    """Returns True if the value of this variable may be stored."""
    upper = name.upper()
    if upper.endswith(_DENIED_ENDING) or any(word in upper for word in DENIED):
        return False
    return any(upper.startswith(entry) if entry.endswith("_") else upper == entry for entry in ALLOWED)


def stored_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns those variables of an environment that are stored, sorted by name."""
    return {name: variables[name][:MAX_VALUE_CHARACTERS] for name in sorted(variables) if is_stored(name)}


def visible_gpus(variables: Mapping[str, str], gpus: int) -> tuple[str, ...] | None:
    """Returns the GPUs that `CUDA_VISIBLE_DEVICES` leaves to a program, as it names them; None if all.

    As the CUDA Programming Guide describes it: a list of indices, or of (beginnings of) UUIDs, that ends at
    the first entry which names no GPU.

    Args:
        variables: an environment.
        gpus: GPUs of the machine.
    """
    if VISIBLE_DEVICES not in variables:
        return None
    visible: list[str] = []
    for entry in variables[VISIBLE_DEVICES].split(","):
        name = entry.strip()
        is_index = name.isascii() and name.isdigit() and int(name) < gpus
        if not is_index and not name.startswith(("GPU-", "MIG-")):
            break
        visible.append(name)
    return tuple(visible)
