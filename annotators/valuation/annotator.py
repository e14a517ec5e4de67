"""The annotator `valuation`: a score per episode, by a valuer or from the file of a training run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from annotators.base import Annotator, Options, Result, Work, new_annotation
from annotators.options import AnnotatorOptions, takes_options
from annotators.valuation.dataset_scorers import DatasetScorers
from ares.annotation import Column, Maker
from ares.errors import AresError
from ares.registry import valuers
from ares.valuation import EpisodeScore, ScoreFile, Valuer, read_score_file

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores

_BATCH_SIZE = 64
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


@takes_options(ValuationOptions)
def make_valuation_annotator(options: Options, stores: Stores) -> Annotator:
    """An annotator that fills one column with scores, higher is better for a valuer of ours.

    Raises:
        RequestError: There is no such valuer, or the file of scores cannot be read.
    """
    own = options.parse(ValuationOptions)
    score_file = read_score_file(own.scores) if own.scores else None
    valuer: Valuer = valuers.get(own.valuer)(own.seed)
    maker = _maker(own, valuer, score_file)
    score = _from_file(score_file) if score_file else _by_valuer(DatasetScorers(stores, valuer, maker))

    def process(works: Sequence[Work]) -> list[Result | AresError]:
        return [
            Result(annotations=[new_annotation(work, maker, _value(own.column, score(work)))])
            for work in works
        ]

    warnings = _warnings(score_file)
    return Annotator(
        maker=maker,
        process=process,
        needs_signals=score_file is None,
        batch_size=_BATCH_SIZE,
        warnings=warnings,
    )


def _maker(own: ValuationOptions, valuer: Valuer, score_file: ScoreFile | None) -> Maker:
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


def _warnings(score_file: ScoreFile | None) -> tuple[str, ...]:
    if score_file is None or not score_file.num_unusable:
        return ()
    return (f"{score_file.num_unusable} rows of the file of scores name no episode",)


def _value(column: str, score: EpisodeScore) -> dict[str, Json]:
    if score.value is None:
        return {_GAPS: [f"{column}: {score.reason}"]}
    return {column: score.value}


def _from_file(score_file: ScoreFile) -> Callable[[Work], EpisodeScore]:
    def score(work: Work) -> EpisodeScore:
        episode_id = work.episode.episode_id
        value = score_file.scores.get(episode_id)
        reason = score_file.faults.get(episode_id, "the file of scores does not name the episode")
        return EpisodeScore(value=value, reason="" if value is not None else reason)

    return score


def _by_valuer(scorers: DatasetScorers) -> Callable[[Work], EpisodeScore]:
    def score(work: Work) -> EpisodeScore:
        if work.trajectory is None:
            return EpisodeScore(value=None, reason="the episode has no signals")
        return scorers.scorer(work.episode)(work.episode.episode_id, work.trajectory)

    return score
