import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from converted import Convert, Converted
from spool_builder import SpoolBuilder, write_recording

from cctrace.collectors.spool import convert


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    path.mkdir()
    return path


@pytest.fixture
def to_trace(folder: Path, tmp_path: Path) -> Convert:
    """Writes spools (and a recording.json) and converts them."""

    def run(*spools: SpoolBuilder, recording: dict | None = None) -> Converted:
        for spool in spools:
            spool.write(folder)
        write_recording(folder, recording)
        return Converted(convert(folder, tmp_path / "t.parquet", force=True))

    return run
