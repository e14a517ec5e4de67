"""The annotator `valuation`: a score per episode, by the mutual information of its states and actions."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from ares.annotation import Column, Producer, short_hash
from ares.episode import Trajectory
from ares.store import quote_literal
from ares_annotators.base import Options, Result, Work, new_annotation
from ares_annotators.valuation.mutual_information import (
    SAMPLE_SIZE,
    SCORE_SETTINGS,
    EpisodeScore,
    EpisodeScorer,
    fit_mutual_information,
)

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


SAMPLES_COLLECTION = "valuation_samples"
_MAX_CACHED = 64
# Ids of which the sample of one layout is taken: a dataset may have episodes of other dimensions.
_CANDIDATES = 4 * SAMPLE_SIZE


class DatasetScorers:
    """Fits a scorer to each dataset and set of dimensions.

    Args:
        stores: Stores of the workspace; they keep the ids of each sample, so that later episodes are compared with
            the same.
        producer: Producer of the scores.
    """

    def __init__(self, stores: Stores, producer: Producer) -> None:
        self._stores = stores
        self._maker_id = producer.maker_id
        self._fitted = lru_cache(maxsize=_MAX_CACHED)(self._fit)

    def score(self, work: Work) -> EpisodeScore:
        """The score of an episode among those of its dataset with its dimensions."""
        episode = work.episode
        if work.trajectory is None:
            return EpisodeScore(value=None, reason="the episode has no signals")
        scorer = self._fitted(episode.dataset, episode.state_names, episode.action_names)
        return scorer(episode.episode_id, work.trajectory)

    def _fit(
        self, dataset: str, state_names: tuple[str, ...], action_names: tuple[str, ...]
    ) -> EpisodeScorer:
        ids = self._sample_ids(dataset, state_names, action_names)
        fitting = (
            (episode_id, trajectory)
            for episode_id, trajectory in self._stores.tables.trajectories.read(ids)
            if _dimension_names(trajectory) == (state_names, action_names)
        )
        return fit_mutual_information(dict(islice(fitting, SAMPLE_SIZE)))

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
        sample = heapq.nsmallest(_CANDIDATES, ids)
        if len(sample) == _CANDIDATES:
            self._stores.annotations.put_documents(SAMPLES_COLLECTION, {key: list(sample)})
        return sample


def _dimension_names(trajectory: Trajectory) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the dimensions of state and action."""
    state, action = trajectory.state, trajectory.action
    return (state.names if state is not None else ()), (action.names if action is not None else ())


_COLUMN, _GAPS = "episode_value", "valuation_gaps"
# The other options that there once were are part of the producer's id.
_SETTINGS: dict[str, Json] = {
    "valuer": "mutual-information",
    "column": _COLUMN,
    "seed": 0,
    "scores": "",
    "valuer_version": "1",
    "valuer_settings": dict(SCORE_SETTINGS),
}
_COLUMNS = (
    Column(
        name=_COLUMN,
        type="float64",
        meaning="Value of the episode for training, by the valuer mutual-information.",
    ),
    Column(
        name=_GAPS,
        type="list<string>",
        meaning="Why the episode has no value.",
        is_gap_reason=True,
    ),
)


class ValuationAnnotator:
    """Fills one column with scores, higher is better."""

    batch_size = 64
    needs_signals = True

    def __init__(self, options: Options, stores: Stores) -> None:
        self.producer = Producer(annotator="valuation", version="1", settings=_SETTINGS, columns=_COLUMNS)
        self._scorers = DatasetScorers(stores, self.producer)

    def process(self, works: Sequence[Work]) -> list[Result]:
        """One score per work, or why there is none."""
        values = [_annotation_value(self._scorers.score(work)) for work in works]
        return [
            Result(annotations=[new_annotation(work, self.producer, value)])
            for work, value in zip(works, values, strict=True)
        ]


def _annotation_value(score: EpisodeScore) -> dict[str, Json]:
    if score.value is None:
        return {_GAPS: [f"{_COLUMN}: {score.reason}"]}
    return {_COLUMN: score.value}
