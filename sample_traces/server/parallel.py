"""Tensor parallelism: which part of the model a rank holds, and the sums over all ranks."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist

from server.configs import ModelConfig


@dataclass(frozen=True)
class Group:
    """The ranks that run one model together, seen from one of them.

    Each holds `1 / size` of the heads and of the feed-forward network, and all of embedding and head: after
    the two sums of a layer every rank has the same numbers, and so they sample the same tokens.
    """

    rank: int = 0
    size: int = 1

    def local(self, config: ModelConfig) -> ModelConfig:
        """The shape of this rank's part.

        Raises:
            ValueError: heads or feed-forward network cannot be split so.
        """
        for name in ("heads", "kv_heads", "ffn"):
            if getattr(config, name) % self.size:
                raise ValueError(f"--tp {self.size} does not divide {name}={getattr(config, name)} evenly")
        return replace(
            config,
            heads=config.heads // self.size,
            kv_heads=config.kv_heads // self.size,
            ffn=config.ffn // self.size,
        )

    def part(self, count: int, start: int = 0) -> slice:
        """This rank's part of `count` rows or columns that begin at `start`."""
        share = count // self.size
        return slice(start + self.rank * share, start + (self.rank + 1) * share)

    def sum(self, partial: torch.Tensor) -> torch.Tensor:
        """The sum over all ranks, in place. Each must call it, in the same order."""
        if self.size > 1:
            dist.all_reduce(partial)
        return partial

    def leave(self) -> None:
        """End the communication. All ranks do it, after their last sum, when no graph holds one any more."""
        if self.size > 1:
            dist.destroy_process_group()


ALONE = Group()


def join(rank: int, size: int, device: torch.device, store: Path) -> Group:
    """Meet the other ranks, through a file that does not exist yet: NCCL between GPUs, gloo between CPUs.

    NVLink's multicast is left off unless NCCL_NVLS_ENABLE is set: it is not to be had under confidential
    computing, and two runs that are to be compared must use the same algorithms.
    """
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    gpu = device.type == "cuda"
    if gpu:
        torch.cuda.set_device(device)
    else:  # the ranks share the cores
        torch.set_num_threads(max(1, torch.get_num_threads() // size))
    dist.init_process_group(
        "nccl" if gpu else "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        device_id=device if gpu else None,
    )
    return Group(rank, size)
