#!/usr/bin/env python3
"""Steps of many small kernels, launched one by one (eager) or as one CUDA graph: what each submission costs.

A step ends when the GPU is done. Without options it has the shape of the published comparison of a B200 with
confidential computing off and on, 181 kernels a step:

  eager           2644 → 6358 µs: the host limits both, and has more to submit than kernels
  one full graph  2500 → 2589 µs: the GPU limits both; what is submitted before the graph shows

`--extra-submissions 0 --dispatch-us 0` leaves the 181 kernels, or their graph, alone. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from server import on_demand, options
from server.marks import make_mark

KERNELS: Final = 181
"""Published: about 181 kernels a step."""
KERNEL_US: Final = 12.7
"""Time of one kernel, µs. On an H200 about 0.8 µs pass from one graph node to the next, 1.6 µs from one
launched kernel to the next: 181 of them take 2.44 ms as a graph, to which the submissions ahead of it come,
and 2.59 ms launched, a little less than the host needs."""
EXTRA: Final = {"eager": 121, "graph": 11}
"""Submissions beside kernels or graph. Eager: the growth of 6358 − 2644 µs is 303 times the published toll of
12.25 µs; 121 more than the 181 kernels explain it. Graph: three copies of inputs, eight small kernels."""
DISPATCH_US: Final = {"eager": 3.5, "graph": 0.0}
"""Busy host time per launched kernel, µs: what is missing from 2644 µs where, as on an H200's host, a kernel
takes 5.8 µs to launch from Python and an extra submission about 7.5 µs, with its change of stream."""
INPUT_COPIES: Final = 3
"""Extra submissions of a graph step that are host-to-device copies; they come first."""
BEFORE_GRAPH: Final = 6
"""Extra submissions ahead of the graph. With the graph itself these are exposed: 7 × 12.25 = 86 of the
published 89 µs of growth. Those after it are submitted while the GPU works."""
SMALL_BYTES: Final = 64
CALIBRATION_CYCLES: Final = 20_000_000
"""About 10 ms of one multiprocessor: long against the cost of launching and waiting."""
CALIBRATION_RUNS: Final = 10
"""The first ones also bring the clock up from idle."""
WARM_UP_STEPS: Final = 20

Submit = Callable[[], Any]


def arguments() -> argparse.Namespace:
    """The command line; what depends on the mode is filled in."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=["eager", "graph"], default="eager", help="default eager")
    parser.add_argument(
        "--kernels",
        type=options.positive,
        default=KERNELS,
        metavar="N",
        help=f"kernels per step (default {KERNELS})",
    )
    parser.add_argument(
        "--kernel-us",
        type=options.positive_float,
        default=KERNEL_US,
        metavar="T",
        help=f"GPU time of one kernel, µs (default {KERNEL_US})",
    )
    parser.add_argument(
        "--extra-submissions",
        type=options.natural,
        metavar="N",
        help=f"small fills and copies per step beside them (default {by_mode(EXTRA)})",
    )
    parser.add_argument(
        "--dispatch-us",
        type=options.natural_float,
        metavar="T",
        help=f"busy host time per launched kernel, µs (default {by_mode(DISPATCH_US)})",
    )
    parser.add_argument(
        "--steps", type=options.positive, default=300, metavar="N", help="measured steps (default 300)"
    )
    parser.add_argument(
        "--marks", choices=["both", "hook", "nvtx", "none"], default="hook", help="default hook"
    )
    on_demand.add(parser)
    args = parser.parse_args()
    on_demand.check(parser, args)
    if args.extra_submissions is None:
        args.extra_submissions = EXTRA[args.mode]
    if args.dispatch_us is None:
        args.dispatch_us = DISPATCH_US[args.mode]
    return args


def by_mode(values: dict[str, Any]) -> str:
    """Defaults that depend on the mode, for the help."""
    return ", ".join(f"{mode} {value:g}" for mode, value in values.items())


def cycles_per_us(torch: Any) -> float:
    """Clock cycles of a multiprocessor in 1 µs, by the host's clock around a long kernel."""
    times = []
    for _ in range(CALIBRATION_RUNS):
        begin = time.perf_counter()
        torch.cuda._sleep(CALIBRATION_CYCLES)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return CALIBRATION_CYCLES / (min(times) * 1e6)


def spin(nanoseconds: int) -> None:
    """Keep the thread busy."""
    end = time.perf_counter_ns() + nanoseconds
    while time.perf_counter_ns() < end:
        pass


