"""`cctrace view` as a user has it: a process that prints an address, and ends by Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ADDRESS: Final = re.compile(r"http://(?P<host>[\w.\-\[\]:]+:\d+)(?P<rest>/\S*)?")
_PATIENCE_S: Final = 120.0
"""For a machine that is busy with the rest of the tests."""


class ViewerError(AssertionError):
    """The viewer did not start, or ended as it should not; the message holds what it printed."""


@dataclass
class Viewer:
    """One running `cctrace view`."""

    process: subprocess.Popen[str]
    log: Path
    url: str = ""
    token: str = ""
    interrupted: bool = False

    @property
    def host(self) -> str:
        """`127.0.0.1:PORT`."""
        return self.url.removeprefix("http://")

    @property
    def printed(self) -> str:
        """All it has printed so far, on both streams."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def get(self, address: str = "/", **headers: str) -> tuple[int, str]:
        """Status and text of an answer."""
        status, text, _ = self.answer(address, **headers)
        return status, text

    def answer(self, address: str = "/", **headers: str) -> tuple[int, str, dict[str, str]]:
        """Status, text and headers of an answer; a redirect is followed."""
        request = urllib.request.Request(self.url + address, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
                return answer.status, answer.read().decode(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), dict(error.headers)

    def interrupt(self) -> None:
        """Asks it to end, as Ctrl-C does."""
        self.interrupted = True
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def stop(self) -> int:
        """Waits for its end, which it asks for if nobody did; its exit code.

        Raises:
            ViewerError: it did not end, or printed a traceback while it ran.
        """
        if not self.interrupted:
            self.interrupt()
        try:
            code = self.process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise ViewerError(f"did not end by SIGINT:\n{self.printed}") from None
        if "Traceback" in self.printed:
            raise ViewerError(f"printed a traceback:\n{self.printed}")
        return code


def command(*arguments: str | Path, port: int = 0) -> list[str]:
    """The words that start `cctrace view` without a browser, on a free port or this one."""
    words = [*map(str, arguments), "--port", str(port), "--no-browser"]
    return [sys.executable, "-m", "cctrace.cli", "view", *words]


def workers(number: int) -> list[str]:
    """The words that start the viewer in several workers, which print their process id with each answer."""
    return [
        *(sys.executable, "-m", "gunicorn", "--workers", str(number), "--bind", "127.0.0.1:0"),
        *("--access-logfile", "-", "--access-logformat", "worker %(p)s: %(s)s %(U)s"),
        "cctrace.app.viewer.wsgi:application",
    ]


def start(log: Path, words: list[str], folder: str | Path = "/", **environment: str) -> Viewer:
    """Starts a viewer, and returns when it answers.

    Args:
        log: where it prints.
        words: the command.
        folder: where it runs. In the repository, `cctrace` would be the folder: a part of the package only.
        environment: variables that are set or changed.

    Raises:
        ViewerError: it ended before.
    """
    with log.open("w") as sink:
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdout=sink,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
        )
    viewer = Viewer(process, log)
    limit = time.monotonic() + _PATIENCE_S
    while not answers(viewer):
        if process.poll() is not None or time.monotonic() > limit:
            process.kill()
            last = "\n".join(viewer.printed.splitlines()[-10:])
            raise ViewerError(f"did not start (exit code {process.poll()}):\n{last}")
        time.sleep(0.02)
    return viewer


def answers(viewer: Viewer) -> bool:
    """Whether it has printed its address and something listens there; notes the address."""
    found = _ADDRESS.search(viewer.printed)
    if not found:
        return False
    viewer.url = f"http://{found['host']}"
    token = re.search(r"[?&]token=([\w-]+)", found["rest"] or "")
    viewer.token = token[1] if token else ""
    try:
        viewer.get("/")
    except (urllib.error.URLError, ConnectionError):
        return False
    return True
