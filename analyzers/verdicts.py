"""What a comparison says in words: the headline, reasons to doubt it, and what the numbers explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cctrace.analyzers.categories import ORDER, WORK, group_of
from cctrace.analyzers.differences import CallDifferences
from cctrace.analyzers.sentences import count_text, percent, signed_time, time_text
from cctrace.analyzers.tolls import Account, Toll, WaitDifference

if TYPE_CHECKING:
    from cctrace.analyzers.diff import ArmResult

SLACK_SHARE: Final = 0.05
"""An off arm whose host waits this part of its step has slack in which tolls can hide; below it is host-
bound."""
NOTABLE_SHARE: Final = 0.02
"""Parts below this share of the off step are not put in words."""
NOTABLE_TOLL: Final = 0.02
"""Tolls below this part of the submissions' are not put in words."""
MANY_KERNELS: Final = 8
"""From so many single kernels a step on, what they alone explain is worth a sentence."""
FEW_STEPS: Final = 30
"""Fewer typical steps than this make a mean that a few hiccups move."""
LOW_CONFIDENCE: Final = 0.9


def headline_of(off: ArmResult, on: ArmResult, *, within_noise: bool) -> str:
    """The sentence that matters: what the on arm adds to a step."""
    delta, growth = on.period_us - off.period_us, on.period_us / off.period_us - 1
    step = f"a {off.phase} step" if off.phase in ("decode", "prefill", "mixed") else "a step"
    who = f"Emulated {on.provenance.emulated}" if on.provenance.emulated else "CC"
    loss = 1 - off.period_us / on.period_us
    change = f"{signed_time(delta)} on {step} of {time_text(off.period_us)}"
    ratio = f"{on.period_us / off.period_us:.2f}×"
    numbers = f"step growth {percent(growth, signed=True)}, throughput loss {percent(loss)}"
    noise = "; within the noise of one pair of runs" if within_noise else ""
    return f"{who}: {change}, {ratio} ({numbers}{noise})."


def comparison_warnings(
    off: ArmResult, on: ArmResult, *, paired: bool, structure: CallDifferences
) -> tuple[str, ...]:
    """Reasons to doubt the comparison, the gravest first."""
    found = [*_arm_warnings(off, on)]
    if not paired:
        found.append(
            f"the arms' steps hold different work: {off.class_name} (off) against {on.class_name} (on); "
            "what differs is not CC alone"
        )
    if off.origin != on.origin:
        found.append(f"steps come from {off.origin} in the off arm, but are {on.origin} in the on arm")
    for name, arm in (("off", off), ("on", on)):
        if arm.confidence is not None and arm.confidence < LOW_CONFIDENCE:
            found.append(
                f"steps of the {name} arm are inferred, and only {arm.confidence:.0%} repeat a recent one"
            )
        if arm.typical_steps < FEW_STEPS:
            found.append(f"the {name} arm has only {arm.typical_steps} typical steps")
        if arm.other_processes:
            found.append(
                f"the {name} arm has {arm.other_processes} more processes with steps, which are not compared"
            )
    off_gpu, on_gpu = off.gpu.busy_share is not None, on.gpu.busy_share is not None
    if off_gpu != on_gpu:
        found.append(f"only the {'off' if off_gpu else 'on'} arm has GPU rows")
    if off.provenance.timing != on.provenance.timing or off.provenance.gpu_mode != on.provenance.gpu_mode:
        found.append(
            f"the arms were recorded differently: GPU times {off.provenance.gpu_mode or 'not known'} (off), "
            f"{on.provenance.gpu_mode or 'not known'} (on)"
        )
    if structure.listed:
        count = len(structure.listed) + structure.more
        found.append(f"{count} kernels or calls differ in number per step; see below")
    return tuple(found)


def _arm_warnings(off: ArmResult, on: ArmResult) -> list[str]:
    first, second = off.provenance, on.provenance
    if first.path == second.path:
        return ["both arms are the same recording"]
    found = []
    off_on = first.cc_mode in ("on", "devtools") or first.emulated is not None
    on_off = second.cc_mode == "off" and second.emulated is None
    if off_on and on_off:
        found.append("the arms look swapped (usage: diff ON OFF): CC is on in the off arm, off in the on arm")
    elif off_on:
        found.append(f"the off arm says CC {first.cc_mode}" + (", emulated" if first.emulated else ""))
    elif on_off:
        found.append("both recordings say CC off: the difference is not CC's")
    if "devtools" in (first.cc_mode, second.cc_mode):
        found.append("devtools mode is no production CC: costs can differ")
    if second.emulated:
        found.append("CC was emulated: costs of a profile were charged on a machine without CC")
    return found


