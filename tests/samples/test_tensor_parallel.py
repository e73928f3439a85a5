"""Several ranks: the same numbers as one, and processes that all end whatever happens to one of them."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from server.configs import MODELS, Settings  # noqa: E402
from server.engine import Engine, Output  # noqa: E402
from server.execution import GraphExecution  # noqa: E402
from server.model import Decoder  # noqa: E402
from server.parallel import Group  # noqa: E402
from server.runner import Runner  # noqa: E402
from server.scheduler import Request  # noqa: E402
from server.weights import WeightSource  # noqa: E402
from tiny_server import BASE, Rerun, make_requests, one_by_one  # noqa: E402

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
TINY = ["serve.py", "--device", "cpu", "--model", "tiny", "--execution", "eager", "--tp", "2"]


@dataclass(frozen=True)
class Threads(Group):
    """Ranks that are threads: each leaves its part, all add up what is there."""

    parts: list[Any] = field(default_factory=list)
    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))

    def sum(self, partial: Any) -> Any:
        self.parts[self.rank] = partial
        self.barrier.wait(60)
        total = self.parts[0] + self.parts[1]
        self.barrier.wait(60)
        return partial.copy_(total)

    def leave(self) -> None:
        """Threads need not part."""


def pair() -> tuple[Threads, Threads]:
    first = Threads(0, 2, [None, None])
    return first, replace(first, rank=1)


# --- the numbers


def test_parts_of_a_matrix_are_those_of_the_whole() -> None:
    config, cpu = MODELS["tiny"], torch.device("cpu")

    def source() -> WeightSource:
        made = WeightSource(config, cpu, 0)
        made._start = (1 << 23) - 100  # the matrix lies across the end of the pool
        return made

    whole = source().normal(48, 32)
    rows = source().normal(48, 32, rows=[slice(4, 8), slice(40, 44)])
    columns = source().normal(48, 32, columns=slice(16, 32))
    assert torch.equal(rows, torch.cat([whole[4:8], whole[40:44]]))
    assert torch.equal(columns, whole[:, 16:])
    assert columns.is_contiguous()
    after = [s.normal(3, 3) for s in (source(), source())]
    assert torch.equal(*after)


def test_ranks_hold_disjoint_parts_of_the_same_model() -> None:
    whole = Decoder(BASE)._layers[1]
    ranks = [Decoder(BASE, group)._layers[1] for group in pair()]
    c = BASE.model
    query, key = c.heads * c.head_dim, c.kv_heads * c.head_dim
    for name, sizes in (("qkv", (query, key, key)), ("gate_up", (c.ffn, c.ffn))):
        blocks = [getattr(rank, name).split([size // 2 for size in sizes]) for rank in ranks]
        joined = torch.cat([part for parts in zip(*blocks, strict=True) for part in parts])
        assert torch.equal(joined, getattr(whole, name))
    for name in ("out", "down"):
        assert torch.equal(torch.cat([getattr(rank, name) for rank in ranks], 1), getattr(whole, name))


@pytest.mark.parametrize("tp", [3, 4])
def test_heads_that_cannot_be_split_are_refused(tp: int) -> None:
    with pytest.raises(ValueError, match=f"--tp {tp} does not divide"):
        Group(0, tp).local(MODELS["tiny"])
    assert Group(0, 8).local(MODELS["8b"]).kv_heads == 1


def hidden_of(settings: Settings, group: Group) -> Any:
    """What goes into the vocabulary head of a prefill, by the ranks' own sums."""
    runner = Runner(settings, group)
    found = []
    sample = runner.model._sample

    def spy(batch: Any, carry: Any) -> Any:
        found.append(carry.hidden.clone())
        return sample(batch, carry)

    runner.model._sample = spy  # type: ignore[method-assign]
    request = Request([5, 9, 300, 17, 4], 4, slot=0)
    with runner.context():
        runner.run("prefill", [request])
        request.launched = 1
        runner.run("decode", [request])
    return torch.cat(found)


def test_hidden_states_of_two_ranks_are_those_of_one() -> None:
    alone = hidden_of(BASE, Group())
    found: list[Any] = [None, None]

    def work(group: Threads) -> None:
        found[group.rank] = hidden_of(BASE, group)

    in_threads([lambda group=group: work(group) for group in pair()])
    assert torch.equal(found[0], found[1])
    torch.testing.assert_close(found[0], alone, rtol=1e-4, atol=1e-4)
    assert not torch.equal(found[0], torch.zeros_like(alone))


