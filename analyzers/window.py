"""What a recording's window says about rows that are not there."""

from __future__ import annotations

from cctrace.analyzers.sentences import seconds_text
from cctrace.trace.metadata import Recording


def nothing_recorded(recording: Recording) -> str:
    """Why a recording holds no host call, in one sentence."""
    window = recording.window or {}
    delay, length = _seconds(window.get("delay_s")), _length_s(recording)
    if delay and length is not None and length <= delay:
        return (
            "The recording holds no host call: its window never opened, because the run lasted "
            f"{seconds_text(length)} and the window began after {seconds_text(delay)} (--delay)."
        )
    if delay or window.get("ended_by"):
        opened = f"from {seconds_text(delay)} on (--delay)" if delay else "from the start"
        closed = f", closed by {window['ended_by']}" if window.get("ended_by") else ""
        return (
            f"The recording holds no host call: its window was open {opened}{closed}; "
            "what the program did outside of it is not recorded."
        )
    return "The recording holds no host call: the program never used the GPU while it was recorded."


def _length_s(recording: Recording) -> float | None:
    if recording.start_ns is None or recording.stop_ns is None:
        return None
    return (recording.stop_ns - recording.start_ns) / 1e9


def _seconds(item: object) -> float:
    return float(item) if isinstance(item, int | float) else 0.0
