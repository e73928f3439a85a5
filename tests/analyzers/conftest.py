import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cctrace.cli import main
from cctrace.trace import Metadata, TraceWriter

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))

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

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr(sys, "argv", ["cctrace", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, printed.out, printed.err)

    return run


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
