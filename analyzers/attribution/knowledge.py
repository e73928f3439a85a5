"""What two recordings can tell: the kind of input, and whether NVLink can be told from other GPU work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cctrace.analyzers.arms import Arm
from cctrace.analyzers.attribution.breakdown import Knowledge
from cctrace.analyzers.attribution.collectives import any_collective
from cctrace.analyzers.calls import COPY_KIND
from cctrace.analyzers.gpu import GPU_KINDS
from cctrace.analyzers.sentences import plural

KERNELS, GRAPHS, HOST_ONLY = "kernels", "graphs", "host-only"
"""Kinds of input, as in `Attribution.kind_of_input`."""
_ELSEWHERE: Final = (
    "GPU times of kernels come from another recording; GPU-local work is taken to run at the same speed in "
    "both arms, so what steps with collectives take longer on the GPU is put down to these"
)
_KERNEL_ROW, _GRAPH_ROW = GPU_KINDS.index("kernel"), GPU_KINDS.index("graph")


def input_kind(off: Arm, on: Arm, *, kernel_times: bool) -> str:
    """What GPU times there are: of kernels (in both arms, or from another recording), of graphs, or none."""
    return KERNELS if kernel_times else _rows_of_both(off, on)


def _rows_of_both(off: Arm, on: Arm) -> str:
    kinds = [_rows_of(arm) for arm in (off, on)]
    if all(kind == KERNELS for kind in kinds):
        return KERNELS
    return HOST_ONLY if all(kind == HOST_ONLY for kind in kinds) else GRAPHS


def _rows_of(arm: Arm) -> str:
    gpu = arm.process.gpu
    kinds = gpu.forms.kind[gpu.occurs]
    if (kinds == _KERNEL_ROW).any():
        return KERNELS
    return GRAPHS if (kinds == _GRAPH_ROW).any() else HOST_ONLY


def knowledge_of(off: Arm, on: Arm, *, kernel_times: bool) -> Knowledge:
    """What can be told apart in two arms, and what forbids shares whatever the replay says.

    Args:
        off: the off arm.
        on: the on arm.
        kernel_times: GPU times of single kernels are known from another recording.
    """
    distorted = [arm.recording.path for arm in (off, on) if arm.recording.distorted]
    refused = tuple(
        f"CUPTI distorted the host times of {path}: record with --gpu stamps, and give this file to "
        "--kernel-times"
        for path in distorted
    )
    kind = _rows_of_both(off, on)
    notes = {
        KERNELS: (),
        GRAPHS: (
            "GPU times are those of whole graphs; those of other work follow from what the host waited for",
        ),
        HOST_ONLY: ("GPU times are not recorded; they follow from what the host waited for",),
    }
    found = (*notes[kind], *_left_out(off, on))
    if kernel_times and kind != KERNELS:
        return Knowledge(None, refused, (*found, _ELSEWHERE))
    return Knowledge(_nvlink_unknown(off, on, kind), refused, found)


def _left_out(off: Arm, on: Arm) -> tuple[str, ...]:
    """Says how many GPU rows have times that cannot be; the replay does without them."""
    counts = [int((arm.process.gpu.end_ns <= arm.process.gpu.start_ns).sum()) for arm in (off, on)]
    if not any(counts):
        return ()
    rows = f"{plural(counts[0], 'GPU row')} of the off arm and {counts[1]} of the on arm"
    return (f"{rows} are left out: their end is not after their begin",)


def _nvlink_unknown(off: Arm, on: Arm, kind: str) -> str | None:
    if kind == KERNELS:
        return None
    if any_collective(_kernels((off, on))):
        return (
            "the recordings hold collectives, but no GPU times of single kernels: what NVLink encryption "
            "costs cannot be told from other GPU work (--kernel-times tells it)"
        )
    if any(_several_gpus(arm) for arm in (off, on)):
        return (
            "several GPUs work together, and the recordings do not name the kernels in their graphs: what "
            "NVLink encryption costs cannot be told from other GPU work"
        )
    return None


def _kernels(arms: Iterable[Arm]) -> Iterable[str]:
    for arm in arms:
        calls = arm.process.calls
        found = calls.forms.symbol[calls.occurs]
        yield from (calls.symbols[code] for code in set(found[found >= 0].tolist()))


def _several_gpus(arm: Arm) -> bool:
    """Whether GPUs of the recording exchange data: by copies, by ranks, or by what the metadata says."""
    if arm.other_processes:
        return True
    calls, acceptance = arm.process.calls, arm.recording.metadata.acceptance
    if (calls.forms.copy_kind[calls.occurs] == COPY_KIND["p2p"]).any():
        return True
    sizes = (
        acceptance.parallelism.tp,
        acceptance.parallelism.ep,
        acceptance.parallelism.cp,
        acceptance.scale.ranks,
    )
    return any(size is not None and size > 1 for size in sizes)
