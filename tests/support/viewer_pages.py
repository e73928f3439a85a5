"""Pages of a viewer in a browser, and what the browser had to complain about."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request
from playwright.sync_api import TimeoutError as TimeoutExpired
from viewer_process import Viewer

T = TypeVar("T")
Scheme: TypeAlias = Literal["light", "dark"]

PAGES: Final = ("/", "/steps", "/timeline", "/copies", "/collectives", "/findings", "/environment")
PATIENCE_MS: Final = 60_000
"""Longer than anything takes on a busy machine of two cores."""
FOLLOWING_MS: Final = 10_000
LOCAL_SCHEMES: Final = ("data", "blob", "about")
ABORTED: Final = "net::ERR_ABORTED"
"""What the browser calls a request of a page that was left; and a download."""

COUNT_FETCHES: Final = """(() => {
  const ask = window.fetch;
  const counted = { open: 0, last: performance.now(), moved: -Infinity };
  window.fetches = counted;
  const note = change => { counted.open += change; counted.last = performance.now(); };
  window.fetch = (...given) => {
    counted.moved = -Infinity;
    note(1);
    return ask.apply(window, given).finally(() => note(-1));
  };
  const move = () => { counted.moved = performance.now(); };
  const push = history.pushState;
  history.pushState = (...given) => { move(); return push.apply(history, given); };
  window.addEventListener("popstate", move);
})()"""
ASKS_WITHIN_MS: Final = 3000
"""Another address is followed by a question about its page, on a busy machine after a while."""
QUIET_MS: Final = 100
"""A page that has asked nothing for so long has got all it wants: an answer is drawn, and what follows from
it is asked, within a few frames."""
HAS_CONTENT: Final = "() => document.querySelector('#page')?.innerText.trim().length > 0"
IS_COMPLETE: Final = """([quiet, asks]) => {
  const { open, last, moved } = window.fetches;
  if (open > 0 || performance.now() - last < quiet || performance.now() - moved < asks) {
    return false;
  }
  const page = document.querySelector("#page");
  return Boolean(page && page.innerText.trim())
    && !page.querySelector(".waiting, .timeline:not([data-ready])")
    && !document.querySelector("[data-dash-is-loading='true']")
    && [...page.querySelectorAll(".dash-graph")].every(graph => graph.querySelector(".main-svg"));
}"""
"""Nothing is waited for, and every chart is drawn."""

WIDEST: Final = """() => {
  const wide = one => one.getBoundingClientRect().right > window.innerWidth + 0.5;
  const all = [...document.body.querySelectorAll("*")].filter(
    one => wide(one) && ![...one.children].some(wide));
  return all.map(one => one.outerHTML.slice(0, 160)).concat("the page scrolls sideways");
}"""


class Opened:
    """The pages that one test opened.

    Args:
        context: what holds them.
        new_context: makes what holds a page that is to be alone.

    Attributes:
        problems: messages of the console at level error, exceptions, failed requests, requests to others.
    """

    def __init__(self, context: BrowserContext, new_context: Callable[[], BrowserContext]) -> None:
        self._context = context
        self._new_context = new_context
        self._pages: list[Page] = []
        self._own_contexts: list[BrowserContext] = []
        self.problems: list[str] = []

    def open(
        self,
        viewer: Viewer,
        address: str = "/",
        *,
        width: int = 1280,
        height: int = 800,
        scheme: Scheme = "light",
        complaints: bool = False,
        wait: bool = True,
        alone: bool = False,
    ) -> Page:
        """A page, complete.

        Args:
            viewer: the viewer that is asked.
            address: path and parameters.
            width: of the window, CSS pixels.
            height: as `width`.
            scheme: the colours that the system prefers.
            complaints: whether the browser may complain.
            wait: whether to wait until the page is complete.
            alone: whether it is in a browser of its own, with nothing cached and no cookies.
        """
        page = (self._own_context() if alone else self._context).new_page()
        self._pages.append(page)
        page.set_default_timeout(PATIENCE_MS)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.add_init_script(COUNT_FETCHES)
        watch(page, viewer.host, [] if complaints else self.problems)
        page.goto(viewer.url + address)
        if wait:
            complete(page)
        return page

    def close(self) -> None:
        """Closes all of them."""
        for one in (*self._pages, *self._own_contexts):
            one.close()

    def _own_context(self) -> BrowserContext:
        self._own_contexts.append(self._new_context())
        return self._own_contexts[-1]


def watch(page: Page, host: str, problems: list[str]) -> None:
    """Notes what the browser has to complain about, and requests to others."""

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            problems.append(f"console: {message.text} ({message.location['url']})")

    def on_request(request: Request) -> None:
        address = urlsplit(request.url)
        if address.netloc != host and address.scheme not in LOCAL_SCHEMES:
            problems.append(f"asked another host: {request.url}")

    def on_failure(request: Request) -> None:
        if request.failure != ABORTED:
            problems.append(f"failed: {request.url}: {request.failure}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
    page.on("request", on_request)
    page.on("requestfailed", on_failure)


def show(page: Page, viewer: Viewer, address: str) -> None:
    """Goes to a page of the viewer and waits until it is complete."""
    page.goto(viewer.url + address)
    complete(page)


def go(page: Page, path: str) -> None:
    """Follows the link to another page of the viewer, and waits until it is complete."""
    page.locator(f"header nav a[href='{path}'], header nav a[href^='{path}?']").click()
    page.wait_for_function("path => document.querySelector('nav a.current')?.pathname === path", arg=path)
    complete(page)


def walk(page: Page, look: Callable[[str], T]) -> dict[str, T]:
    """Goes to every page by its link; what `look(path)` finds on each."""
    found = {}
    for path in PAGES:
        go(page, path)
        found[path] = look(path)
    return found


def wrong_pages(page: Page, look: Callable[[str], T]) -> dict[str, T]:
    """As `walk`, of those pages only on which something is found."""
    return {path: found for path, found in walk(page, look).items() if found}


def complete(page: Page) -> None:
    """Waits until nothing of the page is waited for."""
    page.wait_for_function(IS_COMPLETE, arg=[QUIET_MS, ASKS_WITHIN_MS])


def too_wide(page: Page) -> list[str]:
    """The innermost elements for which the page would scroll sideways; none if it fits the window.

    A window that has just become narrower is given the time that charts take to follow.
    """
    with suppress(TimeoutExpired):
        page.wait_for_function(
            "() => document.documentElement.scrollWidth <= window.innerWidth", timeout=FOLLOWING_MS
        )
        return []
    found: list[str] = page.evaluate(WIDEST)
    return found
