"""How well the actions of an episode follow from its states: their mutual information."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ares.episode import Json, Trajectory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeScore:
    """What is said of one episode.

    Attributes:
        value: Its score, higher is better; None where nothing can be said.
        reason: Why, in the same words for every episode; "" otherwise.
    """

    value: float | None
    reason: str = ""


# Scores an episode by its id and signals.
EpisodeScorer = Callable[[str, Trajectory], EpisodeScore]


# Most episodes of a dataset that it is fitted to.
SAMPLE_SIZE = 256
# Steps of each episode, evenly over it: a long episode weighs as much as a short one.
_REFERENCE_STEPS = 8
_SCORED_STEPS = 32
# An action is what is commanded now and over the next half second.
_CHUNK_SECONDS = (0.0, 0.25, 0.5)
_COMPONENTS = 6
_NEIGHBOURS = (5, 6, 7)
_FEWEST_EPISODES = 8
_FEWEST_STEPS = 8


# Of the steps of the sample that are compared.
_SEED = 0
# What changes a score.
SCORE_SETTINGS: Mapping[str, Json] = {
    "components": _COMPONENTS,
    "neighbours": list(_NEIGHBOURS),
    "seed": _SEED,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Projection:
    """Principal components of standardised values.

    Attributes:
        centre: (D,) means.
        basis: (D, C) from centred values to components of unit variance.
    """

    centre: NDArray[np.float64]
    basis: NDArray[np.float64]

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N, C) components of values (N, D)."""
        projected: NDArray[np.float64] = (values - self.centre) @ self.basis
        return projected


def fit_mutual_information(sample: Mapping[str, Trajectory], seed: int = _SEED) -> EpisodeScorer:
    """The scorer of a dataset; it holds 8 steps of each episode of a sample.

    Args:
        sample: Signals by episode id; all have the same dimensions.
        seed: Chooses the steps of the sample.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    parts = {
        episode_id: pair
        for episode_id, trajectory in sorted(sample.items())
        if (pair := _sample_state_action_pairs(trajectory, _REFERENCE_STEPS, rng)) is not None
    }
    if len(parts) < _FEWEST_EPISODES:
        return partial(
            _cannot_score, f"fewer than {_FEWEST_EPISODES} episodes of the dataset have both signals"
        )
    states, actions = (np.concatenate([pair[number] for pair in parts.values()]) for number in (0, 1))
    projections = (_principal_components(states), _principal_components(actions))
    if not (projections[0].basis.shape[1] and projections[1].basis.shape[1]):
        return partial(_cannot_score, "the state or the action never changes in the dataset")
    owners = np.repeat(np.array(list(parts)), [len(pair[0]) for pair in parts.values()])
    return partial(
        _score_mutual_information, owners, (projections[0](states), projections[1](actions)), projections
    )


def _cannot_score(reason: str, episode_id: str, trajectory: Trajectory) -> EpisodeScore:
    return EpisodeScore(value=None, reason=reason)


def _sample_state_action_pairs(
    trajectory: Trajectory, count: int, rng: np.random.Generator | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """(N, S) states and (N, 3 A) actions at N steps, one in each equal part of the episode; None where it has none.

    Args:
        trajectory: The signals.
        count: Most steps.
        rng: Chooses the step of each part; None takes its middle.
    """
    import numpy as np

    state, action, seconds = trajectory.state, trajectory.action, trajectory.timestamps
    if state is None or action is None or len(seconds) < _FEWEST_STEPS:
        return None
    if not (np.isfinite(state.values).all() and np.isfinite(action.values).all()):
        return None
    shares = np.arange(count) + (rng.random(count) if rng is not None else 0.5)
    steps = np.unique((shares / count * len(seconds)).astype(int))
    period = max(float(seconds[-1] - seconds[0]) / (len(seconds) - 1), 1e-9)
    ahead = [np.minimum(steps + round(delay / period), len(seconds) - 1) for delay in _CHUNK_SECONDS]
    chunks = np.concatenate([action.values[rows] for rows in ahead], axis=1)
    return state.values[steps].astype(np.float64), chunks.astype(np.float64)


def _principal_components(values: NDArray[np.float64]) -> _Projection:
    """At most six components of the standardised values (N, D) that hold 99 % of the variance."""
    import numpy as np

    centre, spread = values.mean(axis=0), values.std(axis=0)
    moves = spread > 1e-6 * np.maximum(1.0, np.abs(centre))
    scale = np.where(moves, 1 / np.where(moves, spread, 1.0), 0.0)
    _, sizes, rows = np.linalg.svd((values - centre) * scale, full_matrices=False)
    shares = np.cumsum(sizes**2) / max(float((sizes**2).sum()), 1e-12)
    count = min(_COMPONENTS, int(np.searchsorted(shares, 0.99) + 1)) if moves.any() else 0
    deviations = np.maximum(sizes[:count] / np.sqrt(len(values)), 1e-12)
    return _Projection(centre=centre, basis=scale[:, None] * rows[:count].T / deviations)


def _score_mutual_information(
    owners: NDArray[np.str_],
    reference: tuple[NDArray[np.float64], NDArray[np.float64]],
    projections: tuple[_Projection, _Projection],
    episode_id: str,
    trajectory: Trajectory,
) -> EpisodeScore:
    """Mean over the steps of their part of the mutual information, in nats; the episode is no reference of itself."""
    import numpy as np

    pairs = _sample_state_action_pairs(trajectory, _SCORED_STEPS, None)
    if pairs is None:
        reason = f"it has no finite state and action of at least {_FEWEST_STEPS} steps"
        return EpisodeScore(value=None, reason=reason)
    others = owners != episode_id
    distances = [
        _largest_differences(projection(values), of_reference[others])
        for projection, values, of_reference in zip(projections, pairs, reference, strict=True)
    ]
    return EpisodeScore(value=float(np.mean(compute_local_information(distances[0], distances[1]))))


def _largest_differences(values: NDArray[np.float64], reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, M) distances by the largest difference of any component; in memory for two components at a time."""
    import numpy as np

    largest = np.zeros((len(values), len(reference)))
    for column, other in zip(values.T, reference.T, strict=True):
        np.maximum(largest, np.abs(column[:, None] - other[None]), out=largest)
    return largest


def compute_local_information(
    state_distances: NDArray[np.float64], action_distances: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Parts of the mutual information of state and action, by the first estimator of Kraskov, Stoegbauer and
    Grassberger, "Estimating mutual information", Phys. Rev. E 69:066138 (2004), eq. 8, mean over k of 5, 6 and 7.

    Args:
        state_distances: (N, M) distances of N steps from M reference steps.
        action_distances: (N, M) likewise.

    Returns:
        (N,) nats.
    """
    import numpy as np

    count = state_distances.shape[1]
    ranks = [neighbours - 1 for neighbours in _NEIGHBOURS]
    joint = np.partition(np.maximum(state_distances, action_distances), ranks, axis=1)
    digamma = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, count + 2))]) - np.euler_gamma  # of 1, 2, ...
    parts = []
    for neighbours in _NEIGHBOURS:
        radius = joint[:, [neighbours - 1]]
        states, actions = ((part < radius).sum(axis=1) for part in (state_distances, action_distances))
        parts.append(digamma[neighbours - 1] + digamma[count - 1] - digamma[states] - digamma[actions])
    return np.asarray(np.mean(parts, axis=0))
