"""Costs by size: at the nodes of a table, between them, and beyond its ends."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from typing import Any

import pytest

TABLE = "64:4/4096:16/1048576:160"


def read(built: Any, table: str, *sizes: int) -> tuple[str, list[int]]:
    """Whether the table costs anything, and the nanoseconds for some sizes."""
    command = [built.app("cost_table"), table, *map(str, sizes)]
    state, *costs = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return state, [int(cost) for cost in costs]


@pytest.mark.parametrize(
    ("size", "us"),
    [
        (64, 4),
        (4096, 16),
        (1 << 20, 160),
        (1, 4),  # below the first node
        (63, 4),
        (2 << 20, 320),  # above the last one, in proportion
        (1 << 30, 160 << 10),
        (512, 8),  # half way in log size is half way in log cost
        (1 << 16, (16 * 160) ** 0.5),
        (0, 0),  # nothing is copied
    ],
)
def test_nodes_and_what_lies_between(built: Any, size: int, us: float) -> None:
    _, (found,) = read(built, TABLE, size)
    assert found == pytest.approx(us * 1e3, abs=0.6)


def test_a_cost_grows_with_the_size_without_a_jump(built: Any) -> None:
    sizes = [int(64 * 1.01**i) for i in range(1200)]
    _, costs = read(built, TABLE, *sizes)
    for small, large in pairwise(costs):
        assert small <= large <= small * 1.05 + 2


def test_a_node_without_cost_is_joined_in_a_straight_line(built: Any) -> None:
    state, costs = read(built, "100:0/300:8/500:0", 50, 100, 200, 300, 400, 500, 1000)
    assert (state, costs) == ("costs", [0, 0, 4000, 8000, 4000, 0, 0])


def test_one_node(built: Any) -> None:
    assert read(built, "4096:5", 1, 4096, 8192) == ("costs", [5000, 5000, 10000])


def test_equal_costs(built: Any) -> None:
    assert read(built, "10:5/1000:5", 10, 123, 1000) == ("costs", [5000, 5000, 5000])


def test_the_longest_table(built: Any) -> None:
    nodes = [f"{2**i}:{i + 1}" for i in range(32)]
    assert read(built, "/".join(nodes), 1, 2**31) == ("costs", [1000, 32000])
    assert read(built, "/".join([*nodes, f"{2**33}:40"]), 1, 2**31) == ("empty", [0, 0])


def test_it_ends_where_the_next_key_begins(built: Any) -> None:
    assert read(built, "64:1/128:2,d2h_us=64:9", 64, 128) == ("costs", [1000, 2000])


NONSENSE = [
    ",",
    "64",
    "64:",
    ":5",
    "64:x",
    "64:5/",
    "64:5/64:6",
    "64:5/32:6",
    "0:5",
    "-1:5",
    "64:-5",
    "64:nan",
    "nan:5",
    "64:inf",
    "64:5;128:6",
]
WORSE = ["64:5/128", "64:1e99", "64:5//128:6", "64::5", "64:5/128:6x", "/64:5"]


@pytest.mark.parametrize("table", ["", *NONSENSE, *WORSE, "64:0", "64:0/128:0"])
def test_nonsense_and_nothing_cost_nothing(built: Any, table: str) -> None:
    assert read(built, table, 1, 64, 1 << 20) == ("empty", [0, 0, 0])


def test_a_cost_has_an_upper_end(built: Any) -> None:
    _, costs = read(built, "1:3.6e9", 2**40)
    assert costs == [3_600_000_000_000]