def in_threads(works: list[Any]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


class Told(queue.SimpleQueue[Any]):
    """Stands in for the pipes: what the leader tells goes to the other thread."""

    def tell(self, message: Any) -> None:
        self.put(message)

    def end(self) -> None:
        self.put(None)

    def __iter__(self) -> Iterator[Any]:
        return iter(lambda: self.get(timeout=60), None)

    def __bool__(self) -> bool:
        return True


def complete(settings: Settings, requests: list[Request]) -> list[list[int]]:
    """The tokens that two ranks give, one of which is a follower."""
    first, second = pair()
    told = Told()

    def lead() -> None:
        engine = Engine(settings, group=first, leader=told)  # type: ignore[arg-type]
        left = set(requests)

        def on_outputs(outputs: Any) -> None:
            left.difference_update(o.request for o in outputs if o.request.finish_reason is not None)
            if not left:
                engine.stop()

        for request in requests:
            engine.submit(request)
        engine.run(on_outputs)
        engine.close()

    def follow() -> None:
        runner = Runner(settings, second)
        runner.follow(told)
        runner.close()

    in_threads([lead, follow])
    return [request.tokens for request in requests]


@pytest.fixture(scope="module")
def alone() -> list[list[int]]:
    return one_by_one(BASE)


@pytest.mark.parametrize("readback", ["sync", "overlap", "worker"])
@pytest.mark.parametrize("execution", ["eager", "graph", "piecewise"])
def test_two_ranks_give_the_tokens_of_one(
    monkeypatch: pytest.MonkeyPatch, alone: list[list[int]], execution: Any, readback: Any
) -> None:
    def replaying(model: Any, inputs: Any, _streams: Any, settings: Settings) -> GraphExecution:
        return GraphExecution(model, inputs, settings, Rerun())

    if execution != "eager":
        monkeypatch.setattr("server.runner.make_execution", replaying)
    settings = replace(BASE, execution=execution, readback=readback)
    assert complete(settings, make_requests()) == alone


def test_two_ranks_draw_the_same_random_tokens() -> None:
    assert complete(BASE, make_requests(5.0)) == one_by_one(BASE, 5.0)


def test_engine_whose_step_failed_closes_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(replace(BASE, readback="sync"))

    def broken(_outputs: list[Output]) -> None:
        raise OSError("the client's disk is full")

    def never() -> None:
        raise AssertionError("waited for the GPU")

    monkeypatch.setattr(engine.runner, "close", never)
    engine.submit(Request([1], 1))
    with pytest.raises(OSError, match="disk is full"):
        engine.run(broken)  # type: ignore[arg-type]
    engine.close()


# --- the processes


@contextlib.contextmanager
def started(*words: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """The program, with all that belongs to it gone at the end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.Popen(
        [sys.executable, *TINY, *words], cwd=SAMPLES, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **more,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ranks_of(process: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def all_gone(pids: list[int], seconds: float = 60.0) -> bool:
    """Whether no process of these is left within some time; zombies that wait for their parent are gone."""

    def runs(pid: int) -> bool:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
        return False

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(runs(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def serving(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().split()[-1]


def ask(url: str, **body: Any) -> list[int]:
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        tokens: list[int] = json.load(answer)["choices"][0]["token_ids"]
    return tokens


@pytest.mark.parametrize("to_group", [False, True])
def test_server_of_two_processes_serves_and_ends_on_ctrl_c(alone: list[list[int]], to_group: bool) -> None:
    pytest.importorskip("aiohttp")
    requests = make_requests()
    with started("--port", "0", "--max-seqs", "2", "--max-len", "48") as process:
        url = serving(process)
        for number in (0, 3):
            prompt, length = requests[number].prompt, requests[number].max_tokens
            assert ask(url, prompt=prompt, max_tokens=length) == alone[number]
        ranks = ranks_of(process)
        assert len(ranks) == 2
        (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        assert all_gone(ranks, 1.0)


@pytest.mark.parametrize("victim", [0, 1])
def test_rank_that_dies_ends_all_with_a_message(victim: int) -> None:
    pytest.importorskip("aiohttp")
    with started("--port", "0", "--max-seqs", "2") as process:
        serving(process)
        ranks = ranks_of(process)
        os.kill(ranks[victim], signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGKILL
        assert errors.splitlines()[-1] == f"serve: rank {victim} ended with signal 9, so all were ended"
        assert all_gone(ranks, 1.0)


def test_ranks_end_with_the_process_that_watches_them() -> None:
    pytest.importorskip("aiohttp")
    with started("--port", "0", "--max-seqs", "2") as process:
        serving(process)
        ranks = ranks_of(process)
        process.kill()
        assert all_gone(ranks)


def test_load_runs_on_demand_on_two_ranks_and_a_signal_stops_it() -> None:
    load = ["--bench", "--on-demand", "--num-prompts", "3", "--concurrency", "2", "--input-len", "4",
            "--output-len", "5", "--readback", "worker"]  # fmt: skip
    with started(*load, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"ready": True}
        process.stdin.write('{"host_work_us": 3000}\n')
        process.stdin.flush()
        result = json.loads(process.stdout.readline())
        assert result["tokens_checksum"] == alone_checksum(*load[2:])
        assert (result["completed"], result["total_output_tokens"]) == (3, 15)
        assert (result["tp"], result["collectives_per_step"]) == (2, 4)
        assert result["median_host_ms"] > 3.0
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM  # its input is still open
        assert process.communicate() == ("", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_group", [False, True])
def test_signal_while_the_ranks_start_stops_them(number: signal.Signals, to_group: bool) -> None:
    with started("--bench") as process:
        while len(ranks_of(process)) < 2:
            time.sleep(0.01)
        (os.killpg if to_group else os.kill)(process.pid, number)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (128 + number, "")


def alone_checksum(*load: str) -> str:
    """What the same load gives on one rank."""
    words = [sys.executable, *TINY[:-2], "--bench", *load]
    done = subprocess.run(words, cwd=SAMPLES, capture_output=True, text=True, timeout=120, check=True)
    checksum: str = json.loads(done.stdout)["tokens_checksum"]
    return checksum


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tp", "3"], "--tp 3 does not divide heads=4"),
        (["--execution", "graph"], "needs a GPU"),
        (["--device", "cuda"], "--tp 2: torch sees 0 GPUs"),
        (["--device", "cuda:1"], "--tp takes the first N GPUs"),
    ],
)
def test_options_that_cannot_be_used_end_in_one_line(words: list[str], message: str) -> None:
    with started("--bench", *words) as process:
        output, errors = process.communicate(timeout=120)
        assert (process.returncode, output) == (2, "")
        assert message in errors.splitlines()[-1]
        assert len([line for line in errors.splitlines() if message in line]) == 1
        assert "Traceback" not in errors
