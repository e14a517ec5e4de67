"""The value of an episode by mutual information: known densities, planted random actions, length, determinism."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ares.episode import Episode, Signal, Trajectory
from ares.workspace import Workspace
from ares_annotators.base import Options, Result, Work
from ares_annotators.valuation import ValuationAnnotator, fit_mutual_information
from ares_annotators.valuation.mutual_information import compute_local_information

RATE_HZ = 10.0
STATE, ACTION = ("x", "y", "z"), ("dx", "dy", "dz")


def _episode(rng: np.random.Generator, *, random_actions: bool) -> Trajectory:
    """A hand that circles, led back to the circle by its actions; 40 to 400 steps."""
    steps = int(rng.integers(40, 400))
    state, action = rng.normal(0, 0.5, (steps, 3)), np.zeros((steps, 3))
    for step in range(steps):
        x, y, z = state[step]
        pull = 0.3 * (1 - np.hypot(x, y))
        action[step] = np.array([pull * x - 0.2 * y, pull * y + 0.2 * x, -0.3 * z]) + rng.normal(0, 0.05, 3)
        if step + 1 < steps:
            state[step + 1] = state[step] + action[step]
    if random_actions:
        action = action[rng.permutation(steps)]
    return Trajectory(
        timestamps=np.arange(steps) / RATE_HZ,
        state=Signal(state.astype(np.float32), STATE),
        action=Signal(action.astype(np.float32), ACTION),
    )


def _dataset(seed: int) -> tuple[dict[str, Trajectory], np.ndarray]:
    rng = np.random.default_rng(seed)
    planted = rng.random(80) < 0.2
    return {f"{n:016x}": _episode(rng, random_actions=bool(p)) for n, p in enumerate(planted)}, planted


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.9])
def test_the_estimate_is_that_of_a_normal_distribution(correlation: float) -> None:
    rng = np.random.default_rng(int(100 * correlation))
    x = rng.normal(size=2_000)
    y = correlation * x + np.sqrt(1 - correlation**2) * rng.normal(size=2_000)
    own = np.eye(2_000) * 1e9  # no step is its own neighbour
    parts = compute_local_information(np.abs(x[:, None] - x) + own, np.abs(y[:, None] - y) + own)
    assert parts.mean() == pytest.approx(-0.5 * np.log(1 - correlation**2), abs=0.06)


def test_random_actions_score_lower_than_good_ones_at_any_length() -> None:
    episodes, planted = _dataset(11)
    score = fit_mutual_information(episodes)
    values = np.array([score(name, episode).value for name, episode in episodes.items()], dtype=float)
    # The actions are the same numbers in another order: only their relation to the state is lost.
    pairs = values[~planted][:, None] > values[planted][None]
    assert pairs.mean() > 0.95
    lengths = np.array([len(episode.timestamps) for episode in episodes.values()])
    ranks = np.argsort(np.argsort(values[~planted])), np.argsort(np.argsort(lengths[~planted]))
    assert abs(np.corrcoef(*ranks)[0, 1]) < 0.35


def test_the_seed_decides_and_other_units_change_nothing() -> None:
    episodes, _ = _dataset(5)
    first, again, other = (fit_mutual_information(episodes, seed) for seed in (0, 0, 1))
    name = next(iter(episodes))
    assert first(name, episodes[name]) == again(name, episodes[name]) != other(name, episodes[name])
    degrees = {key: _scaled(episode) for key, episode in episodes.items()}
    scaled = fit_mutual_information(degrees)(name, degrees[name]).value
    assert scaled == pytest.approx(first(name, episodes[name]).value, abs=1e-3)


def _scaled(episode: Trajectory) -> Trajectory:
    assert episode.state is not None
    return Trajectory(
        timestamps=episode.timestamps,
        state=Signal(episode.state.values * np.float32(57.3), STATE),
        action=episode.action,
    )


def test_what_cannot_be_scored_has_a_reason() -> None:
    episodes, _ = _dataset(5)
    few = fit_mutual_information(dict(list(episodes.items())[:3]))
    assert (
        few("0", episodes["0000000000000000"]).reason
        == "fewer than 8 episodes of the dataset have both signals"
    )
    score = fit_mutual_information(episodes)
    assert "finite state and action" in score("0", Trajectory(timestamps=np.arange(20.0))).reason


def test_an_episode_without_a_score_says_why(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Callable[..., Work]
) -> None:
    annotator = ValuationAnnotator(options, ws.stores)
    (result,) = annotator.process([work_for(episodes["gone"], [annotator])])
    assert isinstance(result, Result)
    assert str(result.annotations[0].value["valuation_gaps"]).startswith("['episode_value: ")
    assert "episode_value" not in result.annotations[0].value
