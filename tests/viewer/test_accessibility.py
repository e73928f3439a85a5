"""Pages for people who use a keyboard or a screen reader, or who need contrast."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.sync_api import Page
from viewer_pages import PAGES, wrong_pages
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


def test_axe_finds_nothing_grave_in_light_pages(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair)

    assert wrong_pages(page, lambda _: violations(page)) == {}


def test_axe_finds_nothing_grave_in_narrow_dark_pages(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair, width=390, height=844, scheme="dark")

    assert wrong_pages(page, lambda _: violations(page)) == {}


def test_headings_have_an_order_and_nothing_jumps_the_queue_of_the_tab_key(
    graph_pair: Viewer, open_page: OpenPage
) -> None:
    page = open_page(graph_pair)
    levels = "[...document.querySelectorAll('h1,h2,h3,h4')].map(one => +one.tagName[1])"
    jumping = "[tabindex]:not([tabindex='0']):not([tabindex='-1'])"

    def look(_: str) -> list[str]:
        found = page.evaluate(levels)
        wrong = [] if found else ["no heading"]
        wrong += [f"h{after} after h{before}" for before, after in pairwise(found) if after > before + 1]
        return wrong + [one.inner_text() for one in page.locator(jumping).all()]

    assert wrong_pages(page, look) == {}


def test_the_first_key_offers_to_skip_the_navigation(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair)

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#page"
    page.keyboard.press("Enter")

    page.wait_for_function("() => document.activeElement.id === 'page'")


NOTE_WHAT_GETS_THE_FOCUS = """() => {
  const places = "a[href], button, input:not([type=hidden]), select, textarea, summary, canvas";
  // Arrow keys lead through these, or they have keys of their own.
  const groups = ".modebar, [role=radiogroup], [role=tablist], .ag-root-wrapper";
  window.unreached = new Set([...document.querySelectorAll(places)].filter(
    one => one.checkVisibility({ visibilityProperty: true })
      && !one.disabled && one.tabIndex >= 0 && !one.closest(groups)));
  document.addEventListener("focusin", event => window.unreached.delete(event.target));
  return window.unreached.size;
}"""
SPARE_KEYS = 60
"""More than there are places to reach: a grid and a group of buttons take some keys too."""


@pytest.mark.parametrize("path", PAGES)
def test_all_that_can_be_pressed_is_reached_by_the_tab_key(
    graph_pair: Viewer, open_page: OpenPage, path: str
) -> None:
    page = open_page(graph_pair, path)
    wanted = page.evaluate(NOTE_WHAT_GETS_THE_FOCUS)
    for _ in range(wanted + SPARE_KEYS):
        page.keyboard.press("Tab")

    assert wanted > len(PAGES)
    assert page.evaluate("[...window.unreached].map(one => one.outerHTML.slice(0, 200))") == []


def test_the_navigation_works_by_keys(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair)

    page.locator("nav a", has_text="Environment").focus()
    page.keyboard.press("Enter")

    page.wait_for_function("() => document.querySelector('nav a.current')?.pathname === '/environment'")
