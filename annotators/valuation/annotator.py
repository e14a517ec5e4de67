"""The annotator `valuation`: a score per episode, by a scorer fitted per dataset or from a file."""

from __future__ import annotations

import csv
import heapq
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from annotators.base import Options, Result, Work, new_annotation
from annotators.options import AnnotatorOptions, takes_options
from annotators.valuation.valuers import EpisodeScore, EpisodeScorer, Valuer
from ares.annotation import Column, Maker, short_hash
from ares.console import count_are
from ares.episode import Episode, Trajectory
from ares.errors import RequestError
from ares.io import existing_path, open_file
from ares.registry import valuers
from ares.store import quote_literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ares.episode import Json
    from ares.store import Stores


SAMPLES_COLLECTION = "valuation_samples"
_MAX_CACHED = 64
# Ids of which the sample of one layout is taken: a dataset may have episodes of other dimensions.
_CANDIDATES_PER_EPISODE = 4


class DatasetValuers:
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
            if _dimension_names(trajectory) == (state_names, action_names)
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


def _dimension_names(trajectory: Trajectory) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the dimensions of state and action."""
    state, action = trajectory.state, trajectory.action
    return (state.names if state is not None else ()), (action.names if action is not None else ())


HEADER = ("episode_id", "score")
# A row of an id and a number has 20 to 40 bytes.
_LARGEST_BYTES = 2**30


class _ScoreRow(BaseModel):
    """A row of the file."""

    model_config = ConfigDict(frozen=True)

    episode_id: Annotated[str, Field(min_length=1, max_length=64)]
    score: FiniteFloat


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeScoreFile:
    """The scores of a file.

    Attributes:
        scores: Score by episode id.
        faults: By episode id, why its row cannot be used.
        num_unusable: Rows that cannot be used and name no episode.
        fingerprint: Hash of the scores.
    """

    scores: Mapping[str, float]
    faults: Mapping[str, str]
    num_unusable: int
    fingerprint: str


def read_episode_scores(path: str) -> EpisodeScoreFile:
    """Read a CSV file with the columns `episode_id` and `score`; others are ignored.

    A wrong row costs its episode alone.

    Raises:
        RequestError: The file is missing, too large, no UTF-8 text, or lacks a column.
    """
    scores: dict[str, float] = {}
    faults: dict[str, str] = {}
    num_unusable = 0
    for row in _read_score_rows(path):
        episode_id = str(row.get("episode_id") or "").strip()
        try:
            parsed = _ScoreRow(episode_id=episode_id, score=row.get("score"))  # type: ignore[arg-type]
        except ValidationError as error:
            is_score = error.errors()[0]["loc"] == ("score",)
            num_unusable += not is_score
            if is_score:
                faults[episode_id] = "its score in the file is no finite number"
            continue
        if scores.setdefault(episode_id, parsed.score) != parsed.score:
            faults[episode_id] = "the file has several scores of it"
    usable = {episode_id: score for episode_id, score in scores.items() if episode_id not in faults}
    fingerprint = short_hash([[id, score] for id, score in sorted(usable.items())])
    return EpisodeScoreFile(scores=usable, faults=faults, num_unusable=num_unusable, fingerprint=fingerprint)


def _read_score_rows(path: str) -> Iterator[dict[str, str | None]]:
    existing_path(path)
    with open_file(path) as file:
        if file.seek(0, io.SEEK_END) > _LARGEST_BYTES:
            raise RequestError("the file of scores is too large", f"{path}: more than {_LARGEST_BYTES} bytes")
        file.seek(0)
        reader = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))
        try:
            missing = [name for name in HEADER if name not in (reader.fieldnames or ())]
            if missing:
                raise RequestError(
                    f"the file of scores has no column {missing[0]!r}", f"{path}; needed: {', '.join(HEADER)}"
                )
            yield from reader
        except UnicodeDecodeError:
            raise RequestError("the file of scores is no UTF-8 text", path) from None
        except csv.Error as error:
            raise RequestError("the file of scores is no CSV", f"{path}: {error}") from None


_GAPS = "valuation_gaps"


class ValuationOptions(AnnotatorOptions):
    """Options of valuation."""

    valuer: str = Field(
        default="mutual-information", description="plug-in that scores episodes, unless --scores is given"
    )
    scores: str = Field(default="", description="CSV file with the columns episode_id and score")
    column: str = Field(
        default="episode_value",
        description="name of the filter column",
        pattern=r"^[a-z][a-z0-9_]{0,62}$",
        examples=["training_loss"],
    )
    seed: int = Field(default=0, ge=0, description="seed of the valuer", examples=[1])

    not_in_maker = frozenset({"scores"})


def _valuation_maker(own: ValuationOptions, valuer: Valuer, score_file: EpisodeScoreFile | None) -> Maker:
    source = "the file of a training run" if score_file else f"the valuer {own.valuer}"
    column = Column(
        name=own.column, type="float64", meaning=f"Value of the episode for training, by {source}."
    )
    gaps = Column(
        name=_GAPS,
        type="list<string>",
        meaning="Why the episode has no value.",
        is_gap_reason=True,
    )
    settings: dict[str, Json] = {
        **own.maker_settings(),
        "scores": score_file.fingerprint if score_file else "",
        "valuer_version": valuer.version,
        "valuer_settings": dict(valuer.settings),
    }
    return Maker(annotator="valuation", version="1", settings=settings, columns=(column, gaps))


def _score_file_warnings(score_file: EpisodeScoreFile | None) -> tuple[str, ...]:
    if score_file is None or not score_file.num_unusable:
        return ()
    return (f"{count_are(score_file.num_unusable, 'row', 'the file of scores')} of no episode",)


def _annotation_value(column: str, score: EpisodeScore) -> dict[str, Json]:
    if score.value is None:
        return {_GAPS: [f"{column}: {score.reason}"]}
    return {column: score.value}


def _from_file(score_file: EpisodeScoreFile) -> Callable[[Work], EpisodeScore]:
    def score(work: Work) -> EpisodeScore:
        episode_id = work.episode.episode_id
        value = score_file.scores.get(episode_id)
        reason = score_file.faults.get(episode_id, "the file of scores does not name the episode")
        return EpisodeScore(value=value, reason="" if value is not None else reason)

    return score


def _by_valuer(scorers: DatasetValuers) -> Callable[[Work], EpisodeScore]:
    def score(work: Work) -> EpisodeScore:
        if work.trajectory is None:
            return EpisodeScore(value=None, reason="the episode has no signals")
        return scorers.scorer(work.episode)(work.episode.episode_id, work.trajectory)

    return score


@takes_options(ValuationOptions)
class ValuationAnnotator:
    """Fills one column with scores, higher is better for a valuer of ours.

    Raises:
        RequestError: There is no such valuer, or the file of scores cannot be read.
    """

    batch_size = 64

    def __init__(self, options: Options, stores: Stores) -> None:
        own = options.parse(ValuationOptions)
        file = read_episode_scores(own.scores) if own.scores else None
        valuer: Valuer = valuers.get(own.valuer)(own.seed)
        self.maker = _valuation_maker(own, valuer, file)
        self.warnings, self.needs_signals = _score_file_warnings(file), file is None
        self._column = own.column
        self._score = _from_file(file) if file else _by_valuer(DatasetValuers(stores, valuer, self.maker))

    def process(self, works: Sequence[Work]) -> list[Result]:
        """One score per work, or why there is none."""
        values = [_annotation_value(self._column, self._score(work)) for work in works]
        return [
            Result(annotations=[new_annotation(work, self.maker, value)])
            for work, value in zip(works, values, strict=True)
        ]
