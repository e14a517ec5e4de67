"""How the weights of an export are spread, and how well they agree with what is known of the episodes.

A weight that favours good episodes should be larger for those that succeeded, or that people call good; one that is a
probability should also have its size. Where nothing is known of the episodes, or only what the weight is made of, that
is said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.episode import Json
from ares.errors import RequestError
from ares.export.base import SAMPLE_WEIGHT
from ares.store import batched, ids_filter

if TYPE_CHECKING:
    from ares.store import Stores


_BATCH_IDS = 10_000
# Fewer episodes with a known truth say nothing of a score, nor do those of which all are alike.
_LEAST_ITEMS, _BINS = 10, 5
# Standard deviations on each side of a mean in which 95 % lie.
_DEVIATIONS = 1.96
# Questions to people about whole episodes, and what they say of one.
_PEOPLE = ("success", "acceptable")
_VERDICTS = {"met": True, "unmet": False}


def describe_weights(
    weights: Iterable[tuple[str, float]], stores: Stores, specs: Sequence[str]
) -> Iterator[dict[str, Json]]:
    """What the weights are, and how well they agree with what is known of the episodes, as lines of a report.

    Args:
        weights: Id and weight of all episodes of a set.
        stores: Stores of the workspace.
        specs: The factors that they are made of.

    Raises:
        RequestError: Every weight is 0.
    """
    import numpy as np

    by_id = dict(weights)
    array = np.array(list(by_id.values()))
    if not array.sum():
        raise RequestError("every weight of the set is 0", f"by {', '.join(specs)}")
    yield {
        "reason": f"{SAMPLE_WEIGHT} was added: {' x '.join(specs)}",
        "episodes": len(by_id),
        "mean": round(float(array.mean()), 6),
        "least": round(float(array.min()), 6),
        "largest": round(float(array.max()), 6),
        "of_weight_0": int((array == 0).sum()),
        # As many episodes of equal weight have a mean as certain.
        "effective_episodes": round(float(array.sum() ** 2 / (array**2).sum()), 1),
    }
    yield from _describe_calibration(stores, by_id, specs)


def _describe_calibration(
    stores: Stores, weights: Mapping[str, float], specs: Sequence[str]
) -> Iterator[dict[str, Json]]:
    """How the weights agree with the outcomes that are recorded, and with what people say."""
    is_circular = any(re.search(r"\bsuccess\b", spec) for spec in specs)
    outcomes = {} if is_circular else _recorded_outcomes(stores, list(weights))
    truths = {"the recorded outcome": outcomes}
    truths |= {f"what people say of {name}": _people_labels(stores, name, weights) for name in _PEOPLE}
    unknown = ["it is made of the recorded outcome"] if is_circular else []
    is_known = False
    for name, labels in truths.items():
        if len(labels) >= _LEAST_ITEMS and len(set(labels.values())) == len(_VERDICTS):
            is_known = True
            pairs = [(weights[id], label) for id, label in labels.items()]
            yield {"reason": f"{SAMPLE_WEIGHT} beside {name}", **_compare_scores(pairs)}
        elif labels is not outcomes or not is_circular:
            alike = ", all alike" if len(labels) >= _LEAST_ITEMS else ""
            unknown.append(f"{name} is known of {count_of(len(labels), 'episode')}{alike}")
    if not is_known:
        yield {"reason": f"{SAMPLE_WEIGHT} is uncalibrated: {'; '.join(unknown)}"}


def _recorded_outcomes(stores: Stores, ids: Sequence[str]) -> dict[str, bool]:
    """Whether episodes succeeded, by id, of those whose source says it."""
    outcomes: dict[str, bool] = {}
    for some in batched(ids, _BATCH_IDS):
        rows = stores.tables.episodes.read_columns(["episode_id", "success"], ids_filter(some))
        outcomes |= {
            row["episode_id"]: row["success"] for row in rows.to_pylist() if row["success"] is not None
        }
    return outcomes


def _people_labels(stores: Stores, question: str, weights: Mapping[str, float]) -> dict[str, bool]:
    """What people say of whole episodes that were drawn at random, by id.

    Those on which they differ, or cannot tell, are left out.
    """
    from ares.review import read_labelled_items

    return {
        item.episode_id: _VERDICTS[item.truth]
        for item in read_labelled_items(stores, question=question)
        if item.is_random and item.truth in _VERDICTS and item.episode_id in weights and not item.is_segment
    }


def _compare_scores(pairs: Sequence[tuple[float, bool]]) -> dict[str, Json]:
    """How well scores agree with labels: order, and of scores from 0 to 1 also their size."""
    from ares.review import brier_score, reliability_curve

    scores, labels = [score for score, _ in pairs], [label for _, label in pairs]
    compared: dict[str, Json] = {
        "episodes": len(pairs),
        "true": sum(labels),
    }
    compared |= dict(zip(("auc", "auc_low", "auc_high"), _area_under_curve(scores, labels), strict=True))
    if min(scores) < 0 or max(scores) > 1:
        return compared | {"reliability": "no probability: weights beyond 1"}
    bins = reliability_curve(scores, labels, _BINS)
    brier = brier_score(scores, labels)
    shares = (
        f"{part.low:g} to {part.high:g}: mean {part.mean_rank:.2f}, true {part.true_share:.2f} of {part.items}"
        for part in bins
    )
    return compared | {"brier": None if brier is None else round(brier, 4), "reliability": "; ".join(shares)}


def _area_under_curve(scores: Sequence[float], labels: Sequence[bool]) -> tuple[float, float, float]:
    """The chance that a true one has the larger score than one that is not, with its 95 % interval.

    Equal scores count half. The interval is that of Hanley and McNeil (1982), cut at 0 and 1.
    """
    import numpy as np

    values, is_true = np.array(scores), np.array(labels, np.bool_)
    _, numbers, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[numbers]  # equal scores share the mean of their ranks
    positive, negative = int(is_true.sum()), int((~is_true).sum())
    area = (float(ranks[is_true].sum()) - positive * (positive + 1) / 2) / (positive * negative)
    of_positive = area / (2 - area) - area**2
    of_negative = 2 * area**2 / (1 + area) - area**2
    variance = area * (1 - area) + (positive - 1) * of_positive + (negative - 1) * of_negative
    half_width = _DEVIATIONS * math.sqrt(max(0.0, variance) / (positive * negative))
    return round(area, 4), round(max(0.0, area - half_width), 4), round(min(1.0, area + half_width), 4)
