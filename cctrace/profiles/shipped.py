"""The profiles that come with cctrace, by name: for the help of a command, without reading any."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent


def profile_names() -> list[str]:
    """Returns the names of the profiles that come with cctrace."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))
