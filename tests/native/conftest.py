"""Builds the collector, the stand-in driver and the test programs once, and runs programs under them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from cctrace.collectors.record.control import CONTROL_MAGIC, CONTROL_NAME, FIELDS, PAGE_BYTES, offset_of
from cctrace.collectors.spool.layout import RECORD, Kind

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NATIVE = ROOT / "collectors" / "native"
TIMEOUT_S = 60


def cuda_include() -> Path | None:
    """The folder with the headers of CUDA, CUPTI and NVTX: from the wheels or a toolkit."""
    folders = [Path(p) / "nvidia" / "cu13" / "include" for p in sys.path]
    folders.append(Path("/usr/local/cuda/include"))
    wanted = ("cuda.h", "cupti.h", "nvtx3/nvToolsExt.h")
    return next((d for d in folders if all((d / w).is_file() for w in wanted)), None)


def cmake(source: Path, build: Path, *options: str) -> None:
    """Configures and builds a project, or fails with its output. Only what has changed is compiled again."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    tool = shutil.which("cmake", path=path)
    assert tool, "cmake is needed to test the native collector: pip install cmake"
    generator = ["-G", "Ninja"] if shutil.which("ninja", path=path) else []
    env = os.environ | {"PATH": path}
    for command in ([tool, "-S", source, "-B", build, *generator, *options], [tool, "--build", build, "-j2"]):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


@dataclass(frozen=True)
class Built:
    """Where the build put things."""

    library: Path
    folder: Path

    @property
    def libcupti(self) -> Path:
        """The stand-in for CUPTI."""
        return self.folder / "libcupti.so.13"

    def app(self, name: str) -> str:
        """A test program."""
        return str(self.folder / name)


@pytest.fixture(scope="session")
def built() -> Built:
    """The collector and its stand-ins; the build folder is kept between sessions."""
    include = cuda_include()
    if include is None:
        pytest.skip(
            "no CUDA headers: pip install nvidia-cuda-cupti nvidia-cuda-runtime nvidia-cuda-crt nvidia-nvtx"
        )
    key = hashlib.sha256(f"{ROOT}\0{include}".encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"cctrace-native-{os.getuid()}-{key}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cmake(
            ROOT,
            folder / "collector",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DCCTRACE_CUDA_INCLUDE={include}",
            "-DCCTRACE_WERROR=ON",
        )
        cmake(HERE, folder / "mocks", f"-DCUDA_INCLUDE={include}")
    return Built(folder / "collector" / "libcctrace.so", folder / "mocks")


class Spool:
    """One spool file, read."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        self.path = path
        self.torn = len(raw) % RECORD.itemsize
        blocks = np.frombuffer(raw[: len(raw) - self.torn], dtype=RECORD)
        self.texts: dict[int, str] = {0: ""}
        keep = []
        at = 0
        while at < len(blocks):
            block = blocks[at]
            at += 1
            if block["kind"] != Kind.STRING:
                keep.append(at - 1)
                continue
            size = int(block["bytes"])
            begin = at * RECORD.itemsize
            self.texts[int(block["name"])] = raw[begin : begin + size].decode()
            at += -(-size // RECORD.itemsize)
        self.records: npt.NDArray[np.void] = blocks[keep]

    @property
    def pid(self) -> int:
        """The process that wrote it."""
        return int(self.records[0]["tid"])

    def of(self, kind: Kind) -> npt.NDArray[np.void]:
        """The records of one kind."""
        return self.records[self.records["kind"] == kind]

    def name(self, record: np.void) -> str:
        """The text that a record's name refers to."""
        return self.texts[int(record["name"])]

    def named(self, name: str, kind: Kind = Kind.CALL) -> npt.NDArray[np.void]:
        """The records of one kind with this name."""
        ids = [i for i, text in self.texts.items() if text == name]
        records = self.of(kind)
        return records[np.isin(records["name"], ids)]

    def names(self, kind: Kind) -> list[str]:
        """The names of all records of one kind."""
        return [self.name(r) for r in self.of(kind)]

    def states(self) -> dict[str, tuple[str, int]]:
        """The collector's facts: key to text and number, the last one of each key."""
        return {self.name(r): (self.texts[int(r["link"])], int(r["object"])) for r in self.of(Kind.STATE)}

    def losses(self) -> dict[str, int]:
        """What was not kept: reason to count."""
        lost: dict[str, int] = {}
        for r in self.of(Kind.LOSS):
            lost[self.name(r)] = lost.get(self.name(r), 0) + int(r["object"])
        return lost


@dataclass(frozen=True)
class Recording:
    """What a program did, and what was recorded of it."""

    code: int
    out: str
    err: str
    folder: Path
    spools: list[Spool] = field(default_factory=list)

    @property
    def spool(self) -> Spool:
        """The only spool."""
        assert len(self.spools) == 1, [s.path.name for s in self.spools] + [self.err]
        return self.spools[0]

    def of_pid(self, pid: int) -> Spool:
        """The spool of one process."""
        (spool,) = (s for s in self.spools if s.pid == pid)
        return spool


