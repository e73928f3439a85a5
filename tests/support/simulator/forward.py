"""The GPU work of one forward, and how it is cut into submissions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Final

from simulator.costs import Costs
from simulator.load import Load, Step, batch_factor
from simulator.machine import GpuWork
from simulator.noise import StepNoise
from simulator.rows import GPU_MEMSET, GRAPH_LAUNCH, MEMSET, Form, gpu_kernel, kernel_launch

COLLECTIVE: Final = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_MEMSET_US: Final = 0.5
_BEFORE_US: Final = 2.0
_AFTER_US: Final = 4.0
_GRAPHS_PER_BATCH: Final = 1000
"""Numbers of the graphs of a batch size begin at its position times this."""


@dataclass(frozen=True)
class Piece:
    """Work of the GPU with the form of its row and its size."""

    work: GpuWork
    form: Form
    size: int = -1


@dataclass(frozen=True)
class Submission:
    """One host call that hands work over."""

    form: Form
    own_us: float
    pieces: tuple[Piece, ...]
    dispatch_us: float
    graph: int = -1


@dataclass(frozen=True)
class Batch:
    """What runs, at which costs, with which noise."""

    load: Load
    costs: Costs
    step: Step
    noise: StepNoise


def submissions_of(batch: Batch) -> Iterator[Submission]:
    """The submissions of a forward, in order."""
    load, step = batch.load, batch.step
    pieces = tuple(_forward(batch))
    if step.phase == "prefill" or load.execution == "eager":
        yield from _kernel_by_kernel(batch, pieces)
        return
    before = load.around // 2
    yield from _small_kernels(batch, "prepare", _BEFORE_US, before)
    yield from _graphs(batch, pieces)
    yield from _small_kernels(batch, "sample", _AFTER_US, load.around - before)


def _forward(batch: Batch) -> Iterator[Piece]:
    load, step, noise = batch.load, batch.step, batch.noise
    if step.phase == "prefill":
        count, each = load.prefill_kernels, load.prefill_kernel_us
    else:
        count, each = load.kernels, load.kernel_us * batch_factor(load, step.batch)
    done = 0
    for index in range(count):
        duration = noise.vary("kernel", each * batch.costs.gpu)
        yield Piece(GpuWork(duration), _gpu_form(f"{step.phase}_kernel_{index % 7}"))
        wanted = (index + 1) * load.collectives // count
        for number in range(done, wanted):
            yield _collective(batch, number)
        done = wanted


def _collective(batch: Batch, number: int) -> Piece:
    load, costs = batch.load, batch.costs
    peers = load.ranks - 1
    us = costs.collective_us + peers * (costs.peer_us + load.collective_bytes / costs.nvlink_bytes_per_us)
    work = GpuWork(batch.noise.vary("collective", us), meeting=(batch.step.number, number))
    return Piece(work, _gpu_form(COLLECTIVE))


def _kernel_by_kernel(batch: Batch, pieces: tuple[Piece, ...]) -> Iterator[Submission]:
    load, costs = batch.load, batch.costs
    owed = 0.0
    for piece in pieces:
        form = _launch_form(piece.form.name or "")
        yield Submission(form, costs.kernel_us, (piece,), load.dispatch_us)
        owed += load.submissions_per_kernel - 1.0
        while owed >= 1.0:
            owed -= 1.0
            memset = Piece(GpuWork(batch.noise.vary("extra", _MEMSET_US)), GPU_MEMSET, 4)
            yield Submission(MEMSET, costs.memset_us, (memset,), 0.0)


def _graphs(batch: Batch, pieces: tuple[Piece, ...]) -> Iterator[Submission]:
    load, costs = batch.load, batch.costs
    number = load.pieces if load.execution == "pieces" else 1
    first = 1 + _GRAPHS_PER_BATCH * load.batches.index(batch.step.batch)
    each = ceil(len(pieces) / number)
    for index, begin in enumerate(range(0, len(pieces), each)):
        dispatch = load.dispatch_us if number > 1 else 0.0
        graph = pieces[begin : begin + each]
        yield Submission(GRAPH_LAUNCH, costs.graph_us, graph, dispatch, first + index)


def _small_kernels(batch: Batch, symbol: str, us: float, count: int) -> Iterator[Submission]:
    costs = batch.costs
    for index in range(count):
        name = f"{symbol}_{index}"
        piece = Piece(GpuWork(batch.noise.vary("extra", us * costs.gpu)), _gpu_form(name))
        yield Submission(_launch_form(name), costs.kernel_us, (piece,), batch.load.dispatch_us)


_gpu_form = lru_cache(maxsize=None)(gpu_kernel)
_launch_form = lru_cache(maxsize=None)(kernel_launch)
