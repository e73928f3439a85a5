"""The two splits: of a joint effect by player, and of a mean over classes."""

from itertools import permutations

import numpy as np
import pytest

from cctrace.analyzers.attribution.lmdi import logarithmic_mean, mix_and_time
from cctrace.analyzers.attribution.shapley import mixes_of, shapley_values


def test_mixes_switch_only_the_players_that_take_part() -> None:
    assert mixes_of([True, False, True]).tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1]]


def test_values_are_means_over_all_orders() -> None:
    worth = np.random.default_rng(5).normal(size=16)
    found = shapley_values(worth)
    for player in range(4):
        added = []
        for order in permutations(range(4)):
            before = sum(1 << one for one in order[: order.index(player)])
            added.append(worth[before | 1 << player] - worth[before])
        assert found[player] == pytest.approx(np.mean(added))
    assert found.sum() == pytest.approx(worth[-1] - worth[0])


def test_causes_that_hide_each_other_share_what_shows() -> None:
    # Each alone hides behind the GPU; together they add 10.
    assert shapley_values(np.array([100.0, 100.0, 100.0, 110.0])).tolist() == [5.0, 5.0]


def test_an_idle_player_gets_nothing_and_a_lone_one_everything() -> None:
    assert shapley_values(np.array([3.0, 8.0, 3.0, 8.0])).tolist() == [5.0, 0.0]
    assert shapley_values(np.array([7.0])).tolist() == []


def test_values_go_along_further_axes() -> None:
    worth = np.arange(8.0).reshape(4, 2) ** 2
    assert shapley_values(worth)[:, 1].tolist() == shapley_values(worth[:, 1]).tolist()


def test_rows_that_are_no_set_of_mixes_are_refused() -> None:
    with pytest.raises(ValueError, match="3 rows"):
        shapley_values(np.zeros(3))


def test_the_logarithmic_mean_lies_between_and_is_the_value_of_equals() -> None:
    assert logarithmic_mean(np.array([4.0]), np.array([4.0]))[0] == 4.0
    assert logarithmic_mean(np.array([1.0]), np.array([np.e]))[0] == pytest.approx(np.e - 1)


def test_mix_and_time_add_up_to_the_difference_of_the_means() -> None:
    off_part, on_part = np.array([0.9, 0.1]), np.array([0.8, 0.2])
    off_time, on_time = np.array([1000.0, 20_000.0]), np.array([1500.0, 21_000.0])
    mix, time = mix_and_time(off_part, on_part, off_time, on_time)
    assert mix.sum() + time.sum() == pytest.approx(on_part @ on_time - off_part @ off_time)
    assert mix.sum() > 0  # more of the long steps


def test_an_unchanged_mix_has_no_effect() -> None:
    part = np.array([0.25, 0.75])
    mix, time = mix_and_time(part, part, np.array([10.0, 20.0]), np.array([12.0, 20.0]))
    assert mix.tolist() == [0.0, 0.0]
    assert time == pytest.approx([0.5, 0.0])
