"""The environment of a recorded program: it makes the loader, the driver and NVTX load the collector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cctrace.collectors.environment.cupti import LIBCUPTI_VARIABLE
from cctrace.errors import UnusableInputError

GPU_MODES: Final = ("none", "stamps", "graphs", "nodes")
"""How GPU times are taken; see the command `record`."""
CUPTI_MODES: Final = ("graphs", "nodes")
"""The modes that need CUPTI. They distort host times, and production CC refuses them."""

STAMP_EVERY: Final = 16
"""One eager step in so many is stamped: two kernels of about 1.4 µs in 16 steps are below 0.1 % of any
step."""

_STEP_SEPARATOR: Final = ";"
_CUDA_INJECTION: Final = "CUDA_INJECTION64_PATH"
_NVTX_INJECTION: Final = "NVTX_INJECTION64_PATH"


@dataclass(frozen=True)
class ChildEnvironment:
    """The variables of the recorded program, and what the user must be told about them."""

    variables: Mapping[str, str]
    notes: tuple[str, ...]


def child_environment(
    base: Mapping[str, str],
    *,
    library: Path,
    spool: Path,
    gpu_mode: str,
    step_patterns: Sequence[str] = (),
    emulation: str | None = None,
    libcupti: Path | None = None,
) -> ChildEnvironment:
    """Returns `base` with the variables by which a program is recorded.

    Args:
        base: the environment that the program would have had.
        library: the native collector.
        spool: the spool folder.
        gpu_mode: one of `GPU_MODES`.
        step_patterns: fnmatch patterns of the NVTX labels that mark steps.
        emulation: value of `CCTRACE_EMULATE`, if costs are charged.
        libcupti: for a program that brings none itself.

    Raises:
        UnusableInputError: a setting of the user and one of ours exclude each other.
    """
    _check(base, gpu_mode, step_patterns)
    variables = dict(base)
    variables["CCTRACE_SPOOL"] = str(spool)
    variables["CCTRACE_LIBRARY"] = str(library)
    variables["CCTRACE_GPU"] = gpu_mode
    variables.setdefault("CCTRACE_KERNEL_NAMES", "1")
    variables.setdefault("CCTRACE_STAMP_EVERY", str(STAMP_EVERY))
    existing = base.get("LD_PRELOAD", "")
    variables["LD_PRELOAD"] = f"{library}:{existing}" if existing else str(library)
    _set_or_drop(variables, "CCTRACE_STEP_PATTERN", _STEP_SEPARATOR.join(step_patterns))
    _set_or_drop(variables, "CCTRACE_EMULATE", emulation or "")
    if gpu_mode in CUPTI_MODES:
        variables[_CUDA_INJECTION] = str(library)
        if libcupti is not None:
            variables.setdefault(LIBCUPTI_VARIABLE, str(libcupti))
    other = base.get(_NVTX_INJECTION)
    if other:
        stays = f"{_NVTX_INJECTION} is already set ({other}) and stays"
        return ChildEnvironment(variables, (f"{stays}: the program's NVTX labels are not recorded",))
    variables[_NVTX_INJECTION] = str(library)
    return ChildEnvironment(variables, ())


def _check(base: Mapping[str, str], gpu_mode: str, step_patterns: Sequence[str]) -> None:
    """Raises `UnusableInputError` where a setting of the user and one of ours exclude each other."""
    bad = next((pattern for pattern in step_patterns if not pattern or _STEP_SEPARATOR in pattern), None)
    if bad is not None:
        raise UnusableInputError(
            f"--step {bad!r}: a pattern must not be empty or contain {_STEP_SEPARATOR!r}"
        )
    if "CCTRACE_SPOOL" in base:
        raise UnusableInputError(
            "this shell is itself recorded by cctrace (CCTRACE_SPOOL is set); recordings cannot be nested"
        )
    other = base.get(_CUDA_INJECTION) if gpu_mode in CUPTI_MODES else None
    if other:
        raise UnusableInputError(
            f"{_CUDA_INJECTION} is already set ({other}): another tool wants the place that "
            f"--gpu {gpu_mode} needs. Unset it, or record with --gpu stamps"
        )


def _set_or_drop(variables: dict[str, str], name: str, value: str) -> None:
    """Sets a variable, or removes a stray one that would change what is recorded."""
    if value:
        variables[name] = value
    else:
        variables.pop(name, None)