class Runner:
    """Starts programs under the collector and the stand-in driver."""

    def __init__(self, built: Built, folder: Path) -> None:
        self.built = built
        self.folder = folder

    def environment(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        """As `cctrace record` sets it, plus the stand-in driver."""
        env = {
            k: v for k, v in os.environ.items() if not k.startswith(("CCTRACE_", "CUDA_", "NVTX_", "MOCK_"))
        }
        env.update(
            LD_LIBRARY_PATH=str(self.built.folder),
            LD_PRELOAD=str(self.built.library),
            CCTRACE_SPOOL=str(self.folder),
            CCTRACE_LIBRARY=str(self.built.library),
            CCTRACE_GPU="none",
            NVTX_INJECTION64_PATH=str(self.built.library),
        )
        env.update(extra or {})
        if env["CCTRACE_GPU"] in {"graphs", "nodes"}:
            env.setdefault("CUDA_INJECTION64_PATH", str(self.built.library))
        return env

    def start(self, command: list[str], env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts a program and leaves it running."""
        return subprocess.Popen(
            command,
            env=self.environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )

    def finish(self, process: subprocess.Popen[str]) -> Recording:
        """Waits for it and reads what was recorded."""
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"{process.args} hangs\n{out}\n{err}")
        return Recording(process.returncode, out, err, self.folder, self.read())

    def read(self) -> list[Spool]:
        """The spools so far."""
        return [Spool(p) for p in sorted(self.folder.glob("*.spool"))]

    def run(self, command: list[str], **env: str) -> Recording:
        """Runs a program to its end; keyword arguments go to its environment."""
        return self.finish(self.start(command, env))

    def write_control(self, **values: int) -> Path:
        """A control page with these fields; the others are zero."""
        page = self.folder / CONTROL_NAME
        fields = {"magic": CONTROL_MAGIC, **values}
        layout = "<" + "".join(code for _, code in FIELDS)
        content = struct.pack(layout, *(fields.get(name, 0) for name, _ in FIELDS))
        page.write_bytes(content.ljust(PAGE_BYTES, b"\0"))
        return page

    def change_control(self, **values: int) -> None:
        """Changes fields of the page that running programs look at, one after the other."""
        with (self.folder / CONTROL_NAME).open("r+b", buffering=0) as page:
            for name, value in values.items():
                page.seek(offset_of(name))
                page.write(struct.pack("<" + dict(FIELDS)[name], value))

    def write_script(self, code: str) -> Path:
        """Such code as a file."""
        script = self.folder / "script.py"
        script.write_text(PRELUDE + code)
        return script

    def start_python(self, code: str, **env: str) -> subprocess.Popen[str]:
        """Starts Python code that finds the stand-in driver as `cuda`, and a few helpers (see PRELUDE)."""
        return self.start([sys.executable, str(self.write_script(code))], env)

    def python(self, code: str, **env: str) -> Recording:
        """Runs such code to its end."""
        return self.finish(self.start_python(code, **env))


PRELUDE = """
import ctypes, os, sys, threading, time
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
cuda.mock_calls.restype = c_uint64
def check(result):
    assert result == 0, result
def stream():
    s = c_void_p()
    check(cuda.cuStreamCreate(byref(s), 1))
    return s
def launch(s=None, function=None, parameters=None):
    check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, s, parameters, None))
def pinned(size):
    p = c_void_p()
    check(cuda.cuMemHostAlloc(byref(p), c_size_t(size), 0))
    return p
def device(size):
    p = c_uint64()
    check(cuda.cuMemAlloc_v2(byref(p), c_size_t(size)))
    return p
def function(name):
    module, f = c_void_p(), c_void_p()
    check(cuda.cuModuleLoadData(byref(module), b"image"))
    check(cuda.cuModuleGetFunction(byref(f), module, name))
    return f
def end_capture(s):
    graph = c_void_p()
    check(cuda.cuStreamEndCapture(s, byref(graph)))
    return graph
def instantiate(graph):
    executable = c_void_p()
    check(cuda.cuGraphInstantiateWithFlags(byref(executable), graph, c_uint64(0)))
    return executable
def start():
    check(cuda.cuInit(0))
    context = c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
"""


@pytest.fixture
def recorder(built: Built, tmp_path: Path) -> Runner:
    """Runs programs; every test has a spool folder of its own."""
    return Runner(built, tmp_path)


@dataclass(frozen=True)
class TableRow:
    """One row of driver_api.def."""

    operation: str
    name: str
    version: int
    symbol: str
    suffix: str
    flags: str

    def __str__(self) -> str:
        return f"{self.symbol}-{self.version}"


def table_rows() -> list[TableRow]:
    """All rows of the collector's table of entry points."""
    pattern = re.compile(r'^API\((\w+), (\w+), (\d+), (\w+), "(\w*)", \w+, \w+, (\w+)\)$', re.MULTILINE)
    text = (NATIVE / "driver_api.def").read_text()
    rows = [TableRow(o, n, int(v), s, x, f) for o, n, v, s, x, f in pattern.findall(text)]
    assert len(rows) == len(re.findall(r"^API\(", text, re.MULTILINE))
    return rows


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`row` runs over the table, so that every entry point has a test of its own.

    `per_thread_row` runs over those that make records and have a flavour for per-thread default streams.
    """
    rows = table_rows()
    per_thread = [r for r in rows if r.suffix and r.operation != "none"]
    for name, chosen in {"row": rows, "per_thread_row": per_thread}.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, chosen, ids=str)


@pytest.fixture(scope="session")
def every_call(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recording]:
    """Recording of the program that makes every call once through a door; one run a door."""
    done: dict[str, Recording] = {}

    def run(door: str) -> Recording:
        if door not in done:
            done[door] = Runner(built, tmp_path_factory.mktemp(door)).run([built.app("every_call"), door])
        return done[door]

    return run
