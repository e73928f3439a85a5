"""Pages for people who use a keyboard or a screen reader, or who need contrast."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.sync_api import Page
from viewer_pages import PAGES, complete
from viewer_process import Viewer

axe = pytest.importorskip("axe_playwright_python.sync_playwright")

GRAVE = ("serious", "critical")

OpenPage = Callable[..., Page]


def violations(page: Page) -> list[str]:
    """What axe finds, of those that keep somebody from using the page: rule, and the first places."""
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']} ({one['help']}): " + "; ".join(str(node["target"]) for node in one["nodes"][:3])
        for one in found
        if one["impact"] in GRAVE
    ]


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_grave(graph_pair: Viewer, open_page: OpenPage, path: str) -> None:
    page = open_page(graph_pair, path)
    light = violations(page)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 844})
    complete(page)
    page.wait_for_function("() => document.documentElement.dataset.mantineColorScheme === 'dark'")

    assert light == []
    assert violations(page) == []


def test_the_first_key_offers_to_skip_the_navigation(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair)

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#page"
    page.keyboard.press("Enter")

    page.wait_for_function("() => document.activeElement.id === 'page'")


@pytest.mark.parametrize("path", PAGES)
def test_all_that_can_be_pressed_is_reached_by_the_tab_key(
    graph_pair: Viewer, open_page: OpenPage, path: str
) -> None:
    page = open_page(graph_pair, path)
    page.evaluate(
        """() => {
          const places = "a[href], button, input:not([type=hidden]), select, textarea, [role=tab], canvas";
          const shown = [...document.querySelectorAll(places)].filter(
            one => one.checkVisibility({ visibilityProperty: true }) && !one.disabled
              && !one.closest(".modebar, [role=radiogroup], [role=tablist], .ag-root-wrapper"));
          window.unreached = new Set(shown);
          document.addEventListener("focusin", event => window.unreached.delete(event.target));
        }"""
    )
    wanted = page.evaluate("window.unreached.size")
    for _ in range(wanted * 2 + 60):  # a grid takes some keys more
        page.keyboard.press("Tab")
        if page.evaluate("window.unreached.size") == 0:
            break

    assert wanted > len(PAGES)
    assert page.evaluate("[...window.unreached].map(one => one.outerHTML.slice(0, 200))") == []


def test_the_navigation_works_by_keys(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair)

    page.locator("nav a", has_text="Environment").focus()
    page.keyboard.press("Enter")

    page.wait_for_function("() => document.querySelector('nav a.current')?.pathname === '/environment'")


def test_nothing_jumps_the_queue_of_the_tab_key(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair, "/timeline")

    assert page.locator("[tabindex]:not([tabindex='0']):not([tabindex='-1'])").count() == 0


@pytest.mark.parametrize("path", PAGES)
def test_headings_have_an_order(graph_pair: Viewer, open_page: OpenPage, path: str) -> None:
    page = open_page(graph_pair, path)
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(one => +one.tagName[1])")

    assert levels
    assert all(after <= before + 1 for before, after in pairwise(levels))
