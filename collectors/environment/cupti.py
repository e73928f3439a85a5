"""Where a libcupti lies that the collector could load into a program."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

LIBCUPTI_VARIABLE: Final = "CCTRACE_LIBCUPTI"

_NAMES: Final = ("libcupti.so.13", "libcupti.so.12")
_WHEELS: Final = ("nvidia/cu13/lib", "nvidia/cuda_cupti/lib")
_TOOLKITS: Final = ("extras/CUPTI/lib64", "lib64", "lib")
_SYSTEM: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


def find_libcupti(environment: Mapping[str, str], interpreter: str | None = None) -> Path | None:
    """Returns the first libcupti: named by the user, of the interpreter, of a toolkit, the system.

    A program that has one mapped already gets that one; this is for those that have not.

    Args:
        environment: environment of the program.
        interpreter: Python of the program; its packages are looked at first.
    """
    chosen = environment.get(LIBCUPTI_VARIABLE)
    if chosen:
        return Path(chosen) if Path(chosen).is_file() else None
    for folder in _folders(environment, interpreter):
        for name in _NAMES:
            if (folder / name).is_file():
                return folder / name
    return None


def _folders(environment: Mapping[str, str], interpreter: str | None) -> Iterator[Path]:
    for entry in environment.get("LD_LIBRARY_PATH", "").split(":"):
        if entry:
            yield Path(entry)
    for packages in (*_site_packages_of(interpreter), *_own_site_packages()):
        for wheel in _WHEELS:
            yield Path(packages) / wheel
    toolkits = [environment.get("CUDA_HOME", ""), environment.get("CUDA_PATH", "")]
    toolkits += sorted((str(path) for path in Path("/usr/local").glob("cuda*")), reverse=True)
    for toolkit in toolkits:
        if toolkit:
            for folder in _TOOLKITS:
                yield Path(toolkit) / folder
    yield from map(Path, _SYSTEM)


def _own_site_packages() -> Sequence[str]:
    return [*site.getsitepackages(), *(entry for entry in sys.path if entry.endswith("-packages"))]


def _site_packages_of(interpreter: str | None) -> list[str]:
    """Packages of another interpreter, by the layout of installations: nothing is run."""
    if interpreter is None:
        return []
    # The link itself, not what it points to: a virtual environment's python is a link to the system's.
    prefix = Path(os.path.abspath(interpreter)).parent.parent
    return sorted(str(path) for path in prefix.glob("lib/python3*/*-packages"))
