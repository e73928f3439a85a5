from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import launch_bench
import pytest
import serve
from server import on_demand

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
LOAD = ["--num-prompts", "5", "--concurrency", "2", "--input-len", "4", "--output-len", "6"]
TINY = ["serve.py", "--bench", "--device", "cpu", "--model", "tiny", "--execution", "eager", *LOAD]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=SAMPLES,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


@pytest.mark.parametrize("readback", ["sync", "overlap", "worker"])
def test_server_runs_a_round_for_each_line_and_ends_with_the_input(readback: str) -> None:
    pytest.importorskip("torch")
    with start(*TINY, "--readback", readback, "--on-demand") as process:
        wishes, answers = pipes(process)
        assert json.loads(answers.readline()) == {"ready": True}
        rounds = []
        for _ in range(3):
            wishes.write("\n")
            wishes.flush()
            rounds.append(json.loads(answers.readline()))
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, ""), errors
    for result in rounds:
        assert (result["completed"], result["total_output_tokens"]) == (5, 30)
        # Five requests, two at a time: three turns of a prefill and at least five decodes.
        assert result["steps"] >= 18
        assert result["median_itl_ms"] > 0
    assert len({result["steps"] for result in rounds}) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_between_rounds_ends_the_server(number: signal.Signals) -> None:
    pytest.importorskip("torch")
    with start(*TINY, "--on-demand") as process:
        _, answers = pipes(process)
        answers.readline()
        process.send_signal(number)
        assert process.wait(30) == 128 + number
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


class SignalledEngine:
    """Gets a signal while it ends the other ranks."""

    host_work_us = 0
    closed = False

    def stop(self) -> None:
        pass

    def close(self) -> None:
        signal.raise_signal(signal.SIGTERM)
        self.closed = True


class SignalledInput:
    """Gets a signal while it is waited for a line."""

    def __iter__(self) -> Iterator[str]:
        signal.raise_signal(signal.SIGINT)
        yield "\n"


