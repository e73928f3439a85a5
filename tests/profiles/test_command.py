"""`cctrace profiles`."""

import json
from pathlib import Path

import pytest

from cctrace.profiles.files import load_profile, read_profile
from cctrace.profiles.model import Profile
from cctrace.profiles.shipped import profile_names


def test_the_list(cctrace) -> None:
    done = cctrace("profiles")
    assert (done.code, done.err) == (0, "")
    for name in profile_names():
        assert name in done.out
    listed = json.loads(cctrace("profiles", "--json").out)
    assert [one["name"] for one in listed] == profile_names()
    assert {"name": "h20", "gpu": "NVIDIA H20", "tee": "unknown"}.items() <= listed[-2].items()
    assert listed[-2]["causes"] == ["launch", "pcie", "overlap"]


@pytest.mark.parametrize("name", profile_names())
def test_one_profile(cctrace, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = cctrace("profiles", name)
    assert (done.code, done.err) == (0, "")
    profile = load_profile(name)
    words = done.out.split()
    for cause, key, _ in profile.all_entries():
        assert cause in words
        assert key in words
    assert profile.profile.title in done.out
    assert Profile.model_validate_json(cctrace("profiles", name, "--json").out) == profile


def test_values_ranges_and_absolutes_are_shown(cctrace) -> None:
    lines = cctrace("profiles", "b200-tdx").out.splitlines()
    kernel = next(line for line in lines if line.startswith("kernel_us"))
    assert kernel.split() == ["kernel_us", "S0", "12.25", "12.195", "20.5", "3.45", "15.7"]
    encrypted = next(line for line in lines if line.startswith("encrypted"))
    assert encrypted.split() == ["encrypted", "S0", "yes", "yes", "yes"]


def test_a_file(cctrace, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[profile]\nname = "mine"\nkind = "measured"\ncc = "off"\n'
        'gpu = "\\u001b[31mred"\ntee = "none"\nsources = ["s"]\n'
    )
    assert read_profile(path).profile.gpu.startswith("\x1b")
    done = cctrace("profiles", str(path))
    assert done.code == 0
    assert "what the machine takes with CC off" in done.out
    assert "\x1b" not in done.out, "a text of a file must not steer the terminal"


def test_an_unknown_profile_is_one_line(cctrace) -> None:
    done = cctrace("profiles", "h200")
    assert done.code == 2
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert "known: b200-tdx" in done.err
