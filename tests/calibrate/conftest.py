import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))
TIMEOUT_S = 120.0


@pytest.fixture(scope="session")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1 and a libnccl.so.2 that cuda.bindings and we can load."""
    pytest.importorskip("cuda.bindings", reason="cuda-python is not installed")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("stubs")
    for source, library in (("stub_driver.c", "libcuda.so.1"), ("stub_nccl.c", "libnccl.so.2")):
        options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", f"-Wl,-soname,{library}"]
        command = [compiler, *options, "-o", str(folder / library), str(HERE / source), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


RunCli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_cli(tmp_path: Path) -> RunCli:
    """Runs the command line in a folder of its own, without a GPU unless the environment brings one."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CCTRACE_", "STUB_", "NCCL_", "LD_"))
    }

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cctrace", *map(str, arguments)],
            cwd=tmp_path,
            env={**clean, "COLUMNS": "80", **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    return run
