import platform
from pathlib import Path

import pytest

from cctrace.collectors.library import elf_machine, find_library
from cctrace.errors import CollectorMissingError


def _elf(path: Path, *, bits: int = 2, order: int = 1, kind: int = 3, machine: int = 62) -> Path:
    path.write_bytes(
        b"\x7fELF"
        + bytes((bits, order))
        + bytes(10)
        + kind.to_bytes(2, "little")
        + machine.to_bytes(2, "little")
        + bytes(44)
    )
    return path


def test_machines_have_the_names_of_uname(tmp_path: Path) -> None:
    assert elf_machine(_elf(tmp_path / "a", machine=62)) == "x86_64"
    assert elf_machine(_elf(tmp_path / "b", machine=183)) == "aarch64"
    assert elf_machine(_elf(tmp_path / "c", machine=8)) == "ELF machine 8"


def test_the_library_of_this_machine(any_library: Path) -> None:
    assert elf_machine(any_library) == platform.machine()
    assert find_library({"CCTRACE_LIBRARY": str(any_library)}) == any_library.resolve()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bits": 1}, "64-bit"),
        ({"order": 2}, "little-endian"),
        ({"kind": 2}, "not a shared object"),
        ({"machine": 8}, "built for ELF machine 8"),
    ],
)
def test_libraries_that_cannot_be_loaded(tmp_path: Path, change: dict[str, int], said: str) -> None:
    path = _elf(tmp_path / "lib.so", **change)
    with pytest.raises(CollectorMissingError, match=said):
        find_library({"CCTRACE_LIBRARY": str(path)})


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "not an ELF"), (b"text", "not an ELF"), (b"\x7fELF", "not an ELF")]
)
def test_files_that_are_no_library(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(content)
    with pytest.raises(CollectorMissingError, match=said):
        find_library({"CCTRACE_LIBRARY": str(path)})


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CollectorMissingError, match="not a file"):
        find_library({"CCTRACE_LIBRARY": str(tmp_path / "none.so")})


def test_a_path_that_ld_preload_cannot_name(tmp_path: Path, any_library: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    path = folder / "libcctrace.so"
    path.write_bytes(any_library.read_bytes())
    with pytest.raises(CollectorMissingError, match="spaces or colons"):
        find_library({"CCTRACE_LIBRARY": str(path)})
