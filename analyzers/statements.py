"""What a comparison's account explains, what it does not, and what hides what, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cctrace.analyzers.categories import ORDER, WORK, group_of
from cctrace.analyzers.sentences import count_text, percent, signed_time, time_text
from cctrace.analyzers.tolls import Account, Toll, WaitDifference
from cctrace.analyzers.verdicts import waits_elsewhere

if TYPE_CHECKING:
    from cctrace.analyzers.diff import ArmResult

SLACK_SHARE: Final = 0.05
"""An off arm whose host waits this part of its step has slack in which tolls can hide; below it is host-bound
if nothing else waits for the GPU."""
BUSY_SHARE: Final = 0.95
"""A GPU that works this part of the step may set the pace, whoever waits for it."""
NOTABLE_SHARE: Final = 0.02
"""Parts below this share of the off step are not put in words."""
NOTABLE_TOLL: Final = 0.02
"""Tolls below this part of the submissions' are not put in words."""
NOTABLE_EVENT_US: Final = 1.0
"""Nor tolls of events below this: own costs of 1 to 3 µs differ by as much between runs of one kind."""
MANY_KERNELS: Final = 8
"""From so many single kernels a step on, what they alone explain is worth a sentence."""
RARE_SHARE: Final = 0.05
"""Calls that wait less often than this part of the other arm's rarely wait: their mean describes none."""
COUNT_SLACK: Final = 0.01
"""Counts this near to a whole number are given as one."""
LISTED_SHARE: Final = 0.1
"""Parts of a sum below this share of its largest part are not listed."""


def statements_of(
    off: ArmResult, on: ArmResult, account: Account | None, *, within_noise: bool, events_charged: bool
) -> tuple[str, ...]:
    """What the numbers say, in sentences.

    Args:
        off: the arm without confidential computing.
        on: the arm with it.
        account: the difference taken apart; None gives no sentence.
        within_noise: parts of a difference that is noise are not given as shares of it.
        events_charged: whether events can cost more in the on arm.
    """
    if account is None:
        return ()
    delta = 0.0 if within_noise else on.period_us - off.period_us
    notable = NOTABLE_SHARE * off.period_us
    said = [
        *_toll_statement(account, delta),
        *(_event_statement(account) if events_charged else []),
        *_kernel_statement(account, delta),
        *_other_threads_statement(account),
        _slack_statement(off),
        *_wait_statement(account, notable),
    ]
    said += [_blocking_statement(one) for one in _new_blocking_copies(account, notable)]
    if abs(account.unexplained.total_us_per_step) > notable:
        said.append(_unexplained_statement(off, on, account))
    return tuple(said)


def _charged(account: Account, group: str) -> list[Toll]:
    return [toll for toll in account.tolls if toll.counted_per_step and group_of(toll.category) == group]


def _toll_statement(account: Account, delta: float) -> list[str]:
    work = _charged(account, WORK)
    if not work:
        return ["No toll can be told: no category of submissions has an own cost in both arms."]
    return [f"Launch toll: {_product(work, 'submission')}{_of_difference(_sum(work), delta)}."]


def _event_statement(account: Account) -> list[str]:
    events, work = _charged(account, ORDER), _charged(account, WORK)
    calls = sum(toll.counted_per_step for toll in events)
    if not calls or abs(_sum(events)) < max(NOTABLE_EVENT_US * calls, NOTABLE_TOLL * abs(_sum(work))):
        return []
    return [f"Events and stream waits pay toll too: {_product(events, 'call')}."]


def _sum(tolls: list[Toll]) -> float:
    return sum(toll.raw_toll_us_per_step for toll in tolls)


def _product(tolls: list[Toll], word: str) -> str:
    """`181 submissions a step × +12.2 µs = +2.21 ms per step`, of the submitting thread."""
    calls = sum(toll.counted_per_step for toll in tolls)
    mean = _sum(tolls) / calls if calls else 0.0
    number = _number(calls)
    words = word if number == "1" else f"{word}s"
    return f"{number} {words} a step × {signed_time(mean)} = {signed_time(_sum(tolls))} per step"


def _number(calls: float) -> str:
    """A count of calls; one in a hundred that waited, and is not counted, does not make it a fraction."""
    whole = round(calls)
    return count_text(whole if abs(calls - whole) < COUNT_SLACK * calls else calls)


def _of_difference(us: float, delta: float) -> str:
    """How much of the measured difference a part explains, where that says something."""
    if delta <= 0 or us <= 0:
        return ""
    if us > delta:
        return ", more than the difference itself: shorter waits or faster host code offset the rest"
    return f", {percent(us / delta)} of the difference"


def _kernel_statement(account: Account, delta: float) -> list[str]:
    """Counting kernels alone misleads: what kernels explain, if other submissions pay toll too."""
    charged = _charged(account, WORK)
    kernels = [toll for toll in charged if toll.category == "kernel"]
    rest = [toll for toll in charged if toll.category != "kernel"]
    many = bool(kernels) and kernels[0].counted_per_step >= MANY_KERNELS
    if not many or _sum(rest) <= NOTABLE_TOLL * _sum(kernels):
        return []
    others = _number(sum(toll.counted_per_step for toll in rest))
    return [
        f"Kernels alone: {_product(kernels, 'kernel')}{_of_difference(_sum(kernels), delta)}; "
        f"{others} graphs, copies and memsets a step pay {signed_time(_sum(rest))}."
    ]


