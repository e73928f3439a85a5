"""What is run: the programs, what is charged to them, and what is checked. The one table of the suite."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

CAUSES: Final = ("launch", "pcie", "overlap", "nvlink")
PLATFORM: Final = "b200-tdx"
BARE: Final = "bare"
"""The program without a recorder."""
PLAIN: Final = "plain"
"""Recorded, nothing emulated."""
ZERO: Final = "zero"
"""The emulator at work, but every cost 0: what all arms with costs are compared with."""

ONE_GPU: Final = ("launch", "pcie", "overlap", "launch+pcie", "launch+overlap", "pcie+overlap",
                  "launch+pcie+overlap")  # fmt: skip
"""Each cause of one GPU alone, in pairs, and all."""
MATRIX: Final = (PLAIN, ZERO, *ONE_GPU)
TWO_GPUS: Final = (BARE, PLAIN, ZERO, "nvlink", "launch+pcie+overlap+nvlink")

PUBLISHED_HOST_SHARE: Final = 0.5
"""Host time per step as a share of the GPU's. The published losses of 34–39 % with overlap fit a host that
needs 0.4–0.5 of the GPU's time: 1 − 1 ÷ 1.5 = 33 %."""


@dataclass(frozen=True)
class Scenario:
    """One program in several arms.

    Attributes:
        name: of its result file.
        program: a script of sample_traces and its options; --on-demand is added.
        arms: `bare`, `plain`, `zero`, or causes joined by `+`.
        step: the field of the program's result that is the time of a step, in the unit at its end.
        fields: other fields that are measured.
        checks: rules of `expectations.py`; that the trace's counts equal the truth is checked everywhere.
        seconds: about how long it takes on an H200 machine, 8 CPUs.
        processes: of each arm, all alive at once.
        rounds: of each process.
        gpus: that it needs.
        host_share: run each round twice, without host work and with so much that the scheduler's own time per
            step is this share of the step without.
        host_bound: the host sets the pace of its steps. Where other work slows this virtual machine's host
            down, in some rounds and by up to 90 %, the faster half of the rounds counts.
        keep: arms whose first recording is worth keeping.
        smoke: part of the quick run.
    """

    name: str
    program: tuple[str, ...]
    arms: tuple[str, ...]
    step: str
    fields: tuple[str, ...]
    checks: tuple[str, ...] = ()
    seconds: int = 30
    processes: int = 2
    rounds: int = 5
    gpus: int = 1
    host_share: float | None = None
    host_bound: bool = False
    keep: tuple[str, ...] = ()
    smoke: bool = False


def record_options(arm: str) -> tuple[str, ...]:
    """The options of `cctrace record` that make an arm; the bare arm has no recorder.

    Raises:
        ValueError: there is no such arm.
    """
    if arm == PLAIN:
        return ()
    if arm == ZERO:
        return ("--emulate=zero",)
    causes = arm.split("+")
    if not set(causes) <= set(CAUSES):
        raise ValueError(f"{arm}: causes are {', '.join(CAUSES)}")
    return (f"--emulate={PLATFORM}:{','.join(causes)}",)


def _bench(name: str, words: str, arms: tuple[str, ...], **more: Any) -> Scenario:
    """Steps of many small kernels."""
    program = ("launch_bench.py", *words.split())
    return Scenario(name, program, arms, "median_step_us", ("median_submit_us",), **more)


def _server(name: str, words: str, arms: tuple[str, ...], **more: Any) -> Scenario:
    """The sample server under a load of 16 requests that start together."""
    program = ("serve.py", "--bench", "--model", "0.6b", "--num-prompts", "16", "--max-len", "320")
    fields = ("median_host_ms", "output_throughput")
    return Scenario(name, (*program, *words.split()), arms, "median_step_ms", fields, **more)


HOST_BOUND: Final = "--mode eager --kernel-us 1 --extra-submissions 0 --dispatch-us 0 --steps 250"
"""Kernels so short that the host alone sets the pace: every toll shows in full."""
EAGER: Final = "--mode eager --steps 120"
GRAPH: Final = "--mode graph --steps 200"
DEEP: Final = "--execution graph --output-len 96"
"""All 28 layers: more than 2 ms of the GPU, beside which the waits of an idle GPU are small."""
SHORT: Final = "--layers 12 --host-work-us 150"
"""As in the sample traces."""
OUTPUT: Final = {"graph": "--output-len 128", "piecewise": "--output-len 96", "eager": "--output-len 64"}

