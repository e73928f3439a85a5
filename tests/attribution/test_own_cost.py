"""What calls cost by themselves, and which copies block."""

import numpy as np
import pytest
from timelines import Call, timeline

from cctrace.analyzers.attribution.copy_cost import RETURN_US, CopyRows
from cctrace.analyzers.attribution.own_cost import OwnCost, call_slowdown, own_costs
from cctrace.analyzers.attribution.timeline import COLUMNS, Timeline
from cctrace.analyzers.categories import CATEGORY

TOLL = 12.0


def unseen(one: Timeline) -> CopyRows:
    nothing = np.full(len(one), np.nan)
    return CopyRows(nothing, nothing)


def costs(off: Timeline, on: Timeline, slowdown: float = 1.0) -> tuple[OwnCost, OwnCost]:
    return own_costs(off, on, (unseen(off), unseen(on)), slowdown)


def steps(kernel: float, copy: float, wait: float = 0.0, count: int = 8, slow: float = 0.0) -> Timeline:
    """Steps of four kernels, a copy to page-locked memory that takes `wait` longer, and a synchronization."""
    calls, now = [], 0.0
    for step in range(count):
        for number in range(4):
            length = kernel + (slow if step == 3 and number == 2 else 0.0)
            calls.append(Call("kernel", now, now + length, step=step, stream=1, gap=5.0))
            now += length + 5.0
        calls.append(
            Call("copy d2h", now, now + copy + wait, step=step, stream=1, size=64, memory="pinned", gap=5.0)
        )
        now += copy + wait + 5.0
        calls.append(Call("event-sync", now, now + 2.0, step=step, gap=5.0))
        now += 7.0
    return timeline(calls)


def of(cost: np.ndarray, one: Timeline, category: str) -> np.ndarray:
    return cost[one.category == CATEGORY[category]]


def test_growth_of_a_submission_is_its_own() -> None:
    off, on = steps(4.0, 5.0), steps(4.0 + TOLL, 5.0 + TOLL)
    first, second = costs(off, on)
    assert of(first.own, off, "kernel").tolist() == [4.0] * 32
    assert of(second.own, on, "kernel").tolist() == pytest.approx([16.0] * 32)
    # A copy that grows by the toll of any submission neither encrypts nor waits.
    assert of(second.toll, on, "copy d2h").tolist() == pytest.approx([TOLL] * 8)
    assert not second.waits[on.category == CATEGORY["copy d2h"]].any()


def test_what_a_slow_call_takes_longer_is_no_toll() -> None:
    off, on = steps(4.0, 5.0, slow=400.0), steps(4.0, 5.0)
    first, _ = costs(off, on)
    assert of(first.own, off, "kernel").max() == 4.0
    assert first.excess.sum() == 400.0


def test_a_copy_that_takes_much_longer_than_its_toll_waits() -> None:
    off, on = steps(4.0, 5.0), steps(4.0 + TOLL, 5.0 + TOLL, wait=900.0)
    _, second = costs(off, on)
    assert second.waits[on.category == CATEGORY["copy d2h"]].all()
    assert of(second.own, on, "copy d2h").tolist() == pytest.approx([17.0] * 8)
    done = of(second.done, on, "copy d2h") - of(on.start, on, "copy d2h")
    assert done.min() > 900.0


def test_a_copy_that_takes_a_little_longer_encrypts() -> None:
    off, on = steps(4.0, 5.0), steps(4.0 + TOLL, 5.0 + TOLL + 5.0)
    _, second = costs(off, on)
    assert not second.waits[on.category == CATEGORY["copy d2h"]].any()
    assert of(second.own, on, "copy d2h").tolist() == pytest.approx([22.0] * 8)
    assert of(second.toll, on, "copy d2h").tolist() == pytest.approx([TOLL] * 8)


def test_one_size_that_blocks_shows_that_all_page_locked_copies_do() -> None:
    def with_inputs(one: Timeline, length: float) -> Timeline:
        calls = [
            Call("copy h2d", 10_000.0 + 50 * number, 10_000.0 + 50 * number + length, step=number, stream=2,
                 size=1024, memory="pinned")
            for number in range(8)
        ]  # fmt: skip
        more = timeline(calls)
        both = {name: np.concatenate((getattr(one, name), getattr(more, name))) for name in COLUMNS}
        return Timeline(**both, symbols=(), threads=one.threads)

    off = with_inputs(steps(4.0, 5.0), 3.0)
    on = with_inputs(steps(4.0 + TOLL, 5.0 + TOLL, wait=900.0), 3.0 + TOLL + 2.0)
    _, second = costs(off, on)
    inputs = on.category == CATEGORY["copy h2d"]
    assert second.waits[inputs].all()
    assert second.self_wait[inputs].tolist() == pytest.approx([2.0] * 8)


def test_rows_of_copies_say_which_calls_blocked_and_what_decrypting_took() -> None:
    off, on = steps(4.0, 5.0), steps(4.0 + TOLL, 5.0 + TOLL, wait=900.0)
    copies = on.category == CATEGORY["copy d2h"]
    end = np.where(copies, on.end - 5.5, np.nan)
    rows = CopyRows(end - 2.0, end)
    _, second = own_costs(off, on, (unseen(off), rows), 1.0)
    assert second.waits[copies].all()
    assert second.done[copies] == pytest.approx(end[copies])
    assert second.post[copies] == pytest.approx(np.full(8, 5.5))
    assert second.crypto[copies] == pytest.approx(np.full(8, 5.5 - RETURN_US))


def test_a_synchronization_that_waited_costs_what_one_that_did_not_costs() -> None:
    calls = [Call("event-sync", 100.0 * n, 100.0 * n + (2.0 if n % 2 else 60.0)) for n in range(20)]
    one = timeline(calls)
    cost, _ = costs(one, one)
    assert cost.own.max() == pytest.approx(2.0)
    assert cost.exact.sum() == 10
    assert (cost.done[cost.exact] - one.start[cost.exact]) == pytest.approx(np.full(10, 58.0))


def test_the_speed_of_the_host_shows_between_calls_and_calls_follow_less() -> None:
    calls = [Call("kernel", 20.0 * n, 20.0 * n + 4.0, gap=10.0) for n in range(300)]
    slower = [Call("kernel", 30.0 * n, 30.0 * n + 4.0, gap=14.4) for n in range(300)]
    assert call_slowdown(timeline(calls), timeline(slower)) == pytest.approx(1.2)
    assert call_slowdown(timeline(calls[:50]), timeline(slower[:50])) == 1.0
