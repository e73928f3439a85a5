"""What a simulated server does in each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

WARM_UP_STEPS: Final = 4
"""Steps that fill the pipeline. No mean holds them, and recordings begin after them."""


@dataclass(frozen=True)
class Load:
    """A server, as its host threads and its GPUs see it. Times are µs with all factors at 1.

    Attributes:
        execution: how a decode forward is handed over: kernel by kernel, as one graph, or as `pieces` graphs.
            Prefills are always handed over kernel by kernel.
        pieces: graphs per forward, for "pieces".
        readback: "sync" waits for this step's tokens; "overlap" for those of the step before; "worker" leaves
            copy and wait to a copy-worker thread, and waits for its hand-back of the step before.
        worker_waits: how the copy-worker waits for the forward: "host" synchronizes with its event and then
            copies; "stream" makes the copies' stream wait, and synchronizes with the copy.
        forward: thread that hands the forward over. A "worker" gets each batch from the scheduler.
        ranks: processes, each with its GPU; collectives join them.
        batches: batch sizes; decode steps change to the next one after `same_batch` steps.
        same_batch: see `batches`.
        prefill_every: one prefill step before every n-th decode step; 0: none.
        kernels: kernels of a decode forward.
        kernel_us: GPU time of each, at the first batch size.
        prefill_kernels: kernels of a prefill.
        prefill_kernel_us: GPU time of each.
        submissions_per_kernel: casts and memsets besides the kernels; 1: none.
        around: small kernels outside of graphs: inputs before the forward, sampling after it.
        collectives: collectives of a forward, spread evenly.
        collective_bytes: size of each.
        input_copies: copies to the device per step, on the compute stream or on one of their own.
        input_bytes: size of each.
        inputs_aside: whether they have a stream of their own, which the compute stream then waits for.
        token_bytes: size of the copy that brings the tokens back.
        host_allocs: page-locked allocations per step.
        dispatch_us: host code before each launch.
        schedule_us: host code before the forward.
        process_us: host code after the tokens have come.
        wake_us: from a hand-over to the moment at which a thread that waited for it runs again.
    """

    execution: Literal["eager", "graph", "pieces"] = "eager"
    pieces: int = 1
    readback: Literal["sync", "overlap", "worker"] = "sync"
    worker_waits: Literal["host", "stream"] = "stream"
    forward: Literal["scheduler", "worker"] = "scheduler"
    ranks: int = 1
    batches: tuple[int, ...] = (16,)
    same_batch: int = 8
    prefill_every: int = 0
    kernels: int = 181
    kernel_us: float = 13.8
    prefill_kernels: int = 200
    prefill_kernel_us: float = 60.0
    submissions_per_kernel: float = 1.0
    around: int = 4
    collectives: int = 0
    collective_bytes: int = 196_608
    input_copies: int = 2
    input_bytes: int = 1024
    inputs_aside: bool = False
    token_bytes: int = 256
    host_allocs: int = 0
    dispatch_us: float = 4.0
    schedule_us: float = 300.0
    process_us: float = 200.0
    wake_us: float = 0.0


@dataclass(frozen=True)
class Step:
    """One scheduler iteration."""

    number: int
    phase: Literal["decode", "prefill"]
    batch: int

    @property
    def label(self) -> str:
        """What the engine's mark says; steps of one label do the same."""
        return f"{self.phase} bs={self.batch}"


def plan(load: Load, decode_steps: int) -> tuple[Step, ...]:
    """The steps of a run with a number of decode steps."""
    steps: list[Step] = []
    for index in range(decode_steps):
        if load.prefill_every and index % load.prefill_every == 0:
            steps.append(Step(len(steps), "prefill", 1))
        batch = load.batches[index // load.same_batch % len(load.batches)]
        steps.append(Step(len(steps), "decode", batch))
    return tuple(steps)


def batch_factor(load: Load, batch: int) -> float:
    """How much longer the kernels of a batch take than those of the first one.

    Decode lies between memory bound (no longer at all) and compute bound (in proportion).
    """
    return float((batch / load.batches[0]) ** 0.5)