JUDGED: Final = (
    _bench(
        "launch-host-bound",
        HOST_BOUND,
        (ZERO, "launch"),
        checks=("launch",),
        processes=4,
        rounds=6,
        host_bound=True,
        keep=(ZERO, "launch"),
        smoke=True,
    ),
    _bench(
        "launch-graph",
        GRAPH,
        (PLAIN, ZERO, "launch"),
        checks=("graph-ratio", "zero"),
        processes=4,
        keep=(ZERO, "launch"),
        smoke=True,
    ),
    _server(
        "overlap-deep",
        f"{DEEP} --readback overlap",
        (ZERO, "overlap"),
        checks=("overlap",),
        processes=3,
        rounds=4,
        host_share=PUBLISHED_HOST_SHARE,
        keep=(ZERO, "overlap"),
        smoke=True,
    ),
    _server(
        "worker-deep",
        f"{DEEP} --readback worker",
        (ZERO, "overlap"),
        checks=("worker",),
        processes=3,
        rounds=4,
        host_share=PUBLISHED_HOST_SHARE,
    ),
    _server(
        "zero-graph",
        f"{SHORT} --execution graph --readback overlap --output-len 128",
        (BARE, PLAIN, ZERO),
        checks=("zero",),
        processes=4,
        rounds=6,
    ),
    _bench("zero-host-bound", HOST_BOUND, (BARE, PLAIN, ZERO), checks=("zero",), processes=4, rounds=6),
    # Its GPU work is as long as the host needs without tolls: a little of them stays hidden.
    _bench("launch-eager", EAGER, (PLAIN, ZERO, "launch"), processes=3),
)
"""What the bars are about, first."""


def _matrix(execution: str, readback: str) -> Scenario:
    """One way to run the server, with every combination of causes."""
    eager = execution == "eager"
    # With a worker, two threads take turns in Python: how much of a toll shows then is no simple sum.
    simple = eager and readback != "worker"
    return _server(
        f"server-{execution}-{readback}",
        f"{SHORT} --execution {execution} --readback {readback} {OUTPUT[execution]}",
        MATRIX,
        checks=("launch",) if simple else (),
        rounds=6 if eager else 8,
        seconds=80 if eager else 60,
        host_bound=execution != "graph" or readback == "sync",
        keep=(ZERO, *ONE_GPU),
    )


def _parallel(execution: str) -> Scenario:
    """The server on two GPUs, whose collectives cross NVLink."""
    scenario = _server(
        f"tp2-{execution}-overlap",
        f"{SHORT} --tp 2 --execution {execution} --readback overlap {OUTPUT[execution]}",
        TWO_GPUS,
        checks=("nvlink", "zero"),
        rounds=4,
        seconds=60,
        gpus=2,
        host_bound=execution != "graph",
        keep=(ZERO, "nvlink"),
        smoke=execution == "graph",
    )
    return replace(scenario, fields=(*scenario.fields, "collectives_per_step"))


SERVERS: Final = tuple(
    _matrix(execution, readback)
    for execution in ("graph", "eager", "piecewise")
    for readback in ("overlap", "sync", "worker")
)
BENCHES: Final = (
    _bench("matrix-eager", EAGER, MATRIX, rounds=6, seconds=80, host_bound=True, keep=(ZERO, *ONE_GPU)),
    _bench("matrix-graph", GRAPH, MATRIX, checks=("graph-ratio",), rounds=3, seconds=45),
)
PARALLEL: Final = tuple(_parallel(execution) for execution in ("graph", "eager", "piecewise"))

SCENARIOS: Final = (*JUDGED, *SERVERS, *BENCHES, *PARALLEL)
"""In the order of their weight."""


def smoke(scenario: Scenario) -> Scenario:
    """The same with one process and one round of `zero` and its last arm: does it run at all?

    Without the checks that need other arms or several processes; that counts equal the truth is checked.
    """
    arms = (ZERO, scenario.arms[-1])
    return replace(scenario, arms=arms, checks=(), processes=1, rounds=1, seconds=20)
