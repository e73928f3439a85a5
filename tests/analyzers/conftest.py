import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cctrace.trace import Metadata, TraceWriter

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from command_line import run_main

WriteTrace = Callable[..., Path]


@pytest.fixture
def write_trace(tmp_path: Path) -> WriteTrace:
    """Writes a table as a trace file: `write_trace(name, table, **metadata)`."""

    def write(name: str, table: pa.Table, metadata: Metadata | None = None, **values: Any) -> Path:
        path = tmp_path / f"{name}.parquet"
        with TraceWriter(path) as writer:
            if table.num_rows:
                writer.write(table)
            writer.finish(metadata or Metadata(**values))
        return path

    return write


@pytest.fixture
def run_cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in this process, 80 columns wide: as `run_process`, but ten times faster."""
    return partial(run_main, monkeypatch, capsys)


@pytest.fixture
def run_process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `cctrace` in a process of its own, with its output in a pipe of 80 columns."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cctrace.cli", *map(str, arguments)],
            cwd="/",  # here `cctrace` would be the folder, a part of the package only
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "COLUMNS": "80", **environment},
        )

    return run
