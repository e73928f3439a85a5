"""What operations cost in any mix of causes: rows of coefficients over COLUMNS.

A cost is what it is in the off arm, and what each player adds when it is switched to the on arm. With a 0
or 1 for every player, the dot product is the cost in that mix.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from cctrace.analyzers.attribution.result import PLAYERS
from cctrace.analyzers.attribution.timeline import KINDS
from cctrace.analyzers.categories import CATEGORIES, CATEGORY, ORDER, WAIT, WORK, group_of
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

COLUMNS: Final = ("off", *PLAYERS)
"""Columns of a cost: its value in the off arm, then what each player adds."""
OFF, LAUNCH, PCIE, OVERLAP, NVLINK, HOST, GPU = range(len(COLUMNS))
Costs = npt.NDArray[np.float64]
"""Costs by operation (rows) and COLUMNS, µs."""
Both = tuple[FloatArray, FloatArray]
"""A value in the off arm and in the on arm."""

NEVER: Final = -1e9
"""Added to a dependency that does not exist in a mix, µs: it is then never the latest one."""
HOST_COPIES: Final = (CATEGORY["copy h2d"], CATEGORY["copy d2h"])
"""Copies between host and GPU."""
_PINNED_ALLOCATION: Final = ("host-alloc", "host-free", "host-register", "host-unregister")


def switched(both: Both, player: int | IntArray) -> Costs:
    """Costs that one player switches from the off arm's value to the on arm's."""
    off, on = both
    costs = np.zeros((len(off), len(COLUMNS)))
    costs[:, OFF] = off
    costs[np.arange(len(off)), player] += on - off
    return costs


def _player_of_call() -> IntArray:
    """The player that switches the own cost of a call, by category."""
    players = np.full(KINDS, HOST, np.int64)
    for number, category in enumerate(CATEGORIES):
        if group_of(category) in (WORK, ORDER, WAIT):
            players[number] = LAUNCH
        elif category in _PINNED_ALLOCATION:
            players[number] = PCIE
    return players


_PLAYER_OF_CALL: Final = _player_of_call()


def own_costs_of(
    category: IntArray, own: Both, toll: FloatArray, self_wait: FloatArray, slowdown: float
) -> Costs:
    """Own costs of calls.

    Args:
        category: category of each call.
        own: own cost.
        toll: launch toll within the own cost of a copy between host and GPU; the rest is PCIe's.
        self_wait: what such a copy waits for itself in the on arm more than in the off arm.
        slowdown: how much longer calls take in the on arm because its host is slower.
    """
    off, on = own
    player, copies = _PLAYER_OF_CALL[category], np.isin(category, HOST_COPIES)
    costs = switched(own, player)
    costs[copies, LAUNCH] = np.nan_to_num(toll)[copies]
    costs[copies, OVERLAP] = self_wait[copies]
    costs[copies, PCIE] = (on - off - np.nan_to_num(toll) - self_wait)[copies]
    slower = off * (slowdown - 1.0)
    costs[np.arange(len(off)), np.where(copies, PCIE, player)] -= slower
    costs[:, HOST] += slower
    return costs


def post_costs_of(waits: tuple[BoolArray, BoolArray], post: Both, crypto: Both) -> Costs:
    """What is added to the end of awaited GPU work; NEVER where a call does not wait.

    Args:
        waits: whether the call waits.
        post: from the end of the work to the return.
        crypto: part of that which decrypts what was copied.
    """
    off, on = (np.where(wait, late, NEVER) for wait, late in zip(waits, post, strict=True))
    decrypts = np.where(waits[1], crypto[1], 0.0) - np.where(waits[0], crypto[0], 0.0)
    costs = switched((off, on - decrypts), np.where(waits[0] != waits[1], OVERLAP, LAUNCH))
    costs[:, PCIE] += decrypts
    return costs


def player_of_work(over_pcie: BoolArray, between_gpus: BoolArray) -> IntArray:
    """The player that switches the GPU time of an operation.

    Args:
        over_pcie: whether it is a copy between host and GPU; one within a GPU is as any kernel.
        between_gpus: whether what it takes longer goes between GPUs: a collective, a copy from one to
            another, or work of a step that is known to hold collectives.
    """
    return np.where(between_gpus, NVLINK, np.where(over_pcie, PCIE, GPU))
