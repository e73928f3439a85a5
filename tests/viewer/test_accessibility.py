"""Pages for people who use a keyboard or a screen reader, or who need contrast."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.sync_api import Page
from viewer_pages import PAGES, complete, wrong_pages
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


def out_of_order(page: Page) -> list[str]:
    """Headings that skip a level, and places that are before their turn for the tab key."""
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(one => +one.tagName[1])")
    found = [] if levels else ["no heading"]
    found += [f"h{after} after h{before}" for before, after in pairwise(levels) if after > before + 1]
    jumping = page.locator("[tabindex]:not([tabindex='0']):not([tabindex='-1'])")
    return found + [one.inner_text() for one in jumping.all()]


def test_pages_can_be_read_by_everybody(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair)

    assert wrong_pages(page, lambda _: violations(page) + out_of_order(page)) == {}


def test_narrow_dark_pages_can_be_read_by_everybody(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair, width=390, height=844, scheme="dark")

    assert wrong_pages(page, lambda _: violations(page)) == {}


def test_a_button_that_says_nothing_is_found(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair, "/nowhere")
    assert violations(page) == []

    page.evaluate("document.querySelector('#page').append(document.createElement('button'))")

    assert [found.split(" ")[0] for found in violations(page)] == ["button-name"]


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


@pytest.mark.parametrize(
    ("path", "name"), [("/copies", "device to host"), ("/findings", "launch 2"), ("/", "Findings")]
)
def test_what_is_drawn_anew_keeps_the_focus(
    graph_pair: Viewer, open_page: OpenPage, path: str, name: str
) -> None:
    page = open_page(graph_pair, path)
    link = page.get_by_role("link", name=name, exact=True)
    link.focus()
    before = link.element_handle()

    page.keyboard.press("Enter")

    page.wait_for_function("link => !link.isConnected", arg=before)
    page.wait_for_function("name => document.activeElement.innerText === name", arg=name)


def test_another_step_of_the_timeline_leaves_the_navigation_alone(
    graph_pair: Viewer, open_page: OpenPage
) -> None:
    page = open_page(graph_pair, "/timeline?arm=on&step=100")
    link = page.locator("nav a", has_text="Copies").element_handle()

    with page.expect_response(lambda answer: "_dash-update-component" in answer.url):
        page.keyboard.press(".")

    complete(page)
    assert page.evaluate("link => link.isConnected", link)


def test_the_navigation_works_by_keys(graph_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(graph_pair)

    page.locator("nav a", has_text="Environment").focus()
    page.keyboard.press("Enter")

    page.wait_for_function("() => document.querySelector('nav a.current')?.pathname === '/environment'")
