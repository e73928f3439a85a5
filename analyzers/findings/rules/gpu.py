"""Rules about what the GPUs exchange: encrypted collectives, and algorithms that CC takes away."""

from __future__ import annotations

from typing import Final

from cctrace.analyzers.comparability.fields import fields_of
from cctrace.analyzers.comparability.kernels import MULTICAST as MULTICAST_SYMBOL
from cctrace.analyzers.comparability.kernels import kernel_symbols, short_name
from cctrace.analyzers.findings.places import MAX_PLACES, seen_outside
from cctrace.analyzers.findings.result import RISK
from cctrace.analyzers.findings.rule import CannotTell, Remedy, Rule, Seen
from cctrace.analyzers.findings.savings import cannot_tell, replayed
from cctrace.analyzers.findings.view import Observation, StepView
from cctrace.analyzers.noise import NOISE_FLOOR
from cctrace.analyzers.sentences import percent, time_text

MIN_NVLINK_SHARE: Final = NOISE_FLOOR
"""An NVLink share below this part of the step is not worth another parallelism: two runs differ by as
much."""


def _multicast(seen: Observation) -> Seen | CannotTell | None:
    symbols = kernel_symbols(seen.recording)
    found = sorted(symbol for symbol in symbols if MULTICAST_SYMBOL.search(symbol))
    evidence = [
        seen_outside(f"the kernel {short_name(symbol)} runs", 1, "kernel") for symbol in found[:MAX_PLACES]
    ]
    if fields_of(seen.metadata)["recording.symmetric_memory"]:
        evidence.append(seen_outside("the command asks for symmetric memory or NVLS", 1))
    if evidence:
        saving = cannot_tell("without multicast another algorithm runs; only a run of it tells its time")
        return Seen(evidence, saving, measured=seen.has_cc)
    return None if symbols else CannotTell("the recording does not know the names of kernels")


def _nvlink_share(view: StepView) -> Seen | CannotTell | None:
    if view.off is None:
        return None  # a single recording has no share
    breakdown = view.breakdown
    if breakdown is None or breakdown.shares is None:
        return CannotTell("the pair has no shares")
    nvlink = breakdown.shares.nvlink
    if nvlink is None:
        return CannotTell(breakdown.shares.nvlink_unknown_because or "the NVLink share is not known")
    if nvlink.share_us < MIN_NVLINK_SHARE * breakdown.off_step_us:
        return None
    text = (
        f"encrypted NVLink makes {time_text(nvlink.share_us)} of the difference a step, "
        f"{percent(nvlink.share_pct_of_off / 100)} of the off arm's step"
    )
    saving = replayed(view, nvlink.saved_if_removed_us, "the pair replayed without NVLink encryption")
    return Seen([seen_outside(text, breakdown.on_steps)], saving, measured=True)


MULTICAST: Final = Rule(
    name="multicast",
    looks_for="collectives by multicast (NVLS) or through symmetric memory, by the names of kernels",
    title="Collectives use multicast or symmetric memory",
    cause="nvlink",
    kind=RISK,
    remedy=Remedy(
        "Choose algorithms without multicast by size and topology, and do not enable symmetric memory "
        "(--enable-symm-mem): CC blocks multicast, and its registration may cost without its benefit. Set "
        "NCCL_NVLS_ENABLE=0 in the off arm too, or the pair compares algorithms",
        ("NVIDIA's TensorRT LLM measurements on B200: NVLS not available", "SGLang issue #30364"),
    ),
    of_recording=_multicast,
)
NVLINK_SHARE: Final = Rule(
    name="nvlink-share",
    looks_for="pairs in which NVLink encryption makes a notable part of the step",
    title="Encrypted NVLink takes a notable part of the step",
    cause="nvlink",
    remedy=Remedy(
        "Size tensor parallelism to the model, and use expert or data parallelism instead: fewer GPUs in a "
        "group exchange fewer bytes",
        ("published: TP8 2.8–3.6 %, TP4 1.5 % with 94 % of the throughput of TP8",),
    ),
    of_steps=_nvlink_share,
)
