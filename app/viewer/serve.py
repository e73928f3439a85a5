"""Runs the viewer: a server on this machine, and a browser that shows it."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import waitress
from flask import Flask

from cctrace.app.viewer.security import TOKEN, is_loopback
from cctrace.errors import UnusableInputError

LOOPBACK: Final = "127.0.0.1"
USUAL_PORT: Final = 8050
"""Tried first where no port is asked for, so that addresses can be kept; if it is taken, any free one."""
LAST_MOMENT_S: Final = 2.0
"""Answers under way take less, except those that wait for an analysis."""
THREADS: Final = 8
"""A browser asks for six things at once; more viewports than cores gain nothing."""


def serve(
    server: Flask,
    *,
    host: str,
    port: int | None,
    token: str | None,
    browser: bool,
    say: Callable[[str], None],
) -> None:
    """Answers until Ctrl-C or SIGTERM.

    Args:
        server: the application.
        host: address to listen on.
        port: port; 0 for any free one; None for the usual one, or a free one if it is taken.
        token: what a browser must show; becomes part of the printed address.
        browser: whether to open a browser.
        say: prints a line for the user.

    Raises:
        UnusableInputError: the address cannot be listened on.
    """
    listening = _listening(server, host, _usual_or_free(host) if port is None else port)
    signal.signal(signal.SIGTERM, _interrupt)
    address = _address(host, int(listening.effective_port), token)
    say(f"Viewer at {address} (Ctrl-C ends it)")
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    # At the end of the server it would say that a browser still waits for something.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    try:
        listening.run()
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()


def _usual_or_free(host: str) -> int:
    """The usual port, or 0 if somebody has it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, USUAL_PORT))
        except OSError:
            return 0
    return USUAL_PORT


def end_without_waiting() -> None:
    """Ends the program at once if threads still work after a moment.

    Python aborts, or hangs, if a thread is inside a library when the program ends; nothing is left to save.
    """
    deadline = time.monotonic() + LAST_MOMENT_S
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(max(deadline - time.monotonic(), 0))
    if threading.active_count() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _listening(server: Flask, host: str, port: int) -> Any:
    try:
        return waitress.create_server(server, host=host, port=port, threads=THREADS, ident=None)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "; --port 0 takes a free one" if error.errno == errno.EADDRINUSE else ""
        raise UnusableInputError(f"{host}:{port}: cannot be listened on ({reason}){hint}") from None
    except ValueError:
        raise UnusableInputError(f"--host {host}: is no address of this machine") from None


def _address(host: str, port: int, token: str | None) -> str:
    # An address that means all of the machine's is no address to open.
    name = LOOPBACK if host in ("0.0.0.0", "::", "") else host  # noqa: S104 - compared, not bound
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{port}/" + (f"?{TOKEN}={token}" if token else "")


def needs_token(host: str) -> bool:
    """Whether other machines can reach a server on this address."""
    return not is_loopback(f"[{host}]" if ":" in host else host)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
