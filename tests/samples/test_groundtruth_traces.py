"""The shipped recordings of the verification suite: their rows hold what was charged, no more, no less."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numpy")

from groundtruth import recordings
from groundtruth.scenarios import CAUSES

FOLDER = Path(__file__).resolve().parents[2] / "sample_traces" / "groundtruth"
TRACES = sorted(FOLDER.glob("*.parquet"))
pytestmark = pytest.mark.skipif(not TRACES, reason="sample_traces/ holds no trace (they are not checked out)")


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_rows_hold_what_was_charged(path: Path) -> None:
    arm = path.stem.rpartition("-")[2]
    found = recordings.observe(path)
    injected = {cause: truth["count"] for cause, truth in found["injected"].items() if truth["count"]}
    assert set(injected) == (set() if arm == "zero" else set(arm.split("+")))
    assert set(injected) <= set(CAUSES)
    assert injected == found["counts"]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_launch_took_as_long_as_was_asked(path: Path) -> None:
    truth = recordings.observe(path)["injected"].get("launch")
    if not truth or not truth["count"]:
        return
    # A virtual machine that is put aside during a spin makes it longer, never shorter.
    assert 12.2 <= truth["sum_ns"] / truth["count"] / 1e3 <= 13.5


def test_every_arm_has_the_one_it_is_compared_with() -> None:
    scenarios = {path.stem.rpartition("-")[0] for path in TRACES}
    assert [name for name in scenarios if not (FOLDER / f"{name}-zero.parquet").exists()] == []
