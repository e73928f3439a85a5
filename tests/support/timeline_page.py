"""The timeline's page in a browser, its address, and the pictures it saves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit
from xml.etree.ElementTree import Element, fromstring

from playwright.sync_api import Page
from viewer_pages import complete
from viewer_process import Viewer

SAMPLES: Final = Path(__file__).resolve().parents[2] / "sample_traces"
ON, OFF = (SAMPLES / f"server-graph-overlap-{name}.parquet" for name in ("emulated", "off"))
READY: Final = ".timeline[data-ready]"
SVG: Final = "{http://www.w3.org/2000/svg}"

OpenPage = Callable[..., Page]


def opened(open_page: OpenPage, viewer: Viewer, address: str = "/timeline", **how: object) -> Page:
    page = open_page(viewer, address, **how)
    page.wait_for_selector(READY)
    return page


def said(page: Page) -> dict[str, str]:
    """The parameters of the address line."""
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def wait_for(page: Page, **parameters: str | None) -> dict[str, str]:
    """Waits until the address line has (or, with None, lacks) parameters; all of them then."""
    page.wait_for_function(
        """wanted => {
          const said = new URLSearchParams(location.search);
          return Object.entries(wanted).every(([key, value]) => said.get(key) === value);
        }""",
        arg=parameters,
    )
    return said(page)


def moved(page: Page, before: dict[str, str]) -> tuple[float, float]:
    """Waits until another stretch of time is in view than an address said; its ends, µs."""
    page.wait_for_function(
        """before => {
          const said = new URLSearchParams(location.search);
          return said.has("from_us") && said.get("from_us") + said.get("to_us") !== before;
        }""",
        arg=before.get("from_us", "") + before.get("to_us", ""),
    )
    now = said(page)
    return float(now["from_us"]), float(now["to_us"])


def canvas_box(page: Page) -> dict[str, float]:
    box = page.locator(".timeline canvas").bounding_box()
    assert box is not None
    return {**box}


@dataclass(frozen=True)
class Picture:
    """A saved SVG: what the canvas shows, in a form that can be read."""

    root: Element

    @property
    def texts(self) -> list[str]:
        return [element.text or "" for element in self.root.iter(f"{SVG}text")]

    def place(self, text: str) -> tuple[float, float]:
        """Where the first text that begins so stands on the canvas."""
        moved_right = self.root.find(f"{SVG}g")
        assert moved_right is not None
        for element in moved_right.iter(f"{SVG}text"):
            if (element.text or "").startswith(text):
                return float(element.attrib["x"]), float(element.attrib["y"]) - 4
        raise AssertionError(f"{text!r} is not among {self.texts}")


def picture(page: Page) -> Picture:
    complete(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the picture as SVG").click()
    return Picture(fromstring(Path(download.value.path()).read_text(encoding="utf-8")))


def spoken(page: Page, words: str) -> str:
    """Waits until the live region holds some words; all of it."""
    page.wait_for_function(
        "words => document.querySelector('.timeline-live').textContent.includes(words)", arg=words
    )
    return page.inner_text(".timeline-live")
