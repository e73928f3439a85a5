"""Viewers as processes, and pages of them in a headless Chromium.

`viewer_of(ON, OFF)` starts one viewer for each set of arguments and keeps it until the tests end; `open_page`
opens a page of it, and fails the test if the page made the browser complain or asked another host.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import chromium
from analysis import PIECE_STEPS, SERVER, write
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright
from simulator import OFF, ON, Recorder, Run
from viewer_pages import Opened
from viewer_process import Viewer, ViewerError, command, start

SAMPLES: Final = Path(__file__).resolve().parents[2] / "sample_traces"
REQUIRED: Final = bool(os.environ.get("CI") or os.environ.get("CCTRACE_REQUIRE_BROWSER"))
"""Whether a machine without a browser fails: on a developer's machine the tests are skipped."""

BIG_ROWS: Final = int(float(os.environ.get("CCTRACE_VIEW_ROWS", "1e6")))
"""Rows of each big recording: so many that analyses run in processes of their own. bench/viewer.py does the
same with ten millions."""

ViewerOf = Callable[..., Viewer]


def missing(why: str) -> None:
    """Ends a test that needs a browser."""
    if REQUIRED:
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="session")
def viewer_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ViewerOf]:
    """Starts `cctrace view ARGUMENTS`, or returns the one that runs; all end by Ctrl-C, with code 0."""
    running: dict[tuple[str, ...], Viewer] = {}
    failed: dict[tuple[str, ...], ViewerError] = {}
    logs = tmp_path_factory.mktemp("viewers")

    def viewer(*arguments: str | Path) -> Viewer:
        words = tuple(map(str, arguments))
        if words in failed:
            raise failed[words]
        if words not in running:
            try:
                running[words] = start(logs / f"{len(running)}.log", command(*words))
            except ViewerError as error:
                failed[words] = error
                raise
        return running[words]

    yield viewer
    for started in running.values():
        started.interrupt()  # all at once: each takes a moment
    try:
        codes = {words: started.stop() for words, started in running.items()}
    finally:
        for started in running.values():
            started.process.kill()
    assert {words: code for words, code in codes.items() if code != 0} == {}


# While Playwright runs, its event loop is in the way of `asyncio.run`: it ends with the last test of a file.
@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Starts browsers; a test that needs one is skipped where there is none, except in CI."""
    chromium.look_where_fetched()
    with sync_playwright() as started:
        if not chromium.is_there(started):
            missing(
                "no Chromium: install one (apt install chromium), set CCTRACE_CHROMIUM, "
                "or run `python tests/support/chromium.py`"
            )
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """A headless Chromium with nothing cached."""
    started = chromium.launched(playwright)
    yield started
    started.close()


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a browser keeps the scripts of the viewer, fetched and compiled once."""
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def context(playwright: Playwright, profile: Path) -> Iterator[BrowserContext]:
    """What the pages of all tests share."""
    started = chromium.with_profile(playwright, profile)
    yield started
    started.close()


@pytest.fixture
def open_page(context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Callable[..., Page]]:
    """Opens pages: `open_page(viewer, "/steps", width=390, scheme="dark", complaints=True)`.

    `complaints` allows the browser to complain, where a test provokes that; `alone` gives it a browser with
    nothing cached and no cookies.
    """
    opened = Opened(context, lambda: request.getfixturevalue("browser").new_context())
    yield opened.open
    opened.close()
    assert opened.problems == []


@pytest.fixture(scope="session")
def graph_pair(viewer_of: ViewerOf) -> Viewer:
    """The shipped pair of the README."""
    return viewer_of(
        SAMPLES / "server-graph-overlap-emulated.parquet", SAMPLES / "server-graph-overlap-off.parquet"
    )


@pytest.fixture(scope="session")
def big_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A simulated pair, on and off."""
    folder = tmp_path_factory.mktemp("big")
    on, off = folder / "on.parquet", folder / "off.parquet"
    run = Run(SERVER, OFF, steps=PIECE_STEPS, seed=1, recorder=Recorder(gpu="stamps", marks=False))
    write(off, run, "off", BIG_ROWS)
    write(on, replace(run, costs=ON, seed=2), "on", BIG_ROWS)
    return on, off
