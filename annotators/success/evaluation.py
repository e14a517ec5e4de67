"""How well success agrees with a CSV file of labels: verdicts and area under the curve."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from annotators.success.clip_judge import compute_mean_ranks
from annotators.success.combination import Combination
from annotators.success.fitting import Example, fit_with_cross_validation
from ares.console import count_of
from ares.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import Stores


_RESAMPLES = 2_000
_TAIL_PERCENT = 2.5


def compute_area_under_curve(scores: Sequence[float], labels: Sequence[bool]) -> float | None:
    """Chance that a success scores higher than a failure, half for equal scores; None without one of either.

    Args:
        scores: (N,) higher for a success.
        labels: (N,) whether it is a success.
    """
    import numpy as np

    is_success = np.asarray(labels, bool)
    successes, failures = int(is_success.sum()), int((~is_success).sum())
    if not successes or not failures:
        return None
    ranks = compute_mean_ranks(np.asarray(scores, np.float64)) + 1
    wins = ranks[is_success].sum() - successes * (successes + 1) / 2
    return float(wins / (successes * failures))


def bootstrap_auc_interval(
    scores: Sequence[float], labels: Sequence[bool], clusters: Sequence[str], seed: int = 0
) -> tuple[float, float] | None:
    """The 95 % interval of the area under the curve, by drawing whole clusters with replacement.

    Args:
        scores: (N,) higher for a success.
        labels: (N,) whether it is a success.
        clusters: (N,) what is drawn together, such as the task: episodes of one task resemble each other.
        seed: Seed of the draws.

    Returns:
        None where fewer than two clusters, or no draw with a success and a failure, are there.
    """
    import numpy as np

    rows_of: dict[str, list[int]] = {}
    for row, cluster in enumerate(clusters):
        rows_of.setdefault(cluster, []).append(row)
    groups = [np.asarray(rows) for rows in rows_of.values()]
    if len(groups) < 2:
        return None
    rng, score, label = np.random.default_rng(seed), np.asarray(scores), np.asarray(labels, bool)
    areas: list[float] = []
    for _ in range(_RESAMPLES):
        drawn: NDArray[np.intp] = np.concatenate(
            [groups[index] for index in rng.integers(len(groups), size=len(groups))]
        )
        area = compute_area_under_curve(score[drawn].tolist(), label[drawn].tolist())
        if area is not None:
            areas.append(area)
    if not areas:
        return None
    low, high = np.percentile(areas, [_TAIL_PERCENT, 100 - _TAIL_PERCENT])
    return float(low), float(high)


_EPISODE, _SUCCESS = "episode", "success"
# What a label counts as; "partial" is no success, because the task was not completed.
LABEL_VALUES = {
    **dict.fromkeys(("1", "true", "yes", "success"), True),
    **dict.fromkeys(("0", "false", "no", "failure", "partial"), False),
}
PARTIAL = "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Labels of a workspace.

    Attributes:
        labels: Label in lower case by episode_id.
        unmatched: Names of episodes that the workspace does not have.
    """

    labels: Mapping[str, str]
    unmatched: tuple[str, ...]


def read_outcome_labels(path: str, stores: Stores) -> Labels:
    """Read a CSV file with the columns episode (an id, or the key in its dataset) and success.

    A row whose label is empty is no label.

    Args:
        path: The file.
        stores: Stores of the workspace.

    Raises:
        RequestError: The file cannot be read, has other columns, an unknown label, a label twice, no label of an
            episode of the workspace, or a key that several episodes have.
    """
    labels = dict(_read_rows(path))
    ids = _find_ids(stores, labels)
    unmatched = tuple(sorted(labels.keys() - ids.keys()))
    if not ids:
        raise RequestError(
            "no label is of an episode of the workspace",
            f"{path}: {count_of(len(labels), 'label')}, the first for {next(iter(labels), '')!r}; "
            "give ids or keys of episodes",
        )
    by_id = {ids[name]: label for name, label in labels.items() if name in ids}
    return Labels(labels=by_id, unmatched=unmatched)


