"""Shares of players in a joint effect: exact Shapley values.

The share of a player is what it adds when it joins, averaged over all orders in which the players can join.
It is the only split that adds up to the whole, treats equal players equally, and gives nothing to a player
that changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cctrace.analyzers.columns import FloatArray


def mixes_of(players: Sequence[bool]) -> FloatArray:
    """All mixes of the players that take part; the others are always off.

    Args:
        players: whether each player takes part.

    Returns:
        2^n × players, 0 or 1; bit i of the row number is the i-th player that takes part.
    """
    taking_part = [number for number, takes_part in enumerate(players) if takes_part]
    mixes = np.zeros((1 << len(taking_part), len(players)))
    for bit, number in enumerate(taking_part):
        mixes[:, number] = np.arange(len(mixes)) >> bit & 1
    return mixes


def shapley_values(worth: FloatArray) -> FloatArray:
    """Shapley values of n players.

    Args:
        worth: 2^n values (and further axes); row S is the worth of the players whose bits are set in S.

    Returns:
        n values (and the further axes). They add up to worth[all] − worth[none].

    Raises:
        ValueError: the number of rows is no power of two.
    """
    players = len(worth).bit_length() - 1
    if len(worth) != 1 << players:
        raise ValueError(f"{len(worth)} rows are not all mixes of any number of players")
    mixes = np.arange(len(worth))
    size = np.array([bin(mix).count("1") for mix in range(len(worth))])
    orders = np.array(
        [math.factorial(k) * math.factorial(max(players - 1 - k, 0)) for k in range(players + 1)], np.float64
    ) / math.factorial(players)
    values = []
    for player in range(players):
        without = mixes[mixes >> player & 1 == 0]
        added = worth[without | 1 << player] - worth[without]
        values.append(np.tensordot(orders[size[without]], added, axes=1))
    return np.array(values).reshape(players, *worth.shape[1:])
