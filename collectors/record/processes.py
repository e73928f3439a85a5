"""The process tree, from /proc."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36
_PROC: Final = Path("/proc")


def become_subreaper() -> bool:
    """Makes orphaned descendants children of this process, so that it can wait for them.

    Returns:
        False if the system does not allow it.
    """
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _parents() -> dict[int, int]:
    """Returns pid → parent pid of every process that is not a zombie."""
    parents: dict[int, int] = {}
    for entry in os.listdir(_PROC):
        if not entry.isdigit():
            continue
        try:
            stat = (_PROC / entry / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # ended meanwhile
        # The name in parentheses may itself hold spaces and parentheses.
        state, parent = stat[stat.rindex(")") + 2 :].split(maxsplit=2)[:2]
        if state not in ("Z", "X"):
            parents[int(entry)] = int(parent)
    return parents


def descendants(root: int) -> set[int]:
    """Returns the living processes below `root`, without it; zombies do not count."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    pending = [root]
    while pending:
        for pid in children.get(pending.pop(), ()):
            if pid not in found:
                found.add(pid)
                pending.append(pid)
    return found


def writers(folder: Path, pids: set[int]) -> set[int]:
    """Returns those of `pids` that have a file of `folder` open or mapped: recorded processes that still run.

    A process id alone would not do: it may have been given to another process since.
    """
    found = set()
    for pid in pids:
        try:
            links = [os.readlink(entry.path) for entry in os.scandir(_PROC / str(pid) / "fd")]
            maps = (_PROC / str(pid) / "maps").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # ended, or another user's
        if any(link.startswith(f"{folder}/") for link in links) or f"{folder}/" in maps:
            found.add(pid)
    return found


def mapped(library: Path, pids: set[int]) -> set[int]:
    """Returns those of `pids` that have loaded `library`."""
    found = set()
    for pid in pids:
        try:
            maps = (_PROC / str(pid) / "maps").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # ended, or another user's
        if str(library) in maps:
            found.add(pid)
    return found
