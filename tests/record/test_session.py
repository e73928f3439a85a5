"""Parts of a recording that are hard to bring about from outside."""

import os
import time
from pathlib import Path

import pytest

from cctrace.collectors.record import folder as spool_folder
from cctrace.collectors.record import session, signals
from cctrace.collectors.record.control import ControlPage, Window
from cctrace.collectors.record.settings import RecordSettings
from cctrace.errors import UnusableInputError


@pytest.fixture
def recording(tmp_path: Path) -> tuple[session._Recording, ControlPage, list[str]]:
    said: list[str] = []
    made = session._Recording(RecordSettings(("true",), tmp_path / "t.parquet"), said.append, set())
    made._folder = tmp_path
    made._control = ControlPage(tmp_path / "control")
    made._control.arm(Window(), time.monotonic_ns())
    return made, made._control, said


def test_a_disk_that_fills_up_ends_the_recording_and_not_the_command(recording, monkeypatch) -> None:
    made, control, said = recording
    made._tick()
    assert (said, control.get("stopped")) == ([], 0)
    monkeypatch.setattr(spool_folder, "free_bytes", lambda _: spool_folder.STOP_FREE_BYTES - 1)
    made._tick()
    made._tick()
    assert control.get("stopped") == 1
    assert len(said) == 1
    assert "almost full" in said[0]
    assert made._notes == said


def test_a_folder_that_vanishes_does_not_end_the_recorder(recording, monkeypatch) -> None:
    made, _, said = recording
    monkeypatch.setattr(spool_folder, "free_bytes", lambda _: os.statvfs("/no/such/folder").f_bavail)
    made._tick()
    assert said == []


def test_an_almost_full_disk_is_refused_at_the_start(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(spool_folder, "free_bytes", lambda _: 10 << 20)
    with pytest.raises(UnusableInputError, match=r"only 10 MiB.*--spool-dir"):
        spool_folder.create_spool_folder(tmp_path / "t.parquet", None)
    assert list(tmp_path.iterdir()) == []


def test_a_signal_before_the_start_ends_the_recorder(monkeypatch) -> None:
    monkeypatch.setattr(signals.signal, "sigpending", lambda: {signals.signal.SIGTERM})
    with pytest.raises(signals.Interrupted) as raised:
        signals.raise_pending()
    assert raised.value.signum == signals.signal.SIGTERM


def test_a_document_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "recording.json"
    spool_folder.write_json(path, {"a": 1})
    spool_folder.write_json(path, {"a": "ü"})
    assert spool_folder.read_json(path) == {"a": "ü"}
    assert [p.name for p in tmp_path.iterdir()] == ["recording.json"]
    assert path.stat().st_mode & 0o777 == 0o600
