import json
import os
import shutil
from pathlib import Path

import pytest

from cctrace.trace.reader import open_trace


@pytest.fixture
def spool(cctrace, failed: Path) -> Path:
    """The spool of a recording whose trace could not be written, in this test's folder."""
    folder = Path(shutil.copytree(failed, cctrace.folder / failed.name))
    for name in ("recorder.json", "recording.json"):
        text = (folder / name).read_text().replace(str(failed.parent), str(cctrace.folder))
        (folder / name).write_text(text)
    return folder


def test_recover_writes_where_the_recording_would_have(cctrace, spool: Path) -> None:
    done = cctrace.run("recover", str(spool), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document == {"trace": str(cctrace.trace), "rows": 12, "still_running": [], "spool_kept": False}
    assert open_trace(cctrace.trace).metadata.recording.exit_code == 0
    assert not spool.exists()


def test_keep(cctrace, spool: Path) -> None:
    assert cctrace.run("recover", str(spool), "--keep").returncode == 0
    assert spool.exists()
    again = cctrace.run("recover", str(spool))
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert spool.exists()
    assert cctrace.run("recover", str(spool), "--force").returncode == 0
    assert not spool.exists()


@pytest.mark.parametrize("name", ["recording.json", "recorder.json"])
@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"format_version": 1, "recording": 7}'])
def test_damaged_documents_do_not_cost_the_rows(
    in_process, spool: Path, name: str, content: str | None
) -> None:
    if content is None:
        (spool / name).unlink()
    else:
        (spool / name).write_text(content)
    done = in_process("recover", str(spool), "-o", "saved.parquet")
    assert done.returncode == 0, done.stderr
    assert open_trace(spool.parent / "saved.parquet").num_rows == 12


def test_a_folder_that_does_not_name_its_trace(cctrace, spool: Path) -> None:
    (spool / "recorder.json").unlink()
    done = cctrace.run("recover", str(spool))
    assert (done.returncode, "name one with -o" in done.stderr) == (2, True)
    assert spool.exists()


@pytest.mark.parametrize("kind", ["missing", "empty", "file", "foreign"])
def test_what_is_no_spool_folder(cctrace, in_process, kind: str) -> None:
    folder = cctrace.folder / "x"
    if kind == "file":
        folder.write_text("")
    elif kind != "missing":
        folder.mkdir()
    if kind == "foreign":
        (folder / "data.csv").write_text("1,2\n")
    done = in_process("recover", str(folder), "-o", "t.parquet")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert folder.exists() is (kind != "missing")
    assert not cctrace.trace.exists()


def test_a_newer_recording_is_refused(cctrace, spool: Path) -> None:
    document = json.loads((spool / "recording.json").read_text())
    (spool / "recording.json").write_text(json.dumps({**document, "format_version": 99}))
    done = cctrace.run("recover", str(spool))
    assert (done.returncode, "newer cctrace" in done.stderr) == (2, True)
    assert spool.exists()


BREAKS_CONVERSION = """
import sys
class Refusal:
    def find_spec(self, name, path, target=None):
        if name == "cctrace.collectors.spool.convert":
            raise ImportError("not to be had today")
sys.meta_path.insert(0, Refusal())
"""


def test_a_conversion_that_fails_in_any_way_keeps_the_recording(cctrace, tmp_path: Path) -> None:
    """For example a library that cannot import what it wants, which no conversion foresees."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(BREAKS_CONVERSION)
    path = os.pathsep.join(filter(None, [str(site), cctrace.environment.get("PYTHONPATH")]))
    done = cctrace.record(program=("--exit", "7"), PYTHONPATH=path)
    assert done.returncode == 7, done.stderr
    assert "not to be had today" in done.stderr
    assert "Traceback" not in done.stderr
    (folder,) = cctrace.spools()
    assert cctrace.run("recover", str(folder)).returncode == 0
    assert open_trace(cctrace.trace).num_rows == 10