@pytest.fixture
def run_signalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any, Any], int]]:
    """Runs rounds that measure nothing on an engine and an input; puts the signal handlers back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(serve, "run_load", lambda _engine, _args: {})

    def run(engine: Any, lines: Any) -> int:
        monkeypatch.setattr(sys, "stdin", lines)
        args = argparse.Namespace(on_demand=True, profiler=False, host_work_us=0)
        return serve.run_bench(engine, args)

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signal_after_the_end_of_the_input_does_not_break_off_the_end(
    run_signalled: Callable[[Any, Any], int],
) -> None:
    engine = SignalledEngine()
    assert run_signalled(engine, io.StringIO("\n")) == 128 + signal.SIGTERM
    assert engine.closed


def test_second_signal_does_not_break_off_the_end(run_signalled: Callable[[Any, Any], int]) -> None:
    engine = SignalledEngine()
    with pytest.raises(SystemExit) as ended:
        run_signalled(engine, SignalledInput())
    assert (ended.value.code, engine.closed) == (128 + signal.SIGINT, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve.py", "--on-demand"], "--on-demand needs --bench"),
        (["serve.py", "--bench", "--profiler"], "--profiler needs --on-demand"),
        (["serve.py", "--bench", "--on-demand", "--result-filename", "new.json"], "takes one round"),
        ([*TINY, "--on-demand", "--profiler"], "give --device cuda"),
        (["launch_bench.py", "--profiler"], "--profiler needs --on-demand"),
        (["launch_bench.py", "--extra-submissions", "-1"], "must not be negative"),
        (["../bench/decode_step.py", "--profiler"], "--profiler needs --on-demand"),
        (["serve_vllm.py", "--profiler"], "unrecognized arguments: --profiler"),
    ],
)
def test_options_that_do_not_fit_end_in_one_line(arguments: list[str], message: str) -> None:
    with start(*arguments) as process:
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert message in errors.splitlines()[-1]
    assert output == ""


def test_rounds_are_profiled_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\n2\n"))
    # Without a GPU there are no GPU activities to profile.
    cpu = torch.profiler.ProfilerActivity.CPU
    monkeypatch.setattr(torch.profiler.ProfilerActivity, "CUDA", cpu)
    active: list[bool] = []

    def run_round() -> dict[str, Any]:
        active.append(torch.autograd._profiler_enabled())
        return {"round": len(active)}

    on_demand.serve(run_round, profiler=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"ready": True}, {"round": 1}, {"round": 2}]
    assert active == [True, True]
    assert not torch.autograd._profiler_enabled()


def test_vllm_rounds_follow_the_input_or_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    serve_vllm = pytest.importorskip("serve_vllm")

    async def numbers(args: argparse.Namespace) -> list[int]:
        return [number async for number in serve_vllm.rounds(args)]

    reading, writing = os.pipe()
    os.write(writing, b"\n\n\n")
    os.close(writing)
    with os.fdopen(reading) as wishes:
        monkeypatch.setattr(sys, "stdin", wishes)
        assert asyncio.run(numbers(argparse.Namespace(on_demand=True, rounds=1))) == [0, 1, 2]
    assert asyncio.run(numbers(argparse.Namespace(on_demand=False, rounds=2))) == [0, 1]


class FakeTorch:
    """Notes what a step submits, and to which stream."""

    uint8 = "uint8"

    class Tensor:
        def __init__(self, log: list[str], where: FakeTorch) -> None:
            self.log, self.where = log, where

        def fill_(self, _value: int) -> None:
            self.log.append(f"fill {self.where.stream}")

        def copy_(self, source: FakeTorch.Tensor, non_blocking: bool = False) -> None:
            self.log.append(f"{'input' if non_blocking else 'copy'} {self.where.stream}")

        def pin_memory(self) -> FakeTorch.Tensor:
            return self

    def __init__(self) -> None:
        self.log: list[str] = []
        self.stream = "main"
        self.cuda = self

    def zeros(self, *_size: int, **_options: Any) -> FakeTorch.Tensor:
        return self.Tensor(self.log, self)

    def zeros_like(self, _other: FakeTorch.Tensor) -> FakeTorch.Tensor:
        return self.zeros()

    def current_stream(self) -> str:
        return self.stream

    def Stream(self) -> str:
        return "side"

    def set_stream(self, stream: str) -> None:
        self.stream = stream

    def launch(self) -> None:
        self.log.append(f"kernel {self.stream}")

    def CUDAGraph(self) -> FakeTorch:
        return self

    def graph(self, _graph: Any) -> Any:
        return contextlib.nullcontext()

    def replay(self) -> None:
        self.log.append("graph")


def parsed(monkeypatch: pytest.MonkeyPatch, *words: str) -> argparse.Namespace:
    monkeypatch.setattr(sys, "argv", ["x", *words])
    return launch_bench.arguments()


def test_eager_step_submits_the_published_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = FakeTorch()
    args = parsed(monkeypatch, "--dispatch-us", "0.1")
    launch_bench.eager_step(torch, args, torch.launch)()
    assert len(torch.log) == 302
    assert torch.log.count("kernel main") == 181
    assert torch.log.count("fill side") + torch.log.count("copy side") == 121
    assert torch.stream == "main"
    # Spread: no stretch of the step is without them.
    assert max(len(run) for run in " ".join(torch.log).replace("copy", "fill").split("fill side")) < 50


def test_graph_step_has_its_submissions_around_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = FakeTorch()
    step = launch_bench.graph_step(torch, parsed(monkeypatch, "--mode", "graph"), torch.launch)
    torch.log.clear()
    step()
    at = torch.log.index("graph")
    assert (at, len(torch.log)) == (6, 12)
    assert torch.log[:3] == ["input main"] * 3
    assert "input main" not in torch.log[3:]


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_step_without_extras_is_the_kernels_alone(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    torch = FakeTorch()
    args = parsed(monkeypatch, "--mode", mode, "--extra-submissions", "0", "--dispatch-us", "0")
    make = launch_bench.eager_step if mode == "eager" else launch_bench.graph_step
    step = make(torch, args, torch.launch)
    torch.log.clear()
    step()
    assert torch.log == (["graph"] if mode == "graph" else ["kernel main"] * 181)


@pytest.mark.parametrize(("extra", "kernels"), [(121, 181), (0, 5), (7, 3), (1, 1)])
def test_extra_submissions_are_spread_evenly(extra: int, kernels: int) -> None:
    counts = launch_bench.spread_evenly(extra, kernels)
    assert (sum(counts), len(counts)) == (extra, kernels)
    assert max(counts) - min(counts) <= 1
