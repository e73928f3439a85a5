#!/usr/bin/env python3
"""Three steps that recorders are compared by, of 181 small kernels of torch: what a recorder adds to each.

eager_step_us   the kernels, launched one by one
graph_step_us   the kernels as one CUDA graph
decode_step_us  64 bytes of pinned memory to the GPU, the graph, and one value back by .item()

Each field is the median of a round, with the wait for the GPU. Prints one JSON object per round.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sample_traces"))

from server import on_demand, options

KERNELS: Final = 181
"""As many as in the published comparison of launch tolls."""
ELEMENTS: Final = 4096
"""Small enough that a kernel takes about 1 µs: whatever a recorder adds shows."""
INPUTS: Final = 8
"""Of 8 bytes each."""
WARM_UP_STEPS: Final = 50

Step = Callable[[], Any]


def make_steps(torch: Any) -> dict[str, Step]:
    """The three steps by the names of their fields, on the current stream."""
    values = torch.zeros(ELEMENTS, device="cuda")
    inputs = torch.zeros(INPUTS, dtype=torch.int64).pin_memory()
    received = torch.zeros(INPUTS, dtype=torch.int64, device="cuda")
    graph = torch.cuda.CUDAGraph()

    def kernels() -> None:
        for _ in range(KERNELS):
            values.add_(1.0)

    kernels()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        kernels()

    def eager() -> None:
        kernels()
        torch.cuda.synchronize()

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    def decode() -> None:
        received.copy_(inputs, non_blocking=True)
        graph.replay()
        values[0].item()

    return {"eager_step_us": eager, "graph_step_us": replay, "decode_step_us": decode}


def median_us(step: Step, count: int) -> float:
    """Median time of a step, µs."""
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        step()
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times) / 1e3


def main() -> int:
    """Warm up, then run one round, or one for each line of standard input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=options.positive, default=500, metavar="N",
                        help="of each kind per round (default 500)")  # fmt: skip
    on_demand.add(parser)
    args = parser.parse_args()
    on_demand.check(parser, args)
    try:
        import torch  # noqa: PLC0415 - --help and usage errors work without torch
    except ImportError as error:
        print(f"decode_step: needs torch ({error})", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("decode_step: no GPU that torch can use", file=sys.stderr)
        return 2
    with torch.cuda.stream(torch.cuda.Stream()):
        steps = make_steps(torch)

        def run_round() -> dict[str, Any]:
            times = {name: round(median_us(step, args.steps), 3) for name, step in steps.items()}
            return {"steps": args.steps, "kernels": KERNELS, **times}

        for step in steps.values():
            median_us(step, WARM_UP_STEPS)
        if args.on_demand:
            on_demand.serve(run_round, profiler=args.profiler)
        else:
            on_demand.put(run_round())
    return 0


if __name__ == "__main__":
    sys.exit(main())