def _read_rows(path: str) -> Iterator[tuple[str, str]]:
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RequestError("labels cannot be read", f"{path}: {error}") from None
    if not rows or not {_EPISODE, _SUCCESS} <= rows[0].keys():
        columns = ", ".join(map(str, rows[0])) if rows else "no rows"
        raise RequestError("labels need the columns episode and success", f"{path}: {columns}")
    seen = set()
    for number, row in enumerate(rows, 2):
        name, label = (str(row[key] or "").strip() for key in (_EPISODE, _SUCCESS))
        if not label:
            continue
        if label.lower() not in LABEL_VALUES:
            raise RequestError(
                "no such label",
                f"{path}:{number}: {label!r}; there are: {', '.join(LABEL_VALUES)}, or nothing",
            )
        if name in seen:
            raise RequestError("an episode has two labels", f"{path}:{number}: {name!r}")
        seen.add(name)
        yield name, label.lower()


def _find_ids(stores: Stores, names: Mapping[str, str]) -> dict[str, str]:
    """Id of each labelled episode by the name in the file; one pass over ids and keys."""
    ids: dict[str, str] = {}
    for batch in stores.tables.episodes.scan(["episode_id", "key"]):
        columns = batch.to_pydict()
        for episode_id, key in zip(columns["episode_id"], columns["key"], strict=True):
            for name in {episode_id, key} & names.keys():
                if ids.setdefault(name, episode_id) != episode_id:
                    raise RequestError(
                        "several episodes have the key of a label", f"{name!r}; give the id of the episode"
                    )
    return ids


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
class SuccessEvaluation:
    """Agreement of success with labels.

    Attributes:
        episodes: Labelled episodes that were judged.
        not_judged: Labelled episodes without a judgement, which count in no number.
        unmatched: Labels of episodes that are not in the workspace.
        is_fitted: The verdicts are by combinations fitted to the labels of other tasks than the episode's.
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
        return _area_with_interval(episodes, [episode.probability for episode in episodes])

    def length_area(self) -> tuple[float, tuple[float, float] | None] | None:
        """The same of length alone, where shorter counts as success: far from 0.5 it tells the outcome by itself."""
        return _area_with_interval(self.episodes, [-episode.seconds for episode in self.episodes])

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


def evaluate_success(stores: Stores, labels: Labels, maker_id: str) -> SuccessEvaluation:
    """Compare the judgements of one producer with labels.

    Args:
        stores: Stores of the workspace.
        labels: The labels.
        maker_id: The producer.
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
    return SuccessEvaluation(
        episodes=labelled, not_judged=len(ids) - len(labelled), unmatched=len(labels.unmatched)
    )


def fit_to_labels(evaluation: SuccessEvaluation, model: str) -> tuple[Combination, SuccessEvaluation]:
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
            f"{count_of(len(examples), 'label')}; give labels of at least two tasks",
        )
    combination, apart = fit_with_cross_validation(examples, model)
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
    return combination, SuccessEvaluation(
        episodes=episodes,
        not_judged=evaluation.not_judged,
        unmatched=evaluation.unmatched,
        is_fitted=True,
    )


def _label_name(episode: LabelledEpisode) -> str:
    if episode.label == PARTIAL:
        return PARTIAL
    return "success" if episode.example.success else "failure"


def _area_with_interval(
    episodes: Sequence[LabelledEpisode], scores: Sequence[float]
) -> tuple[float, tuple[float, float] | None] | None:
    truth = [episode.example.success for episode in episodes]
    area = compute_area_under_curve(scores, truth)
    if area is None:
        return None
    return area, bootstrap_auc_interval(scores, truth, [episode.example.group for episode in episodes])


def _area_json(area: tuple[float, tuple[float, float] | None] | None) -> Json:
    if area is None:
        return None
    value, interval = area
    return {
        "value": round(value, 4),
        "interval": [round(bound, 4) for bound in interval] if interval else None,
    }