def _other_threads_statement(account: Account) -> list[str]:
    """Toll beside the step's time line is named if it is as large as a notable part of the tolls on it."""
    calls = sum(toll.other_threads_counted_per_step for toll in account.tolls)
    us = sum(toll.other_threads_raw_toll_us_per_step for toll in account.tolls)
    if not calls or abs(us) <= NOTABLE_TOLL * abs(account.toll_us_per_step):
        return []
    number = count_text(calls)
    pay = (
        "1 call a step of another thread pays"
        if number == "1"
        else f"{number} calls a step of other threads pay"
    )
    return [f"{pay} {signed_time(us)} of toll: it is not on the step's time line, and not in these numbers."]


def _slack_statement(off: ArmResult) -> str:
    """Whether the off arm has slack in which tolls can hide."""
    own = off.wait_us_per_step / off.period_us
    if own >= SLACK_SHARE:
        waits = f"{time_text(off.wait_us_per_step)} ({percent(own)} of the step)"
        return f"The off arm's host waits {waits} for the GPU: toll up to about that much can hide there."
    busy = off.gpu.busy_share
    known_busy = busy is not None and not off.gpu.upper_bound and busy >= BUSY_SHARE
    works = f", and the GPU works {percent(busy)} of the step" if known_busy and busy is not None else ""
    if waits_elsewhere(off):
        other = off.other_thread_wait_us_per_step
        return (
            "Cannot tell how much toll shows in the step, because another thread of the off arm waits "
            f"{time_text(other)} ({percent(other / off.period_us)} of the step, "
            f"{off.other_thread_wait_category}) for the GPU{works}: toll can hide there."
        )
    if works:
        return (
            f"Cannot tell how much toll shows in the step: the off arm's host waits {percent(own)} of it for "
            f"the GPU{works}."
        )
    return (
        f"The off arm is host-bound: its host waits {percent(own)} of the step for the GPU, "
        "so nearly all toll shows."
    )


def _wait_statement(account: Account, notable: float) -> list[str]:
    longer = account.wait_us_per_step
    if account.toll_us_per_step > notable and -longer > notable:
        return [
            f"The host waits {time_text(-longer)} less per step for the GPU ({_wait_parts(account)}): "
            "that much of the toll is hidden behind GPU work."
        ]
    if longer > notable:
        return [f"The host waits {time_text(longer)} longer per step: {_wait_parts(account)}."]
    return []


def _wait_parts(account: Account) -> str:
    """`copy d2h +4.31 ms, event-sync −2.23 ms`: the waits that the difference is the sum of."""
    own = [one for one in account.waits if one.thread == "step"]
    smallest = LISTED_SHARE * max(abs(one.difference_us_per_step) for one in own)
    return ", ".join(
        f"{one.category} {signed_time(one.difference_us_per_step)}"
        for one in own
        if abs(one.difference_us_per_step) >= smallest
    )


def _new_blocking_copies(account: Account, notable: float) -> list[WaitDifference]:
    return [
        one
        for one in account.waits
        if one.category.startswith("copy") and one.thread == "step" and one.difference_us_per_step > notable
    ]


def _blocking_statement(copy: WaitDifference) -> str:
    """A copy that holds the host up in the on arm only is how lost overlap looks from the host."""
    off = _waiting(copy.off_per_step, copy.off_us_per_step, copy.on_per_step)
    on = _waiting(copy.on_per_step, copy.on_us_per_step, copy.off_per_step)
    arms = f"(off: {off}; on: {on})"
    return f"{copy.category} holds the host up until the GPU is done {arms}: overlap is lost there."


def _waiting(calls: float, us: float, other_calls: float) -> str:
    """How long calls of a category wait in one arm, if they do so often enough to say it."""
    if not calls:
        return "never waits"
    if calls < RARE_SHARE * other_calls:
        return "rarely waits"
    return f"waits {time_text(us)} a step"


def _unexplained_statement(off: ArmResult, on: ArmResult, account: Account) -> str:
    rest = account.unexplained
    parts = [
        ("host code outside driver calls", rest.outside_calls_us_per_step),
        ("calls above their own cost", rest.dearer_calls_us_per_step),
        ("calls without a counterpart (made, or waiting, in one arm only)", rest.other_counts_us_per_step),
        ("queries, allocations and captures", rest.other_calls_us_per_step),
    ]
    parts.sort(key=lambda part: -abs(part[1]))
    smallest = LISTED_SHARE * abs(parts[0][1])
    listed = ", ".join(f"{name} {signed_time(us)}" for name, us in parts if abs(us) >= smallest)
    said = f"Toll and waiting leave {signed_time(rest.total_us_per_step)} per step unexplained: {listed}."
    if abs(rest.outside_calls_us_per_step) < smallest or not (waits_elsewhere(off) or waits_elsewhere(on)):
        return said
    first, second = time_text(off.other_thread_wait_us_per_step), time_text(on.other_thread_wait_us_per_step)
    return (
        f"{said} Host code includes waiting for other threads, of which one waits {first} (off), "
        f"{second} (on) for the GPU."
    )
