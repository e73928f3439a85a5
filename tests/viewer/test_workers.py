"""Several workers answer alike: nothing of what a page shows is kept in the one that began it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page
from viewer_pages import walk
from viewer_process import Viewer, start, workers

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
PATIENCE_S = 90
PENDING = 202

pytest.importorskip("gunicorn")


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    pair = [SAMPLES / f"server-graph-overlap-{arm}.parquet" for arm in ("emulated", "off")]
    log = tmp_path_factory.mktemp("workers") / "log"
    viewer = start(log, workers(2), CCTRACE_VIEW=os.pathsep.join(map(str, pair)))
    yield viewer
    assert viewer.stop() == 0


def who_answered(viewer: Viewer, path: str) -> set[str]:
    """The workers that answered a path, and did not only say that they still compute."""
    return set(re.findall(rf"^worker <?(\d+)>?: 200 {re.escape(path)}$", viewer.printed, re.MULTILINE))


def answers_of_both(viewer: Viewer, address: str) -> set[tuple[int, str]]:
    """All answers until both workers have given one; asked side by side, or one worker might take all."""
    path = address.partition("?")[0]
    found: set[tuple[int, str]] = set()
    limit = time.monotonic() + PATIENCE_S
    with ThreadPoolExecutor(4) as askers:
        while len(who_answered(viewer, path)) < 2 and time.monotonic() < limit:
            found.update(askers.map(viewer.get, [address] * 8))
    assert len(who_answered(viewer, path)) == 2
    return {(status, text) for status, text in found if status != PENDING}


@pytest.mark.parametrize(
    "address",
    [
        "/_dash-layout",
        "/_dash-dependencies",
        "/api/timeline/lanes?arm=on",
        "/api/timeline/view?arm=off&from=0&to=50000000&pixels=800",
        "/api/timeline/step?arm=on&step=typical",
        "/api/timeline/search?arm=off&text=Launch",
    ],
)
def test_both_workers_give_the_same_answer(two_workers: Viewer, address: str) -> None:
    answers = answers_of_both(two_workers, address)

    assert [status for status, _ in answers] == [200]


def test_every_page_is_the_same_whoever_answers(
    two_workers: Viewer, graph_pair: Viewer, open_page: Callable[..., Page]
) -> None:
    of_two, of_one = (texts(open_page(viewer)) for viewer in (two_workers, graph_pair))

    assert all(of_two.values())
    assert of_two == of_one


def texts(page: Page) -> dict[str, str]:
    """What the pages say; of the timeline only its title: its legend follows what is being drawn."""
    return walk(page, lambda path: page.inner_text("#page" if path != "/timeline" else "#page h2"))
