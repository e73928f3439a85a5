"""Numbers as people read them, and the sentence that matters."""

from __future__ import annotations

from typing import Final

_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def time_text(us: float) -> str:
    """A duration in microseconds with a unit that suits it: "8.3 µs", "2.60 ms", "1.20 s"."""
    size = abs(us)
    if size < 999.5:
        return f"{us:.2f} µs" if size < 10 else f"{us:.1f} µs" if size < 100 else f"{us:.0f} µs"
    if size < 999_500:
        return f"{us / 1e3:.2f} ms" if size < 99_950 else f"{us / 1e3:.0f} ms"
    return f"{us / 1e6:.2f} s"


def signed_time(us: float) -> str:
    """As `time_text`, with its sign."""
    if abs(us) < 0.005:
        return "0 µs"
    text = time_text(abs(us))
    return f"+{text}" if us > 0 else f"−{text}"


def count_text(count: float) -> str:
    """A count per step: whole if it nearly is, else with one decimal, small ones with two."""
    if abs(count - round(count)) < 0.05 and (round(count) or not count):
        return f"{round(count):d}"
    return f"{count:.1f}" if abs(count) >= 0.95 else f"{count:.2f}"


def percent(share: float, *, signed: bool = False) -> str:
    """A share as a percentage with one decimal; what rounds to zero has no sign."""
    text = f"{abs(share):.1%}".replace("%", " %")
    if text == "0.0 %":
        return text
    if not signed:
        return f"−{text}" if share < 0 else text
    return f"−{text}" if share < 0 else f"+{text}"


def bytes_text(size: float) -> str:
    """A size in bytes with a binary unit."""
    unit = 0
    while size >= 1024 and unit < len(_BYTES) - 1:
        size /= 1024
        unit += 1
    return f"{size:.0f} {_BYTES[unit]}" if unit == 0 or size >= 99.5 else f"{size:.1f} {_BYTES[unit]}"


def seconds_text(seconds: float) -> str:
    """Seconds for people."""
    return time_text(seconds * 1e6)


def plural(count: int, word: str) -> str:
    """`1 step`, `2 steps`, `2 copies`."""
    if word.endswith("py"):
        many = f"{word[:-1]}ies"
    else:
        many = f"{word}es" if word.endswith(("s", "x")) else f"{word}s"
    return f"{count:,} {word if count == 1 else many}".replace(",", " ")
