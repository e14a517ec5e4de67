"""How well success agrees with labels: verdicts with Wilson intervals, area under the curve, and length beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from annotators.success.combination import Combination
from annotators.success.fitting import Example, fit_apart
from annotators.success.labels import LABEL_VALUES, PARTIAL, Labels
from annotators.success.statistics import area_under_curve, bootstrap_interval
from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores

_VERDICTS = ("success", "failure", "unsure")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledEpisode:
    """A label with what was judged.

    Attributes:
        label: The label.
        example: Parts, label and task.
        probability: Probability of success.
        verdict: "success", "failure" or "unsure".
        seconds: Length of the episode.
    """

    label: str
    example: Example
    probability: float
    verdict: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Agreement of success with labels.

    Attributes:
        episodes: Labelled episodes that were judged.
        not_judged: Labelled episodes without a judgement, which count in no number.
        unmatched: Labels of episodes that are not in the workspace.
        is_fitted: The verdicts are by combinations fitted to the labels of other tasks than the episode's own.
    """

    episodes: Sequence[LabelledEpisode]
    not_judged: int = 0
    unmatched: int = 0
    is_fitted: bool = False

    def confusion(self) -> Counter[tuple[str, str]]:
        """Number of episodes by label ("success", "failure", "partial") and verdict."""
        return Counter((_label_name(episode), episode.verdict) for episode in self.episodes)

    def area(self, *, with_partial: bool = True) -> tuple[float, tuple[float, float] | None] | None:
        """Area under the ROC curve of the probability, and its interval by clusters of tasks."""
        episodes = [episode for episode in self.episodes if with_partial or episode.label != PARTIAL]
        return _area(episodes, [episode.probability for episode in episodes])

    def length_area(self) -> tuple[float, tuple[float, float] | None] | None:
        """The same of length alone, where shorter counts as success: far from 0.5 it tells the outcome by itself."""
        return _area(self.episodes, [-episode.seconds for episode in self.episodes])

    def shares(self) -> dict[str, tuple[int, int]]:
        """Hits and totals of the shares that are printed."""
        by_verdict = {verdict: [e for e in self.episodes if e.verdict == verdict] for verdict in _VERDICTS}
        successes = [episode for episode in self.episodes if episode.example.success]
        failures = [episode for episode in self.episodes if not episode.example.success]
        return {
            "verdicts success that are right": (
                sum(episode.example.success for episode in by_verdict["success"]),
                len(by_verdict["success"]),
            ),
            "verdicts failure that are right": (
                sum(not episode.example.success for episode in by_verdict["failure"]),
                len(by_verdict["failure"]),
            ),
            "successes with verdict success": (
                sum(episode.verdict == "success" for episode in successes),
                len(successes),
            ),
            "failures with verdict success": (
                sum(episode.verdict == "success" for episode in failures),
                len(failures),
            ),
            "unsure": (len(by_verdict["unsure"]), len(self.episodes)),
        }

    def to_json(self) -> dict[str, Json]:
        """The evaluation as a document."""
        from ares.statistics import wilson_interval

        shares: dict[str, Json] = {
            name: {"hits": hits, "of": total, "interval": [*wilson_interval(hits, total)]}
            for name, (hits, total) in self.shares().items()
        }
        confusion: dict[str, Json] = {
            f"{label} as {verdict}": count for (label, verdict), count in sorted(self.confusion().items())
        }
        return {
            "labels": len(self.episodes),
            "not_judged": self.not_judged,
            "unmatched": self.unmatched,
            "is_fitted": self.is_fitted,
            "partial_counts_as": "failure",
            "confusion": confusion,
            "shares": shares,
            "auroc": _area_json(self.area()),
            "auroc_without_partial": _area_json(self.area(with_partial=False)),
            "auroc_length": _area_json(self.length_area()),
        }


def evaluate_success(stores: Stores, labels: Labels, maker_id: str) -> Evaluation:
    """Compare the judgements of one maker with labels.

    Args:
        stores: Stores of the workspace.
        labels: The labels.
        maker_id: The maker.
    """
    ids = list(labels.labels)
    episodes = {episode.episode_id: episode for episode in stores.tables.episodes.get(ids)}
    judged = {
        annotation.episode_id: annotation.value
        for annotation in stores.annotations.find_annotations(ids, maker_ids=[maker_id])
        if "success_verdict" in annotation.value
    }
    labelled = [
        LabelledEpisode(
            label=labels.labels[episode_id],
            example=Example(
                parts={name: float(part) for name, part in cast("dict[str, float]", value["parts"]).items()},
                success=LABEL_VALUES[labels.labels[episode_id]],
                group=str(value["task"]),
            ),
            probability=float(cast("float", value["success_probability"])),
            verdict=str(value["success_verdict"]),
            seconds=episodes[episode_id].duration_seconds,
        )
        for episode_id, value in judged.items()
        if episode_id in episodes
    ]
    return Evaluation(episodes=labelled, not_judged=len(ids) - len(labelled), unmatched=len(labels.unmatched))


def fit_to_labels(evaluation: Evaluation, model: str) -> tuple[Combination, Evaluation]:
    """A combination fitted to labels, and what it is worth on tasks that it was not fitted to.

    Args:
        evaluation: The labelled episodes.
        model: Name of the judge, whose parts they are.

    Returns:
        The combination of all labels; the evaluation of those that are fitted without the task of the episode.

    Raises:
        RequestError: There are too few labels, or of fewer than two tasks.
    """
    examples = [episode.example for episode in evaluation.episodes]
    if len({example.group for example in examples}) < 2:
        raise RequestError(
            "labels of one task cannot tell what a fitted combination is worth",
            f"{len(examples)} labels; give labels of at least two tasks",
        )
    combination, apart = fit_apart(examples, model)
    episodes = [
        LabelledEpisode(
            label=episode.label,
            example=episode.example,
            probability=other.probability(episode.example.parts),
            verdict=other.verdict(episode.example.parts),
            seconds=episode.seconds,
        )
        for episode, other in zip(evaluation.episodes, apart, strict=True)
    ]
    return combination, Evaluation(
        episodes=episodes,
        not_judged=evaluation.not_judged,
        unmatched=evaluation.unmatched,
        is_fitted=True,
    )


def _label_name(episode: LabelledEpisode) -> str:
    if episode.label == PARTIAL:
        return PARTIAL
    return "success" if episode.example.success else "failure"


def _area(
    episodes: Sequence[LabelledEpisode], scores: Sequence[float]
) -> tuple[float, tuple[float, float] | None] | None:
    truth = [episode.example.success for episode in episodes]
    area = area_under_curve(scores, truth)
    if area is None:
        return None
    return area, bootstrap_interval(scores, truth, [episode.example.group for episode in episodes])


def _area_json(area: tuple[float, tuple[float, float] | None] | None) -> Json:
    if area is None:
        return None
    value, interval = area
    return {
        "value": round(value, 4),
        "interval": [round(bound, 4) for bound in interval] if interval else None,
    }