def statements_of(off: ArmResult, on: ArmResult, account: Account | None) -> tuple[str, ...]:
    """What the account explains, what it does not, and what hides what."""
    if account is None:
        return ()
    delta = on.period_us - off.period_us
    notable = NOTABLE_SHARE * off.period_us
    said = [*_toll_statement(account, delta), *_kernel_statement(account, delta)]
    said.append(_slack_statement(off))
    hidden = -account.wait_us_per_step
    if account.toll_us_per_step > notable and hidden > notable:
        said.append(
            f"The host waits {time_text(hidden)} less per step for the GPU: "
            "that much of the toll is hidden behind GPU work."
        )
    elif account.wait_us_per_step > notable:
        said.append(
            f"The host waits {time_text(account.wait_us_per_step)} longer per step: {_longest_wait(account)}."
        )
    said += [_blocking_statement(one) for one in _new_blocking_copies(account, notable)]
    if abs(account.unexplained.total_us_per_step) > notable:
        said.append(_unexplained_statement(account))
    other = sum(toll.other_threads_raw_toll_us_per_step for toll in account.tolls)
    if abs(other) > notable:
        said.append(
            f"Other threads pay {time_text(other)} of toll per step, which is not on the step's time line."
        )
    return tuple(said)


def _charged(account: Account, group: str) -> list[Toll]:
    return [toll for toll in account.tolls if toll.toll_us is not None and group_of(toll.category) == group]


def _toll_statement(account: Account, delta: float) -> list[str]:
    work = _charged(account, WORK)
    if not work:
        return ["No toll can be told: no category of submissions has an own cost in both arms."]
    said = [f"Launch toll: {_product(work, 'submission')}{_of_difference(_sum(work), delta)}."]
    events = _charged(account, ORDER)
    if abs(_sum(events)) > NOTABLE_TOLL * abs(_sum(work)):
        said.append(f"Events and stream waits pay toll too: {_product(events, 'call')}.")
    return said


def _sum(tolls: list[Toll]) -> float:
    return sum(toll.raw_toll_us_per_step for toll in tolls)


def _product(tolls: list[Toll], word: str) -> str:
    """`181 submissions a step × +12.2 µs = +2.21 ms per step`."""
    calls = sum(min(toll.off_per_step, toll.on_per_step) for toll in tolls)
    mean = _sum(tolls) / calls if calls else 0.0
    number = count_text(calls)
    words = word if number == "1" else f"{word}s"
    return f"{number} {words} a step × {signed_time(mean)} = {signed_time(_sum(tolls))} per step"


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
    if not kernels or kernels[0].on_per_step < MANY_KERNELS or _sum(rest) <= NOTABLE_TOLL * _sum(kernels):
        return []
    others = count_text(sum(toll.on_per_step for toll in rest))
    return [
        f"Kernels alone: {_product(kernels, 'kernel')}{_of_difference(_sum(kernels), delta)}; "
        f"{others} graphs, copies and memsets a step pay {signed_time(_sum(rest))}."
    ]


def _slack_statement(off: ArmResult) -> str:
    share = off.wait_us_per_step / off.period_us
    if share < SLACK_SHARE:
        return (
            f"The off arm is host-bound: its host waits {percent(share)} of the step for the GPU, "
            "so nearly all toll shows."
        )
    waits = f"{time_text(off.wait_us_per_step)} ({percent(share)} of the step)"
    return f"The off arm's host waits {waits} for the GPU: toll up to about that much can hide there."


def _new_blocking_copies(account: Account, notable: float) -> list[WaitDifference]:
    return [
        one
        for one in account.waits
        if one.category.startswith("copy") and one.thread == "step" and one.difference_us_per_step > notable
    ]


def _blocking_statement(copy: WaitDifference) -> str:
    """A copy that holds the host up in the on arm only is how lost overlap looks from the host."""
    off, on = f"{time_text(copy.off_us_per_step)} off", f"{time_text(copy.on_us_per_step)} on"
    return f"{copy.category} holds the host up until the GPU is done ({off}, {on}): overlap is lost there."


def _longest_wait(account: Account) -> str:
    longest = next(one for one in account.waits if one.thread == "step")
    return f"{longest.category} {time_text(longest.off_us_per_step)} → {time_text(longest.on_us_per_step)}"


def _unexplained_statement(account: Account) -> str:
    rest = account.unexplained
    parts = [
        ("host code outside driver calls", rest.outside_calls_us_per_step),
        ("calls above their own cost", rest.dearer_calls_us_per_step),
        ("submissions that one arm makes more often", rest.other_counts_us_per_step),
        ("queries, allocations and captures", rest.other_calls_us_per_step),
    ]
    parts.sort(key=lambda part: -abs(part[1]))
    listed = ", ".join(f"{name} {signed_time(us)}" for name, us in parts if abs(us) >= 0.1 * abs(parts[0][1]))
    return f"Toll and waiting leave {signed_time(rest.total_us_per_step)} per step unexplained: {listed}."
