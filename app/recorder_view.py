"""What a recording says about its recorder and emulator, in words."""

from __future__ import annotations

from collections.abc import Mapping

Facts = list[tuple[str, str]]


def injected_facts(injected: Mapping[str, Mapping[str, int]]) -> Facts:
    """A line for each cause: calls (of nvlink transfers, which the GPU made longer), time, mean."""
    return [(cause, _injected(cause, total)) for cause, total in injected.items()]


def _injected(cause: str, total: Mapping[str, int]) -> str:
    count, sum_ns = total.get("count", 0), total.get("sum_ns", 0)
    if not count:
        text = "nothing"
    else:
        what = ("transfer" if cause == "nvlink" else "call") + ("" if count == 1 else "s")
        text = f"{count:,} {what}, {sum_ns / 1e6:,.3f} ms, {sum_ns / count / 1e3:,.3f} µs each on average"
    if queued := total.get("queued_ns", 0):
        text += f"; {queued / 1e6:,.3f} ms more waiting for other threads' copies"
    return text
