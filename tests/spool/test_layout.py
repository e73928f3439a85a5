import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cctrace.collectors.spool import layout
from cctrace.trace.schema import COPY_KINDS, MEMORY_KINDS, OPERATIONS

RECORD_H = Path(__file__).parents[2] / "collectors/native/record.h"


def declared(name: str) -> dict[str, int]:
    """Members of an enum of record.h."""
    body = re.search(rf"enum (?:class )?{name} : \w+ \{{(.*?)\}};", RECORD_H.read_text(), re.DOTALL)
    assert body, name
    return {member: int(value) for member, value in re.findall(r"(\w+) =\s*(\d+)", body[1])}


def snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name.removeprefix("k")).lower()


@pytest.mark.parametrize(("name", "ours"), [("Kind", layout.Kind), ("Operation", layout.Operation)])
def test_enums_are_those_of_the_collector(name: str, ours: type) -> None:
    assert {member.name.lower(): int(member) for member in ours} == declared(name)


def test_flags_are_those_of_the_collector() -> None:
    assert {member.name.lower(): int(member) for member in layout.Flag} == {
        snake(name): value for name, value in declared("Flag").items()
    }


def test_memory_and_copy_codes_are_those_of_the_collector() -> None:
    memory = {snake(name).removeprefix("mem_"): code for name, code in declared("Memory").items()}
    assert memory == {word: code for code, word in enumerate(layout.MEMORY_CODES)}
    names = {"kNoCopy": "", "kOtherCopy": "other"}
    copies = {names.get(n, n.removeprefix("k").lower()): code for n, code in declared("CopyKind").items()}
    assert copies == {word: code for code, word in enumerate(layout.COPY_CODES)}


def test_the_trace_has_a_word_for_every_code() -> None:
    words = {op.name.lower().replace("_", "-") for op in layout.Operation if op}
    assert words == set(OPERATIONS)
    assert set(layout.MEMORY_CODES) == set(MEMORY_KINDS)
    assert set(layout.COPY_CODES[1:]) == set(COPY_KINDS)


def test_magic_and_version() -> None:
    text = RECORD_H.read_text()
    assert f"kSpoolMagic = 0x{layout.MAGIC:08x}" in text
    assert f"kSpoolVersion = {layout.VERSION};" in text
    assert f"kNoDevice = 0x{layout.NO_DEVICE:04x}" in text


def test_offsets_and_sizes_are_those_of_the_compiler(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    fields = layout.RECORD.names
    assert fields is not None
    lines = "".join(
        f'std::printf("{f} %zu %zu\\n", offsetof(Record, {f}), sizeof(Record::{f}));' for f in fields
    )
    source = tmp_path / "offsets.cpp"
    source.write_text(
        "#include <cstddef>\n#include <cstdio>\n"
        f'#include "{RECORD_H}"\nusing cctrace::Record;\n'
        f'int main() {{ {lines} std::printf("Record 0 %zu\\n", sizeof(Record)); }}\n'
    )
    program = tmp_path / "offsets"
    subprocess.run([compiler, "-std=c++17", "-Wno-invalid-offsetof", source, "-o", program], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    found = {name: (int(offset), int(size)) for name, offset, size in map(str.split, printed.splitlines())}
    ours = {f: (layout.RECORD.fields[f][1], layout.RECORD.fields[f][0].itemsize) for f in fields}  # type: ignore[index]
    assert found == {**ours, "Record": (0, layout.RECORD_BYTES)}
