"""The sample server with a tiny model on a CPU: its settings, requests, and a stand-in for CUDA graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from server.configs import MODELS, Settings
from server.engine import Engine, Output
from server.scheduler import Request

BASE = Settings(
    model=MODELS["tiny"], device="cpu", execution="eager", readback="sync", max_seqs=4, max_len=48,
    max_prefill_tokens=64, marks="none",
)  # fmt: skip


def make_requests(temperature: float = 0.0) -> list[Request]:
    """Ten requests of different lengths: more than fit at once, so they join and leave between steps."""
    draw = torch.Generator().manual_seed(5)
    lengths = [(3, 9), (17, 4), (8, 1), (1, 20), (30, 12), (5, 5), (12, 16), (2, 2), (20, 7), (6, 11)]
    return [
        Request(torch.randint(512, (n,), generator=draw).tolist(), out, temperature=temperature, seed=i)
        for i, (n, out) in enumerate(lengths)
    ]


def complete(settings: Settings, requests: Sequence[Request]) -> list[list[int]]:
    engine = Engine(settings)
    left = set(requests)

    def on_outputs(outputs: Sequence[Output]) -> None:
        for output in outputs:
            if output.request.finish_reason is not None:
                left.discard(output.request)
        if not left:
            engine.stop()

    for request in requests:
        engine.submit(request)
    engine.run(on_outputs)
    return [r.tokens for r in requests]


def one_by_one(settings: Settings, temperature: float = 0.0) -> list[list[int]]:
    return [complete(settings, [request])[0] for request in make_requests(temperature)]


class Rerun:
    """Stands in for CUDA graphs: a replay runs the work again and writes its results to the same memory."""

    def __init__(self) -> None:
        self.recorded = 0
        self.replayed = 0

    def record(self, work: Any) -> Any:
        self.recorded += 1
        result = work()

        def replay() -> None:
            self.replayed += 1
            for old, new in zip(tensors(result), tensors(work()), strict=True):
                old.copy_(new)

        return result, replay

    def settle(self) -> None:
        pass


def tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value if isinstance(value, tuple) else vars(value).values()
    return [tensor for part in parts for tensor in tensors(part)]
