"""Where the native collector lies, and whether this machine can load it."""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from cctrace.errors import CollectorMissingError

LIBRARY_NAME: Final = "libcctrace.so"
LIBRARY_VARIABLE: Final = "CCTRACE_LIBRARY"
"""Names the library: set by a developer to choose one, and by `record` for the recorded program."""

_ELF_MAGIC: Final = b"\x7fELF"
_ELF_MACHINES: Final = {62: "x86_64", 183: "aarch64", 3: "i386", 40: "arm", 21: "ppc64le", 243: "riscv64"}
"""`e_machine` of the ELF specification → the name that `uname -m` uses."""
_ELF_SHARED_OBJECT: Final = 3


def elf_machine(path: Path) -> str:
    """Returns the machine that the shared object `path` was built for, in the words of `uname -m`.

    Raises:
        CollectorMissingError: the file cannot be read, or is no 64-bit little-endian shared object.
    """
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError as error:
        raise CollectorMissingError(f"cannot read the native collector {path}: {error.strerror}") from error
    if len(head) < 20 or head[:4] != _ELF_MAGIC:
        raise CollectorMissingError(f"{path} is not an ELF shared object; reinstall cctrace")
    if head[4] != 2 or head[5] != 1:
        raise CollectorMissingError(f"{path} is not a 64-bit little-endian shared object; reinstall cctrace")
    kind, machine = struct.unpack_from("<HH", head, 16)
    if kind != _ELF_SHARED_OBJECT:
        raise CollectorMissingError(f"{path} is an ELF file but not a shared object; reinstall cctrace")
    return _ELF_MACHINES.get(machine, f"ELF machine {machine}")


def _candidates() -> Iterator[Path]:
    """Places of the library: beside this module (wheel), and on the package's path (editable install)."""
    import cctrace  # noqa: PLC0415 - its path is only known once it is imported
    import cctrace.collectors  # noqa: PLC0415

    folders = [Path(__file__).parent]
    folders += [Path(entry) for entry in cctrace.collectors.__path__]
    folders += [Path(entry) / "collectors" for entry in cctrace.__path__]
    for folder in dict.fromkeys(folders):
        yield folder / LIBRARY_NAME
    # An editable install of scikit-build-core leaves the object in site-packages while the sources stay in
    # the tree.
    import sysconfig  # noqa: PLC0415

    for key in ("platlib", "purelib"):
        yield Path(sysconfig.get_paths()[key]) / "cctrace" / "collectors" / LIBRARY_NAME


def find_library(environment: Mapping[str, str] | None = None) -> Path:
    """Returns the absolute path of the native collector for this machine.

    Args:
        environment: where `CCTRACE_LIBRARY` is looked up; the process environment if None. If it is set,
            nothing else is tried.

    Raises:
        CollectorMissingError: there is none, or it was built for another machine.
    """
    chosen = (os.environ if environment is None else environment).get(LIBRARY_VARIABLE)
    if chosen:
        path = Path(chosen).resolve()
        if not path.is_file():
            raise CollectorMissingError(f"{LIBRARY_VARIABLE} names {chosen}, which is not a file")
    else:
        found = next((place for place in _candidates() if place.is_file()), None)
        if found is None:
            raise CollectorMissingError(
                f"{LIBRARY_NAME} is not in this installation, so nothing can be recorded here "
                "(traces can still be read). Install cctrace from a wheel, or on Linux with a C++17 compiler"
            )
        path = found.resolve()
    machine = elf_machine(path)
    if machine != platform.machine():
        raise CollectorMissingError(
            f"{path} was built for {machine}, this machine is {platform.machine()}; reinstall cctrace here"
        )
    if ":" in str(path) or any(character.isspace() for character in str(path)):
        raise CollectorMissingError(
            f"the native collector lies at {str(path)!r}; LD_PRELOAD cannot name a path with spaces or "
            f"colons. Install cctrace elsewhere, or copy the library and set {LIBRARY_VARIABLE}"
        )
    return path
