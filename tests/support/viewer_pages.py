"""Pages of a viewer in a browser, and what the browser had to complain about."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request
from playwright.sync_api import TimeoutError as TimeoutExpired
from viewer_process import Viewer

PAGES: Final = ("/", "/steps", "/timeline", "/copies", "/collectives", "/findings", "/environment")
PATIENCE_MS: Final = 60_000
"""Longer than anything takes on a busy machine of two cores."""
FOLLOWING_MS: Final = 10_000
LOCAL_SCHEMES: Final = ("data", "blob", "about")
ABORTED: Final = "net::ERR_ABORTED"
"""What the browser calls a request of a page that was left; and a download."""

COUNT_FETCHES: Final = """(() => {
  const ask = window.fetch;
  const counted = { open: 0, last: performance.now() };
  window.fetches = counted;
  const note = change => { counted.open += change; counted.last = performance.now(); };
  window.fetch = (...given) => {
    note(1);
    return ask.apply(window, given).finally(() => note(-1));
  };
})()"""
QUIET_MS: Final = 150
"""A page that has asked nothing for so long has got all it wants: an answer is drawn, and what follows from
it is asked, within a few frames."""
HAS_CONTENT: Final = "() => document.querySelector('#page')?.innerText.trim().length > 0"
IS_COMPLETE: Final = """quiet => {
  if (window.fetches.open > 0 || performance.now() - window.fetches.last < quiet) {
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

    Attributes:
        problems: messages of the console at level error, exceptions, failed requests, requests to others.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.problems: list[str] = []

    def open(
        self,
        viewer: Viewer,
        address: str = "/",
        *,
        width: int = 1280,
        height: int = 800,
        scheme: str = "light",
        complaints: bool = False,
        wait: bool = True,
    ) -> Page:
        """A page in a browser of its own; complete, unless it need not be waited for."""
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            accept_downloads=True,
            reduced_motion="reduce",
        )
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        self._watch(context, viewer.host, [] if complaints else self.problems)
        context.add_init_script(COUNT_FETCHES)
        page = context.new_page()
        page.goto(viewer.url + address)
        if wait:
            complete(page)
        return page

    def close(self) -> None:
        """Closes all of them."""
        for context in self._contexts:
            context.close()

    def _watch(self, context: BrowserContext, host: str, problems: list[str]) -> None:
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

        context.on("console", on_console)
        context.on("weberror", lambda error: problems.append(f"exception: {error.error}"))
        context.on("request", on_request)
        context.on("requestfailed", on_failure)


def show(page: Page, viewer: Viewer, address: str) -> None:
    """Goes to a page of the viewer and waits until it is complete."""
    page.goto(viewer.url + address)
    complete(page)


def complete(page: Page) -> None:
    """Waits until nothing of the page is waited for."""
    page.wait_for_function(IS_COMPLETE, arg=QUIET_MS)


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
