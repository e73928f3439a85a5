#!/usr/bin/env python3
"""Steps of many small kernels, launched one by one (eager) or as one CUDA graph: what each submission costs.

A step ends when the GPU is done. The default of 181 kernels is the step of the published comparison (eager
2644 µs with confidential computing off and 6358 on, one full graph 2500 and 2589): a graph step takes about
2.5 ms. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from server import options
from server.marks import make_mark

KERNELS: Final = 181
KERNEL_US: Final = 12.6
"""Time of one kernel, µs; with about 1.2 µs from one graph node to the next, 181 of them take 2.5 ms."""
CALIBRATION_CYCLES: Final = 20_000_000
"""About 10 ms of one multiprocessor: long against the cost of launching and waiting."""
CALIBRATION_RUNS: Final = 10
"""The first ones also bring the clock up from idle."""
WARM_UP_STEPS: Final = 20


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=["eager", "graph"], default="eager", help="default eager")
    parser.add_argument(
        "--kernels", type=options.positive, default=KERNELS, metavar="N", help="kernels per step"
    )
    parser.add_argument(
        "--kernel-us",
        type=options.positive_float,
        default=KERNEL_US,
        metavar="T",
        help=f"GPU time of one kernel, µs (default {KERNEL_US})",
    )
    parser.add_argument(
        "--steps", type=options.positive, default=300, metavar="N", help="measured steps (default 300)"
    )
    parser.add_argument(
        "--marks", choices=["both", "hook", "nvtx", "none"], default="hook", help="default hook"
    )
    return parser.parse_args()


def cycles_per_us(torch: Any) -> float:
    """Clock cycles of a multiprocessor in 1 µs, by the host's clock around a long kernel."""
    times = []
    for _ in range(CALIBRATION_RUNS):
        begin = time.perf_counter()
        torch.cuda._sleep(CALIBRATION_CYCLES)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return CALIBRATION_CYCLES / (min(times) * 1e6)


def make_step(torch: Any, mode: str, kernels: int, cycles: int) -> Callable[[], None]:
    """A function that submits one step to the current stream."""

    def eager() -> None:
        for _ in range(kernels):
            torch.cuda._sleep(cycles)

    if mode == "eager":
        return eager
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        eager()
    replay: Callable[[], None] = graph.replay
    return replay


def measure(torch: Any, args: argparse.Namespace, cycles: int) -> list[float]:
    """Time of each step, µs, from its first submission until the GPU is done."""
    mark = make_mark(args.marks)
    step = make_step(torch, args.mode, args.kernels, cycles)
    stream = torch.cuda.current_stream()
    label = f"{args.mode} kernels={args.kernels}"
    times = []
    for number in range(WARM_UP_STEPS + args.steps):
        begin = time.perf_counter_ns()
        with mark(label):
            step()
            stream.synchronize()
        if number >= WARM_UP_STEPS:
            times.append((time.perf_counter_ns() - begin) / 1e3)
    return times


def spread(times: Sequence[float]) -> dict[str, float]:
    """Median, 10th and 90th percentile of step times, µs."""
    tenths = statistics.quantiles(times, n=10, method="inclusive") if len(times) > 1 else [times[0]] * 9
    return {
        "median_step_us": round(statistics.median(times), 3),
        "p10_step_us": round(tenths[0], 3),
        "p90_step_us": round(tenths[-1], 3),
    }


def main() -> int:
    """Size the kernels, run the steps, print."""
    args = arguments()
    try:
        import torch  # noqa: PLC0415 - --help and usage errors work without torch
    except ImportError as error:
        print(f"launch_bench: needs torch ({error})", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("launch_bench: no GPU that torch can use", file=sys.stderr)
        return 2
    rate = cycles_per_us(torch)
    with torch.cuda.stream(torch.cuda.Stream()):
        times = measure(torch, args, round(args.kernel_us * rate))
    about = {"mode": args.mode, "kernels": args.kernels, "kernel_us": args.kernel_us, "steps": args.steps}
    print(json.dumps({**about, "clock_mhz": round(rate, 1), **spread(times)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
