"""Runs of steps: first and one past the last position of each."""

from __future__ import annotations

import numpy as np

from ares.signals.step_runs import find_equal_steps, find_runs


def test_runs_of_a_mask_are_half_open() -> None:
    mask = np.array([1, 1, 0, 0, 1, 0, 1, 1, 1], bool)
    assert find_runs(mask).tolist() == [[0, 2], [4, 5], [6, 9]]
    assert find_runs(np.zeros(3, bool)).tolist() == []
    assert find_runs(np.zeros(0, bool)).tolist() == []


def test_a_held_value_begins_with_the_step_that_is_repeated() -> None:
    values = np.array([3, 3, 4, 5, 5, 5, 6])
    equal = values[1:] == values[:-1]
    assert find_equal_steps(equal, 2).tolist() == [[0, 2], [3, 6]]
    assert find_equal_steps(equal, 3).tolist() == [[3, 6]]
