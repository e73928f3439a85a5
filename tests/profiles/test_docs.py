"""docs/profiles.md says what is so."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from scripts import load_script

from cctrace.profiles.files import read_profile
from cctrace.profiles.model import CAUSES, Head, Profile

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "profiles.md").read_text(encoding="utf-8")


def example(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def tables() -> ModuleType:
    return load_script(DOCS / "profile_tables.py")


def test_the_tables_are_those_of_the_profiles(tables: ModuleType) -> None:
    assert tables.filled(PAGE) == PAGE, "run docs/profile_tables.py"
    with pytest.raises(ValueError, match="markers"):
        tables.filled("no markers")


def test_the_example_is_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(example("toml"), encoding="utf-8")
    profile = read_profile(path)
    assert {cause for cause, _, _ in profile.all_entries()} == {"launch", "pcie", "overlap"}


def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example("python"), "docs/profiles.md", "exec"), {})
    assert read_profile(tmp_path / "mine.toml").name == "h100-tdx"


def test_every_key_is_explained() -> None:
    keys = {key for cause in CAUSES for key in type(getattr(Profile.model_construct(), cause)).model_fields}
    families = ("_isolated_us", "_call_us")
    for key in keys:
        family = next((end for end in families if key.endswith(end)), None)
        assert (f"…{family}`" if family else f"{key}`") in PAGE, key
    for field in Head.model_fields:
        assert re.search(rf"\b{field}\b", PAGE), field
