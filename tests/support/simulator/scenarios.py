"""Situations that an attribution must get right. Sizes follow the published serving runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from simulator.costs import OFF, ON, Costs
from simulator.faults import coarse_clock, lose_rows
from simulator.load import Load
from simulator.recorder import Recorder
from simulator.recording import SimulatedTrace
from simulator.run import Run
from simulator.truth import Pair

Fault = Callable[[SimulatedTrace, int], SimulatedTrace]
OFF_SEED, ON_SEED = 11, 23
"""The arms are two runs: each has its own noise."""
_STEPS: Final = 64
_STEPS_OF_MANY_RANKS: Final = 34


@dataclass(frozen=True)
class Scenario:
    """A pair of runs, and what happened to its recordings (`fault(trace, seed)`, both arms)."""

    name: str
    pair: Pair
    fault: Fault | None = None

    def traces(self) -> tuple[SimulatedTrace, SimulatedTrace]:
        """The recordings of the off arm and of the on arm, as an attribution gets them."""
        off, on = self.pair.traces()
        if self.fault is None:
            return off, on
        return self.fault(off, OFF_SEED), self.fault(on, ON_SEED)


def pair_of(off: Load, on_costs: Costs = ON, *, on: Load | None = None, **values: Any) -> Pair:
    """Two arms of a load; `values` are those of `Run`."""
    steps = _STEPS if off.ranks == 1 else _STEPS_OF_MANY_RANKS
    first = Run(off, OFF, **{"steps": steps, "seed": OFF_SEED, **values})
    return Pair(first, replace(first, load=on or off, costs=on_costs, seed=ON_SEED))


def serving(concurrency: int, **values: Any) -> Load:
    """The published run of an 8-billion model on one GPU at a concurrency: one graph a step."""
    # Fitted to its throughput without CC: GPU and host time of a step, µs.
    gpu_us, host_us = 3608 + 32.7 * concurrency, 1519 + 30.4 * concurrency
    load = Load(
        execution="graph",
        readback="overlap",
        kernel_us=gpu_us / 181,
        around=8,
        dispatch_us=6.0,
        schedule_us=0.6 * host_us - 80,
        process_us=0.4 * host_us,
        token_bytes=8 * concurrency,
        input_bytes=64 * concurrency,
        batches=(concurrency,),
    )
    return replace(load, **values)


def parallel(ranks: int, **values: Any) -> Load:
    """The published tensor-parallel run: 62 layers, two all-reduces each, graphs cut at each layer."""
    collectives = 124
    step_us, collective_us = (12_645, 7.4) if ranks == 8 else (13_452, 5.4)
    load = Load(
        execution="pieces",
        pieces=62,
        readback="worker",
        ranks=ranks,
        kernels=collectives,
        kernel_us=(step_us - collectives * collective_us) / collectives,
        collectives=collectives,
        input_copies=0,
        schedule_us=1500.0,
        process_us=800.0,
        dispatch_us=5.0,
        batches=(32,),
    )
    return replace(load, **values)


def _recorded(pair: Pair, off: Recorder, on: Recorder | None = None) -> Pair:
    return Pair(replace(pair.off, recorder=off), replace(pair.on, recorder=on or off))


_UNBLOCKED: Final = replace(ON, copies_block=False)
_SHORT: Final = Load(schedule_us=10.0, process_us=10.0)
_PARTLY_HIDDEN: Final = pair_of(Load(kernel_us=13.8, dispatch_us=2.0))
_OVERLAP: Final = pair_of(serving(16))
_TP4: Final = pair_of(parallel(4))
_TP4_ALL: Final = pair_of(
    parallel(4, readback="overlap", input_copies=2, kernels=248, kernel_us=20.0),
    replace(ON, cpu=1.15, gpu=1.01),
)
_WORKER: Final = pair_of(serving(32, readback="worker"))

INSIDE: Final = (
    Scenario("eager, launch hidden by GPU", pair_of(Load(kernel_us=40.0))),
    Scenario("eager, launch partly hidden", _PARTLY_HIDDEN),
    Scenario(
        "eager, host bound",
        pair_of(replace(_SHORT, kernel_us=13.47, dispatch_us=8.52, submissions_per_kernel=1.669)),
    ),
    Scenario(
        "full graph", pair_of(replace(_SHORT, execution="graph", kernel_us=13.4, around=8, dispatch_us=2.0))
    ),
    Scenario("overlap, concurrency 16", _OVERLAP),
    Scenario("overlap, concurrency 64", pair_of(serving(64))),
    Scenario("no overlap, concurrency 32", pair_of(serving(32, readback="sync"))),
    Scenario("copy-worker, inputs on the stream", _WORKER),
    Scenario(
        "copy-worker that waits on the host", pair_of(serving(32, readback="worker", worker_waits="host"))
    ),
    Scenario("copy-worker, no inputs", pair_of(serving(32, readback="worker", input_copies=0))),
    Scenario("TP4", _TP4),
    Scenario("TP8", pair_of(parallel(8))),
    Scenario("TP4, all causes, slow CPU and GPU", _TP4_ALL),
    Scenario("overlap, CPU 20 % slower", pair_of(serving(32), replace(ON, cpu=1.2))),
    Scenario("GPU 3 % slower, nothing else", pair_of(serving(32), replace(OFF, gpu=1.03))),
    Scenario("overlap, host bound", pair_of(serving(16, schedule_us=3500.0, process_us=1500.0))),
    Scenario(
        "host and GPU in balance, copies asynchronous",
        pair_of(serving(16, schedule_us=2400.0, process_us=1500.0), _UNBLOCKED),
    ),
    Scenario("null pair", pair_of(serving(32), OFF)),
)
"""Situations that a replay with these rules can explain."""

OUTSIDE: Final = (
    Scenario(
        "queue of depth 1 in the on arm",
        pair_of(Load(kernel_us=13.47, dispatch_us=2.0), replace(ON, depth=1, start_us=5.5)),
    ),
    Scenario(
        "62 graph pieces in the on arm, one graph in the off arm",
        pair_of(
            serving(32, readback="sync"), on=serving(32, readback="sync", execution="pieces", pieces=62)
        ),
    ),
    Scenario("three threads, late wake-ups", pair_of(serving(32, readback="worker", forward="worker",
                                                            wake_us=8.0))),
    Scenario("prefills between decodes", pair_of(serving(16, prefill_every=6, prefill_kernel_us=40.0))),
    Scenario("two batch sizes", pair_of(serving(16, batches=(16, 32), same_batch=4))),
)  # fmt: skip
"""Situations beyond these rules, or with more to tell apart."""

FAULTY: Final = (
    Scenario("copy-worker, hand-overs not recorded",
             _recorded(_WORKER, Recorder(hand_overs=False))),
    Scenario("TP4, one row a graph", _recorded(_TP4, Recorder(gpu="stamps"))),
    Scenario("overlap, one row a graph", _recorded(_OVERLAP, Recorder(gpu="stamps"))),
    Scenario("overlap, no GPU rows", _recorded(_OVERLAP, Recorder(gpu="none"))),
    Scenario("overlap, 0.5 % of kernel rows lost", _OVERLAP,
             lambda trace, seed: lose_rows(trace, "kernel", 0.005, seed)),
    Scenario("eager partly hidden, 0.5 % of kernel rows lost", _PARTLY_HIDDEN,
             lambda trace, seed: lose_rows(trace, "kernel", 0.005, seed)),
    Scenario("TP4 all causes, 3 % of kernel rows lost", _TP4_ALL,
             lambda trace, seed: lose_rows(trace, "kernel", 0.03, seed)),
    Scenario("overlap, clock of 1 µs", _OVERLAP, lambda trace, _: coarse_clock(trace, 1000)),
    Scenario("eager partly hidden, recorder takes 2 µs off and 5 µs on",
             _recorded(_PARTLY_HIDDEN, Recorder(tax_us=2.0), Recorder(tax_us=5.0))),
    Scenario("overlap, recorder takes 2 µs off and 5 µs on",
             _recorded(_OVERLAP, Recorder(tax_us=2.0), Recorder(tax_us=5.0))),
)  # fmt: skip
"""The same situations, badly recorded."""

ALL: Final = (*INSIDE, *OUTSIDE, *FAULTY)
