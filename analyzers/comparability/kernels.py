"""Kernels that one arm alone runs: another algorithm was chosen, which is no cost of encryption."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.collectives import any_collective
from cctrace.analyzers.attribution.result import Comparability
from cctrace.analyzers.calls import CAPTURE, SUBMIT
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.comparability.rules import INFORMS, WARNS
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.results import Result, value

MULTICAST: Final = re.compile(r"multimem|nvls|ldmc|stmc|sym[mk]?k?dev|symm_mem|mnnvl|gpu_mc", re.IGNORECASE)
"""Kernels that reach other GPUs by multicast or through symmetric memory: NCCL's NVLS and symmetric kernels
(LDMC, STMC: load and store by multicast), torch's `multimem_…`, the multi-node kernels of FlashInfer and
TensorRT LLM, Transformer Engine's `…_mc`."""
MIN_LAUNCHES: Final = 3
"""A kernel that was launched less often, outside of graphs, is set-up and no part of the steps."""
MIN_LAUNCH_SHARE: Final = 0.002
"""A kernel that makes less of all launches belongs to single prefills, whose lengths differ between runs."""
LISTED: Final = 5
SHORT_NAME: Final = 60
"""Characters of a kernel's symbol that are shown: templates run over pages."""


@dataclass(frozen=True, kw_only=True)
class KernelDifferences(Result):
    """Kernels by symbol: those launched often, and those recorded into graphs."""

    known: bool = value("whether both arms know the symbols of kernels")
    only_off: tuple[str, ...] = value("symbols that the off arm alone has")
    only_on: tuple[str, ...] = value("symbols that the on arm alone has")
    common: int = value("symbols that both have", "kernels")


def compared_kernels(off: Sequence[AbstractSet[str]], on: Sequence[AbstractSet[str]]) -> KernelDifferences:
    """Which kernels all recordings of one arm have and no recording of the other.

    Args:
        off: `kernel_symbols` of each recording of the off arm, at least one.
        on: the same of the on arm.
    """
    known = all(off) and all(on)
    off_names, on_names = frozenset().union(*off), frozenset().union(*on)
    return KernelDifferences(
        known=known,
        only_off=tuple(sorted(name for name in off_names - on_names if _in_all(name, off))) if known else (),
        only_on=tuple(sorted(name for name in on_names - off_names if _in_all(name, on))) if known else (),
        common=len(off_names & on_names),
    )


def _in_all(name: str, runs: Sequence[AbstractSet[str]]) -> bool:
    return all(name in run for run in runs)


def kernel_symbols(recording: Recording) -> set[str]:
    """Symbols of the kernels that a recording launches often, or records into graphs."""
    calls, forms = recording.calls, recording.calls.forms
    kernels = forms.is_operation("kernel") & (forms.symbol >= 0)

    def of_kind(kind: int) -> IntArray:
        counts = np.zeros(len(calls.symbols), np.int64)
        chosen = kernels & (forms.kind == kind)
        np.add.at(counts, forms.symbol[chosen], calls.count_of_forms[chosen])
        return counts

    launches, captured = of_kind(SUBMIT), of_kind(CAPTURE)
    least = max(MIN_LAUNCHES, MIN_LAUNCH_SHARE * float(launches.sum()))
    numbers = np.flatnonzero((launches >= least) | (captured > 0)).tolist()
    return {calls.symbols[number] for number in numbers if not calls.symbols[number].startswith("cuLaunch")}


def kernels_differ(kernels: KernelDifferences) -> Iterator[Comparability]:
    """What the difference means: an algorithm that multicast or an autotuner changed."""
    if not kernels.known:
        yield Comparability(
            name="kernels",
            severity=INFORMS,
            off=None,
            on=None,
            message="names of kernels are not known in both arms: nothing says that they run the same ones",
        )
        return
    if not kernels.only_off and not kernels.only_on:
        return
    symbols = (*kernels.only_off, *kernels.only_on)
    if any(MULTICAST.search(symbol) for symbol in symbols):
        meaning = (
            "one arm uses multicast or symmetric memory, which CC blocks: the arms compare algorithms, not "
            "encryption; repeat the off arm without them (NCCL_NVLS_ENABLE=0)"
        )
    elif any_collective(symbols):
        meaning = "another algorithm of a collective was chosen: its difference is not encryption alone"
    else:
        meaning = "other kernels were chosen, by an autotuner for example: their difference is not encryption"
    yield Comparability(
        name="kernels",
        severity=WARNS,
        off=_listed(kernels.only_off),
        on=_listed(kernels.only_on),
        message=f"kernels that one arm alone runs: {meaning}",
    )


def _listed(symbols: Sequence[str]) -> str:
    """`none of its own`, or the first names and the number of all."""
    if not symbols:
        return "none of its own"
    names = ", ".join(short_name(symbol) for symbol in symbols[:LISTED])
    return f"{len(symbols)}: {names}" + (" …" if len(symbols) > LISTED else "")


def short_name(symbol: str) -> str:
    """A symbol for people: `vllm::rms_norm_kernel` of a mangled name, the first part of a long one."""
    words, rest = [], symbol.removeprefix("_Z").removeprefix("N")
    while symbol.startswith("_Z") and (length := re.match(r"\d+", rest)):
        begin, count = length.end(), int(length.group())
        words.append(rest[begin : begin + count])
        rest = rest[begin + count :]
    name = "::".join(word for word in words if not word.startswith("_GLOBAL__N")) or symbol
    return name if len(name) <= SHORT_NAME else f"{name[: SHORT_NAME - 1]}…"
