"""Several workers answer alike: nothing of what a page shows is kept in the one that began it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page
from viewer_pages import PAGES
from viewer_process import Viewer, start, workers

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
ENOUGH = 200
"""Answers after which both workers have had their turn, unless one of them does nothing."""

pytest.importorskip("gunicorn")


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    pair = [SAMPLES / f"server-graph-overlap-{arm}.parquet" for arm in ("emulated", "off")]
    log = tmp_path_factory.mktemp("workers") / "log"
    viewer = start(log, workers(2), CCTRACE_VIEW=os.pathsep.join(map(str, pair)))
    yield viewer
    assert viewer.stop() == 0


def who_answered(viewer: Viewer, path: str) -> list[str]:
    """The worker of each answer to a path."""
    return re.findall(rf"^worker <?(\d+)>?: {re.escape(path)}$", viewer.printed, re.MULTILINE)


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
    path = address.partition("?")[0]
    answers: set[tuple[int, str]] = set()
    for _ in range(ENOUGH):
        status, text = two_workers.get(address)
        if status != 202:  # not computed yet
            answers.add((status, text))
        if len(set(who_answered(two_workers, path))) == 2 and answers:
            break

    assert len(set(who_answered(two_workers, path))) == 2
    assert [status for status, _ in answers] == [200]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_complete_whoever_answers(
    two_workers: Viewer, graph_pair: Viewer, open_page: Callable[..., Page], path: str
) -> None:
    page = open_page(two_workers, path)

    assert page.locator("#page").inner_text() == open_page(graph_pair, path).locator("#page").inner_text()