def spread_evenly(extra: int, kernels: int) -> list[int]:
    """How many extra submissions follow each kernel."""
    return [extra * (i + 1) // kernels - extra * i // kernels for i in range(kernels)]


class Extras:
    """Small submissions, by turns a fill and a copy on the device; they hardly occupy the GPU."""

    def __init__(self, torch: Any) -> None:
        self._buffer = torch.zeros(SMALL_BYTES, dtype=torch.uint8, device="cuda")
        self._other = torch.zeros_like(self._buffer)
        self._host = torch.zeros(SMALL_BYTES, dtype=torch.uint8).pin_memory()
        self._turn = False

    def submit(self) -> None:
        """One fill or copy on the current stream."""
        self._turn = not self._turn
        if self._turn:
            self._buffer.fill_(0)
        else:
            self._other.copy_(self._buffer)

    def copy_input(self) -> None:
        """One copy from pinned host memory."""
        self._buffer.copy_(self._host, non_blocking=True)


def eager_step(torch: Any, args: argparse.Namespace, launch: Submit) -> Submit:
    """A step of launched kernels; the extra submissions go to a stream of their own, beside them."""
    kernel_stream, side = torch.cuda.current_stream(), torch.cuda.Stream()
    extras = Extras(torch)
    follow = spread_evenly(args.extra_submissions, args.kernels)
    dispatch_ns = round(args.dispatch_us * 1000)

    def step() -> None:
        for count in follow:
            if dispatch_ns:
                spin(dispatch_ns)
            launch()
            if count:
                torch.cuda.set_stream(side)
                for _ in range(count):
                    extras.submit()
                torch.cuda.set_stream(kernel_stream)

    return step


def graph_step(torch: Any, args: argparse.Namespace, launch: Submit) -> Submit:
    """A step of one graph of all kernels, with the extra submissions around it."""
    extras = Extras(torch)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(args.kernels):
            launch()
    copies = min(args.extra_submissions, INPUT_COPIES)
    before = min(args.extra_submissions, BEFORE_GRAPH) - copies
    after = args.extra_submissions - copies - before

    def step() -> None:
        for _ in range(copies):
            extras.copy_input()
        for _ in range(before):
            extras.submit()
        graph.replay()
        for _ in range(after):
            extras.submit()

    return step


class Bench:
    """One kind of step on the current stream, and the rounds that measure it.

    The kernels are sized in the first round: with --on-demand several processes start at once, but only the
    one whose round it is has the GPU for itself.
    """

    def __init__(self, torch: Any, args: argparse.Namespace) -> None:
        self._torch = torch
        self._args = args
        self._mark = make_mark(args.marks)
        self._rate = 0.0
        self._step: Submit | None = None
        torch.cuda.synchronize()

    def _prepared(self) -> Submit:
        if self._step is None:
            self._rate = cycles_per_us(self._torch)
            cycles = round(self._args.kernel_us * self._rate)
            make = eager_step if self._args.mode == "eager" else graph_step
            self._step = make(self._torch, self._args, lambda: self._torch.cuda._sleep(cycles))
            self._times(self._step, WARM_UP_STEPS)
        return self._step

    def _times(self, step: Submit, steps: int) -> tuple[list[float], list[float]]:
        """Of each step: µs until all was submitted, and until the GPU was done."""
        label = f"{self._args.mode} kernels={self._args.kernels}"
        submits, whole = [], []
        for _ in range(steps):
            begin = time.perf_counter_ns()
            with self._mark(label):
                step()
                submitted = time.perf_counter_ns()
                self._torch.cuda.synchronize()
            whole.append((time.perf_counter_ns() - begin) / 1e3)
            submits.append((submitted - begin) / 1e3)
        return submits, whole

    def run_round(self) -> dict[str, Any]:
        """Measure `--steps` steps."""
        submits, whole = self._times(self._prepared(), self._args.steps)
        names = ("mode", "kernels", "kernel_us", "extra_submissions", "dispatch_us", "steps")
        return {
            **{name: getattr(self._args, name) for name in names},
            "clock_mhz": round(self._rate, 1),
            "median_submit_us": round(statistics.median(submits), 3),
            **spread(whole),
        }


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
    with torch.cuda.stream(torch.cuda.Stream()):
        bench = Bench(torch, args)
        if args.on_demand:
            on_demand.serve(bench.run_round, profiler=args.profiler)
        else:
            on_demand.put(bench.run_round())
    return 0


if __name__ == "__main__":
    sys.exit(main())
