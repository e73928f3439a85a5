"""Stand-ins for the driver and NVML, and the command line on top of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
FAKE = Path(__file__).with_name("fake")
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))


def fake_gpu(number: int = 0, **values: Any) -> dict[str, Any]:
    return {"bus": f"0000:00:0{6 + number}.0", **values}


class Machine:
    """A machine with fake GPUs; commands run in processes of their own."""

    def __init__(self, folder: Path, library: str) -> None:
        self.folder = folder
        self.log = folder / "driver.log"
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CCTRACE_", "LD_PRELOAD", "CUDA_"))
        }
        self.site = folder / "site"
        paths = [str(self.site), str(FAKE), kept.get("PYTHONPATH", "")]
        self.environment = {
            **kept,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "CCTRACE_LIBRARY": library,
            "FAKE_LOG": str(self.log),
            "COLUMNS": "200",
        }
        self.gpus(fake_gpu())
        self._site("")

    def gpus(self, *gpus: dict[str, Any], **values: Any) -> None:
        self.environment["FAKE_GPUS"] = json.dumps({"gpus": gpus, **values})

    def without_bindings(self) -> None:
        """As if cuda-python were not installed: its module cannot be imported."""
        self._site("import sys\nsys.modules['cuda.bindings.driver'] = None\n")

    def limit(self, seconds: float) -> None:
        """Shortens the wait for the helper."""
        self._site(
            "import sys\n"
            "if 'cctrace.cli' in sys.orig_argv:\n"
            "    import cctrace.collectors.state.check as module\n"
            "    assert module.LIMIT_S and module.PATIENT_LIMIT_S\n"
            f"    module.LIMIT_S = {seconds}\n"
        )

    def _site(self, text: str) -> None:
        self.site.mkdir(exist_ok=True)
        (self.site / "sitecustomize.py").write_text(f"import fake_clock\n{text}")

    def events(self) -> list[str]:
        """What the driver was asked, without the process ids."""
        if not self.log.exists():
            return []
        return [line.split(" ", 1)[1].strip() for line in self.log.read_text().splitlines()]

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cctrace.cli", *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def record(
        self, *options: str, code: str = "pass", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        program = ("--", sys.executable, "-c", code)
        return self.run("record", "-o", "t.parquet", "--force", *options, *program, **environment)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    # Preloaded, any library stands for the collector.
    maps = Path("/proc/self/maps").read_text()
    match = re.search(r"(/\S+/libm\.so\.6)$", maps, re.MULTILINE)
    if match is None:
        pytest.skip("libm is not mapped")
    return Machine(tmp_path, match[1])


@pytest.fixture(name="fake_gpu")
def fake_gpu_fixture() -> Callable[..., dict[str, Any]]:
    return fake_gpu
