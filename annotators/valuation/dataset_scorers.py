"""The scorers of the datasets of a workspace, each fitted once to a sample that is stored."""

from __future__ import annotations

import heapq
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from ares.annotation import Maker, short_hash
from ares.episode import Episode, Trajectory
from ares.store.filters import quote_literal
from ares.valuation import EpisodeScorer, Valuer

if TYPE_CHECKING:
    from ares.store import Stores

SAMPLES_COLLECTION = "valuation_samples"
_MAX_CACHED = 64
# Ids of which the sample of one layout is taken: a dataset may have episodes of other dimensions.
_CANDIDATES_PER_EPISODE = 4


class DatasetScorers:
    """Fits a valuer to each dataset and set of dimensions.

    Args:
        stores: Stores of the workspace; they keep the ids of each sample, so that later episodes are compared with
            the same.
        valuer: The valuer.
        maker: Maker of the scores.
    """

    def __init__(self, stores: Stores, valuer: Valuer, maker: Maker) -> None:
        self._stores = stores
        self._valuer = valuer
        self._maker_id = maker.maker_id
        self._fitted = lru_cache(maxsize=_MAX_CACHED)(self._fit)

    def scorer(self, episode: Episode) -> EpisodeScorer:
        """The scorer for an episode: of its dataset, and its dimensions."""
        return self._fitted(episode.dataset, episode.state_names, episode.action_names)

    def _fit(
        self, dataset: str, state_names: tuple[str, ...], action_names: tuple[str, ...]
    ) -> EpisodeScorer:
        ids = self._sample_ids(dataset, state_names, action_names)
        fitting = (
            (episode_id, trajectory)
            for episode_id, trajectory in self._stores.tables.trajectories.read(ids)
            if _layout(trajectory) == (state_names, action_names)
        )
        return self._valuer.fit(dict(islice(fitting, self._valuer.sample_size)))

    def _sample_ids(
        self, dataset: str, state_names: tuple[str, ...], action_names: tuple[str, ...]
    ) -> list[str]:
        """Ids of the sample, stored as soon as the dataset is large enough for a full one."""
        layout = short_hash([dataset, list(state_names), list(action_names)])
        key = f"{self._maker_id}/{layout}"
        stored = self._stores.annotations.get_document(SAMPLES_COLLECTION, key)
        if isinstance(stored, list):
            return [str(episode_id) for episode_id in stored]
        where = f"dataset = {quote_literal(dataset)}"
        ids = chain.from_iterable(self._stores.tables.episodes.id_batches(where))
        # Ids are hashes: the smallest are a fair sample.
        size = _CANDIDATES_PER_EPISODE * self._valuer.sample_size
        sample = heapq.nsmallest(size, ids)
        if len(sample) == size:
            self._stores.annotations.put_documents(SAMPLES_COLLECTION, {key: list(sample)})
        return sample


def _layout(trajectory: Trajectory) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the dimensions of state and action."""
    state, action = trajectory.state, trajectory.action
    return (state.names if state is not None else ()), (action.names if action is not None else ())
