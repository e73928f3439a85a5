from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from server.configs import Settings, buckets, model_config  # noqa: E402
from server.engine import Engine, Output  # noqa: E402
from server.execution import GraphExecution, make_execution  # noqa: E402
from server.scheduler import Request  # noqa: E402
from tiny_server import BASE, Rerun, complete, make_requests, one_by_one  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def alone() -> list[list[int]]:
    return one_by_one(BASE)


def test_requests_get_the_tokens_they_asked_for_and_tokens_differ(alone: list[list[int]]) -> None:
    assert [len(tokens) for tokens in alone] == [r.max_tokens for r in make_requests()]
    assert len({token for tokens in alone for token in tokens}) > 20


@pytest.mark.parametrize("readback", ["sync", "overlap", "worker"])
def test_batched_tokens_equal_those_of_requests_run_alone(alone: list[list[int]], readback: Any) -> None:
    assert complete(replace(BASE, readback=readback), make_requests()) == alone


@pytest.mark.parametrize("readback", ["sync", "overlap"])
def test_sampling_noise_belongs_to_the_request_not_to_the_batch(
    readback: Any, alone: list[list[int]]
) -> None:
    settings = replace(BASE, readback=readback)
    sampled = complete(settings, make_requests(temperature=5.0))
    assert sampled == one_by_one(BASE, temperature=5.0)
    assert sampled != alone


def test_greedy_and_sampled_requests_share_a_batch(alone: list[list[int]]) -> None:
    requests = make_requests()
    for request in requests[1::2]:
        request.temperature = 5.0
    tokens = complete(BASE, requests)
    assert tokens[0::2] == alone[0::2]
    assert tokens[1::2] != alone[1::2]


def test_seed_decides_the_weights(alone: list[list[int]]) -> None:
    assert complete(replace(BASE, seed=1), make_requests()) != alone


@pytest.mark.parametrize("readback", ["sync", "overlap", "worker"])
def test_stop_token_ends_a_request_even_if_its_next_step_is_in_flight(
    alone: list[list[int]], readback: Any
) -> None:
    requests = make_requests()
    victim = requests[4]
    victim.stop = frozenset([alone[4][3]])
    cut = alone[4].index(alone[4][3]) + 1
    tokens = complete(replace(BASE, readback=readback), requests)
    assert tokens[4] == alone[4][:cut]
    assert victim.finish_reason == "stop"
    assert tokens[:4] + tokens[5:] == alone[:4] + alone[5:]


def test_cancelled_request_frees_its_slot_for_the_rest(alone: list[list[int]]) -> None:
    engine = Engine(replace(BASE, readback="overlap", max_seqs=1))
    first, second = make_requests()[3], make_requests()[0]

    def on_outputs(outputs: Sequence[Output]) -> None:
        if len(first.tokens) == 5:
            engine.cancel(first)
        if second.finish_reason is not None:
            engine.stop()

    engine.submit(first)
    engine.submit(second)
    engine.run(on_outputs)
    assert first.finish_reason == "abort"
    assert len(first.tokens) < first.max_tokens
    assert second.tokens == alone[0]


def test_idle_engine_sleeps_until_a_request_comes_from_another_thread(alone: list[list[int]]) -> None:
    engine = Engine(BASE)
    done = threading.Event()
    thread = threading.Thread(target=engine.run, args=(lambda outputs: done.set(),))
    thread.start()
    request = make_requests()[2]
    engine.submit(request)
    assert done.wait(20)
    engine.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert request.tokens == alone[2]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request([], 1), "empty"),
        (Request([512], 1), "between 0 and 511"),
        (Request([-1], 1), "between 0 and 511"),
        (Request([1], 0), "at least 1"),
        (Request([1] * 40, 9), "exceed 48"),
    ],
)
def test_requests_that_can_never_run_are_refused(request_: Request, message: str) -> None:
    engine = Engine(BASE)
    with pytest.raises(ValueError, match=message):
        engine.submit(request_)


@pytest.mark.parametrize("execution", ["graph", "piecewise"])
def test_graphs_without_a_gpu_are_refused(execution: Any) -> None:
    with pytest.raises(ValueError, match="needs a GPU"):
        Engine(replace(BASE, execution=execution))


def test_flash_attention_on_a_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match="use --attention math"):
        Engine(replace(BASE, attention="flash"))


def test_graph_sizes_cover_every_batch() -> None:
    assert buckets(1) == [1]
    assert buckets(16) == [1, 2, 4, 8, 16]
    assert buckets(20) == [1, 2, 4, 8, 16, 20]


def test_layers_can_be_cut() -> None:
    assert model_config("0.6b", 8).layers == 8
    assert model_config("8b").layers == 36


def test_padding_rows_do_not_change_the_result() -> None:
    """What graphs do to a batch smaller than their size, run eagerly."""
    engine = Engine(BASE)
    requests = make_requests()[:2]
    with torch.inference_mode():
        for slot, request in enumerate(requests):
            request.slot = slot
            engine.runner.model.forward(engine.runner.inputs.prefill([request]))
            request.launched = 1
        prefilled = engine.runner.model.cache.last_token.clone()
        sent = engine.runner.inputs.decode(requests, 2)
        plain = engine.runner.model.forward(engine.runner.inputs.decode_batch(sent, 2)).tolist()
        engine.runner.model.cache.last_token.copy_(prefilled)
        sent = engine.runner.inputs.decode(requests, 4)
        padded = engine.runner.model.forward(engine.runner.inputs.decode_batch(sent, 4)).tolist()
    assert padded[:2] == plain


@pytest.mark.parametrize("readback", ["sync", "overlap", "worker"])
@pytest.mark.parametrize("execution", ["graph", "piecewise"])
@pytest.mark.parametrize("temperature", [0.0, 5.0])
def test_replayed_steps_give_the_tokens_of_eager_ones(
    monkeypatch: pytest.MonkeyPatch, alone: list[list[int]], execution: Any, readback: Any, temperature: float
) -> None:
    recorder = Rerun()

    def replaying(model: Any, inputs: Any, streams: Any, settings: Settings) -> GraphExecution:
        return GraphExecution(model, inputs, settings, recorder)

    monkeypatch.setattr("server.runner.make_execution", replaying)
    tokens = complete(replace(BASE, execution=execution, readback=readback), make_requests(temperature))
    assert tokens == (one_by_one_eager(temperature) if temperature else alone)
    pieces = BASE.model.layers + 1 if execution == "piecewise" else 1
    kinds = len(buckets(BASE.max_seqs)) * pieces
    assert recorder.recorded >= kinds
    assert recorder.recorded <= 2 * kinds
    assert recorder.replayed > 0
    assert recorder.replayed % pieces == 0


def one_by_one_eager(temperature: float) -> list[list[int]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("server.runner.make_execution", make_execution)
        return one_by_one(BASE, temperature)
