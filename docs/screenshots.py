"""Takes the pictures of the viewer in docs/images, of two of the shipped recordings: `make docs`.

Needs Chromium, as the tests do.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from chromium import is_there, launched, look_where_fetched
from viewer_pages import Opened
from viewer_process import command, start

ROOT: Final = Path(__file__).resolve().parents[1]
PAIR: Final = tuple(
    ROOT / "sample_traces" / f"server-graph-overlap-{arm}.parquet" for arm in ("emulated", "off")
)


@dataclass(frozen=True)
class Picture:
    """One picture: its name, the address that it shows, the window."""

    name: str
    address: str
    scheme: str = "light"
    width: int = 1280
    height: int = 800


PICTURES: Final = (
    Picture("overview", "/"),
    Picture("timeline", "/timeline", scheme="dark"),
    Picture("steps", "/steps"),
    Picture("copies", "/copies"),
    Picture("findings", "/findings"),
    Picture("environment", "/environment"),
    Picture("narrow", "/", width=390, height=844),
)


def main() -> int:
    """Writes docs/images/viewer-*.png."""
    look_where_fetched()
    # Paths are shown as given; without folders the pictures are the same everywhere.
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        if not is_there(playwright):
            print("no Chromium: the pictures of the viewer stay as they are", file=sys.stderr)
            return 1
        browser = launched(playwright)
        for path in PAIR:
            shutil.copy(path, folder)
        viewer = start(Path(folder) / "log", command(*(path.name for path in PAIR)), folder)
        opened = Opened(browser.new_context(), browser.new_context)
        for picture in PICTURES:
            page = opened.open(
                viewer,
                picture.address,
                width=picture.width,
                height=picture.height,
                scheme=picture.scheme,
            )
            target = ROOT / "docs" / "images" / f"viewer-{picture.name}.png"
            page.screenshot(path=target)
            print(f"wrote {target.relative_to(ROOT)}")
        opened.close()
        browser.close()
        viewer.stop()
    for problem in opened.problems:
        print(problem, file=sys.stderr)
    return 1 if opened.problems else 0


if __name__ == "__main__":
    sys.exit(main())
