import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cctrace.cli import main

FAKE_PROGRAM = Path(__file__).with_name("fake_program.py")
TIMEOUT_S = 60.0


@pytest.fixture(scope="session")
def any_library() -> Path:
    """A shared object of this machine that does nothing when preloaded: the supervisor needs no more."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        match = re.search(r"(/\S+/libm\.so\.6)$", line)
        if match:
            return Path(match[1])
    pytest.skip("libm is not mapped")


def clean_environment(any_library: Path) -> dict[str, str]:
    """An environment in which `any_library` stands for the collector."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("CCTRACE_", "LD_PRELOAD"))
    }
    for name in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"):
        kept.pop(name, None)
    return {**kept, "CCTRACE_LIBRARY": str(any_library)}


@pytest.fixture
def environment(any_library: Path) -> dict[str, str]:
    """A clean environment of a test's own."""
    return clean_environment(any_library)


class Cctrace:
    """Runs the command line in a folder of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.processes: list[subprocess.Popen[Any]] = []

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "cctrace.cli", *arguments]

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*arguments),
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def start(self, *arguments: str, **options: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.argv(*arguments),
            cwd=self.folder,
            env=self.environment,
            text=True,
            **{"start_new_session": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},  # type: ignore[call-overload]
        )
        self.processes.append(process)
        return process

    def set_limit(self, module: str, name: str, value: float) -> None:
        """Sets a limit of the command line, where the real one would only make the test last longer."""
        self.prepare(
            f"import {module} as module\nassert hasattr(module, {name!r})\nmodule.{name} = {value}\n"
        )

    def prepare(self, code: str) -> None:
        """Lets every command line run `code` before anything else."""
        folder = self.folder / "before"
        if not folder.exists():
            folder.mkdir()
            (folder / "sitecustomize.py").write_text("import sys\n")
            paths = [str(folder), self.environment.get("PYTHONPATH", "")]
            self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        with (folder / "sitecustomize.py").open("a") as file:
            file.write("if 'cctrace.cli' in sys.orig_argv:\n" + textwrap.indent(code, "    "))

    def record(
        self, *options: str, program: tuple[str, ...] = (), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """`cctrace record OPTIONS -- fake_program PROGRAM`; writes t.parquet unless the options say else."""
        return self.run(*self.record_arguments(*options, program=program), **environment)

    def start_record(
        self, *options: str, program: tuple[str, ...] = (), **popen: object
    ) -> subprocess.Popen[str]:
        return self.start(*self.record_arguments(*options, program=program), **popen)

    def record_arguments(self, *options: str, program: tuple[str, ...]) -> list[str]:
        output = [] if "-o" in options else ["-o", "t.parquet"]
        return ["record", *output, *options, "--", sys.executable, str(FAKE_PROGRAM), *program]

    @property
    def trace(self) -> Path:
        return self.folder / "t.parquet"

    def spools(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if ".spool-" in path.name)


@pytest.fixture
def cctrace(tmp_path: Path, environment: dict[str, str]) -> Iterator[Cctrace]:
    runner = Cctrace(tmp_path, environment)
    yield runner
    for process in runner.processes:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=TIMEOUT_S)
    for path in tmp_path.glob("*.pid"):  # fake programs that outlived their recorder
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.fixture(scope="session")
def failed(tmp_path_factory: pytest.TempPathFactory, any_library: Path) -> Path:
    """The spool of a recording of 12 calls whose trace could not be written."""
    runner = Cctrace(tmp_path_factory.mktemp("failed"), clean_environment(any_library))
    script = f"echo x > t.parquet; exec {sys.executable} {FAKE_PROGRAM} --calls 12"
    runner.run("record", "-o", "t.parquet", "--", "sh", "-c", script)
    (spool,) = runner.spools()
    return spool


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def in_process(
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., Said]]:
    """Runs the command line without a process of its own; for commands that start nothing."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["cctrace", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        code = ended.value.code
        return Said(code if isinstance(code, int) else 1, printed.out, printed.err)

    yield run
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def eventually(condition: Callable[[], object], timeout_s: float = 20.0) -> bool:
    """Waits until `condition` holds. Returns False if it does not within the time."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(name="eventually")
def eventually_fixture() -> Callable[..., bool]:
    return eventually
