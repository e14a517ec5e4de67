"""One motion behind another: its lag with its interval, and the mixture of commands that explains it."""

from __future__ import annotations

import numpy as np
import pytest

from ares.signals.motion_lag import (
    LagPeak,
    block_products,
    find_lag_peak,
    lag_products,
    longest_lag,
    resample_blocks,
)

_RATE_HZ = 20.0


def _motions(seed: int, steps: int, width: int) -> np.ndarray:
    """(T, P) smooth motions about zero."""
    noise = np.random.default_rng(seed).normal(size=(steps + 4, width))
    return np.asarray(sum(noise[start : start + steps] for start in range(5)) / np.sqrt(5))


def _later(values: np.ndarray, steps: int) -> np.ndarray:
    return np.roll(values, steps, axis=0)


def _lag_between(followed: np.ndarray, command: np.ndarray) -> LagPeak:
    products = block_products(followed, command, longest_lag(len(followed), _RATE_HZ))[:, :, 0]
    power = np.sqrt((followed**2).sum() * (command**2).sum())
    return find_lag_peak(
        products.sum(axis=1) / power,
        resample_blocks() @ products.T / power,
        _RATE_HZ,
        lowest_correlation=0.5,
        quantiles=(0.1, 0.9),
    )


@pytest.mark.parametrize("steps", [-7, 0, 3])
def test_a_lag_is_within_its_interval_either_way(steps: int) -> None:
    command = _motions(1, 300, 1)
    lag = _lag_between(_later(command, steps) + 0.3 * _motions(2, 300, 1), command)
    assert lag.steps == pytest.approx(steps, abs=0.5)
    assert lag.low_steps <= steps <= lag.high_steps
    assert lag.high_steps - lag.low_steps <= 2


def test_motions_that_do_not_follow_each_other_have_no_lag() -> None:
    lag = _lag_between(_motions(1, 300, 1), _motions(2, 300, 1))
    assert lag.steps is None
    assert lag.correlation < 0.5


def test_a_lag_beyond_the_longest_is_not_claimed() -> None:
    command = _motions(1, 300, 1)
    assert _lag_between(_later(command, 21), command).steps is None


def test_a_mixture_is_the_same_whether_episodes_are_summed_or_left_out() -> None:
    weights = np.array([[1.0, 0.0], [-0.5, 2.0]])
    episodes = [_motions(seed, 200, 2) for seed in range(3)]
    parts = [lag_products(_later(command @ weights, 4), command, 10) for command in episodes]
    learnt = (parts[0] + parts[1] + parts[2] - parts[2]).best_mixture(1e-3)
    assert learnt == pytest.approx((parts[0] + parts[1]).best_mixture(1e-3))
    assert learnt == pytest.approx(weights, abs=0.1)


def test_of_many_commands_and_few_steps_one_is_chosen() -> None:
    command = _motions(5, 40, 12)
    mixture = lag_products(command[:, [7]], command, 5).best_mixture(1e-2)
    assert np.flatnonzero(mixture[:, 0]).tolist() == [7]
