"""The Chromium that the viewer is tested in: the machine's own, or one that Playwright fetched.

As a script: makes sure that there is one, and fetches Playwright's if there is none (`make test`). With the
option `--with-deps` it also installs the libraries that the browser needs, by the system's package manager.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, BrowserContext, Playwright, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
FETCHED: Final = Path(sys.prefix) / "browsers"
"""Where the script puts a browser: nothing outside the environment is touched."""

ARGUMENTS: Final = (
    "--no-sandbox",  # which containers do not allow; only our own pages are opened
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def works(program: str) -> bool:
    """Whether it starts: Ubuntu's chromium is a shim that only says which snap to install."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@cache
def own_chromium() -> str | None:
    """The machine's: $CCTRACE_CHROMIUM, else the first of NAMES on PATH that starts."""
    named = os.environ.get("CCTRACE_CHROMIUM")
    if named:
        return named
    found = filter(None, map(shutil.which, NAMES))
    return next((program for program in found if works(program)), None)


def look_where_fetched() -> None:
    """Tells Playwright where this script put its browser."""
    if FETCHED.is_dir():
        os.environ.setdefault("PLAYWRIGHT_BROWSERS_PATH", str(FETCHED))


def is_there(playwright: Playwright) -> bool:
    """Whether this machine has one."""
    return own_chromium() is not None or Path(playwright.chromium.executable_path).exists()


def launched(playwright: Playwright) -> Browser:
    """A headless Chromium."""
    return playwright.chromium.launch(executable_path=own_chromium(), args=list(ARGUMENTS))


def with_profile(playwright: Playwright, folder: Path) -> BrowserContext:
    """A headless Chromium that keeps scripts as it compiled them: a page loads in a third of the time."""
    return playwright.chromium.launch_persistent_context(
        folder, executable_path=own_chromium(), args=list(ARGUMENTS)
    )


def fetched(*options: str) -> bool:
    """Whether Playwright could fetch its own."""
    command = [sys.executable, "-m", "playwright", "install", *options, "chromium"]
    environment = {**os.environ, "PLAYWRIGHT_BROWSERS_PATH": str(FETCHED)}
    return subprocess.run(command, cwd=sys.prefix, env=environment, check=False).returncode == 0


def main(*options: str) -> int:
    """Returns 0 if there is a browser now."""
    look_where_fetched()
    with sync_playwright() as playwright:
        there = is_there(playwright)
    return 0 if there or fetched(*options) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
