"""Every page, of every kind of recording, as a browser shows it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page
from viewer_pages import PAGES, complete, go, too_wide, wrong_pages
from viewer_process import Viewer
from viewer_traces import host_only

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_traces"
NARROW = {"width": 390, "height": 844}
NARROW_TOO = ("vllm", "repeats")
"""Kinds with the longest names, and with the most controls."""
OpenPage = Callable[..., Page]
Files = tuple[Path, ...]


def shipped(name: str) -> Files:
    return SAMPLES / f"{name}-emulated.parquet", SAMPLES / f"{name}-off.parquet"


@pytest.fixture(scope="session")
def repeats(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Two folders with three recordings each."""
    folder = tmp_path_factory.mktemp("repeats")
    for arm, name in (("on", "emulated"), ("off", "off")):
        (folder / arm).mkdir()
        for number, readback in enumerate(("overlap", "sync", "worker")):
            source = SAMPLES / f"server-graph-{readback}-{name}.parquet"
            shutil.copy(source, folder / arm / f"run-{number}.parquet")
    return folder / "on", folder / "off"


@pytest.fixture(scope="session")
def files_of(tmp_path_factory: pytest.TempPathFactory, repeats: Files) -> Callable[[str], Files]:
    """The arguments of `cctrace view` for a kind of recordings."""
    made: dict[str, Files] = {}
    makers: dict[str, Callable[[], Files]] = {
        "graph": lambda: shipped("server-graph-overlap"),
        "eager": lambda: shipped("server-eager-overlap"),
        "vllm": lambda: shipped("vllm-0.6b-piecewise"),
        "one": lambda: shipped("server-graph-overlap")[:1],
        "repeats": lambda: repeats,
        "host-only": lambda: host_only(tmp_path_factory.mktemp("host")),
    }

    def files(kind: str) -> Files:
        if kind not in made:
            made[kind] = makers[kind]()
        return made[kind]

    return files


def failings(page: Page) -> list[str]:
    """What is wrong with a page of a sound recording: it is empty, failed, or does not fit."""
    found: list[str] = page.locator("#page [role=alert]").all_inner_texts()
    if page.locator("#page h2").count() == 0:
        found.append("no section")
    return found + too_wide(page)


@pytest.mark.parametrize("kind", ["eager", "vllm", "one", "repeats", "host-only"])
def test_every_page_shows_something_and_fits_the_window(
    viewer_of: Callable[..., Viewer], files_of: Callable[[str], Files], open_page: OpenPage, kind: str
) -> None:
    page = open_page(viewer_of(*files_of(kind)))

    assert wrong_pages(page, lambda _: failings(page)) == {}
    if kind in NARROW_TOO:
        page.set_viewport_size(NARROW)
        assert wrong_pages(page, lambda _: failings(page)) == {}


def test_every_page_of_a_million_rows(
    viewer_of: Callable[..., Viewer], big_pair: Files, open_page: OpenPage
) -> None:
    page = open_page(viewer_of(*big_pair))

    assert wrong_pages(page, lambda _: failings(page)) == {}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opened_in_a_narrow_dark_window(graph_pair: Viewer, open_page: OpenPage, path: str) -> None:
    page = open_page(graph_pair, path, **NARROW, scheme="dark")

    assert failings(page) == []
    assert page.locator("nav a.current").get_attribute("href") == path
    dark, colour = ground(page)
    page.emulate_media(color_scheme="light")
    page.wait_for_function("dark => getComputedStyle(document.body).backgroundColor !== dark", arg=colour)
    assert dark < 0.3
    assert ground(page)[0] > 0.7


def ground(page: Page) -> tuple[float, str]:
    """How light the ground of the page is, 0 to 1; and its colour."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    parts = [float(part) for part in colour.split("(")[1].rstrip(")").split(",")[:3]]
    return sum(parts) / 3 / 255, colour


def test_links_lead_to_all_pages_and_back(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair, "/environment")
    links = [link.get_attribute("href") for link in page.locator("header nav a").all()]
    before = page.inner_text("#page")

    go(page, "/findings")
    between = page.inner_text("#page")
    page.go_back()
    page.wait_for_function("() => document.querySelector('nav a.current')?.pathname === '/environment'")
    complete(page)

    assert links == list(PAGES)
    assert page.inner_text("#page") == before != between


def test_a_page_that_is_not_there_says_so(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair, "/nowhere")

    assert "no such page" in page.inner_text("#page")


def test_two_browsers_and_two_viewers_do_not_meet(
    viewer_of: Callable[..., Viewer], files_of: Callable[[str], Files], open_page: OpenPage
) -> None:
    one, other = (viewer_of(*files_of(kind)) for kind in ("graph", "eager"))
    pages = [open_page(viewer, alone=True) for viewer in (one, one, other)]
    before = [page.inner_text("#page") for page in pages]

    for path in ("/steps", "/"):
        for page in pages:
            go(page, path)

    assert [page.inner_text("#page") for page in pages] == before
    assert before[0] == before[1] != before[2]


def test_a_chart_is_saved_as_a_file(graph_pair: Viewer, open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(graph_pair, "/copies")
    begins = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<svg"}

    for kind, begin in begins.items():
        with page.expect_download() as download:
            page.locator(f"button[data-export={kind}]").first.click()
        target = tmp_path / download.value.suggested_filename
        download.value.save_as(target)

        assert target.suffix == f".{kind}"
        assert target.read_bytes().startswith(begin)
        assert target.stat().st_size > 5_000
