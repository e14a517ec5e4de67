"""The outcomes of success that a workspace holds, without what captions added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Producer
from ares.curation import producer_catalog
from ares.episode import Json

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores
from ares_annotators.success.combination import (
    CAPTION_PREFIX,
    OUTCOME_PREFIX,
    SuccessVerdict,
    choose_success_verdict,
)

_ANNOTATOR = "success"

# Probabilities are stored with four digits: nearer to certainty than half of the last one, they say no more.
_LEAST_STORED_PROBABILITY = 0.00005


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOutcome:
    """The outcome of an episode by its stored success, as it would be if there were no caption.

    Attributes:
        annotation_id: The annotation.
        task: The task that it judged.
        probability: Probability of success, 0 to 1, that frames and signals give.
        verdict: The verdict that follows from it; "unsure" also where the annotation says so, or says otherwise with
            the captions.
        judge: Portable name of its model.
        frames: Seconds of the frames that it rests on.
    """

    annotation_id: str
    task: str
    probability: float
    verdict: SuccessVerdict
    judge: str
    frames: tuple[float, ...]


def current_success_producer(stores: Stores) -> Producer | None:
    """The producer of success that is pinned, else the one that worked last; None where there is none."""
    catalog = producer_catalog(stores)
    return catalog.producers.get(catalog.current(_ANNOTATOR))


def read_stored_outcomes(
    stores: Stores, producer: Producer, episode_ids: Sequence[str]
) -> dict[str, StoredOutcome]:
    """The stored outcomes by one producer, by episode_id; an episode that it has not judged is left out."""
    annotations = stores.annotations.find_annotations(
        episode_ids, [_ANNOTATOR], maker_ids=[producer.maker_id]
    )
    return {
        annotation.episode_id: remove_caption_evidence(annotation, producer) for annotation in annotations
    }


def remove_caption_evidence(annotation: Annotation, producer: Producer) -> StoredOutcome:
    """An outcome from a stored success, with what captions contributed taken out of the log-odds.

    A caption that had a part in the probability would bear witness for itself.
    """
    value = annotation.value
    contributions = {
        name: _number_or_default(odds) for name, odds in _object_or_empty(value.get("contributions")).items()
    }
    claimed = sum(odds for name, odds in contributions.items() if name.startswith(CAPTION_PREFIX))
    probability = _subtract_log_odds(_number_or_default(value.get("success_probability"), 0.5), claimed)
    sees_outcome = any(name.startswith(OUTCOME_PREFIX) for name in contributions)
    verdict = _verdict_by_thresholds(probability, producer) if sees_outcome else "unsure"
    # Where captions turned the verdict, frames and signals are too close to the thresholds to contradict them.
    is_decided = verdict == value.get("success_verdict")
    return StoredOutcome(
        annotation_id=annotation.annotation_id,
        task=str(value.get("task", "")),
        probability=round(probability, 4),
        verdict=verdict if is_decided else "unsure",
        judge=producer.model,
        frames=annotation.frames,
    )


def _verdict_by_thresholds(probability: float, producer: Producer) -> SuccessVerdict:
    settings = producer.settings
    failure_below, success_from = (
        _number_or_default(settings["failure_below"]),
        _number_or_default(settings["success_from"]),
    )
    return choose_success_verdict(probability, failure_below, success_from)


def _subtract_log_odds(probability: float, log_odds: float) -> float:
    """A probability whose log-odds are less by `log_odds`."""
    bounded = min(max(probability, _LEAST_STORED_PROBABILITY), 1.0 - _LEAST_STORED_PROBABILITY)
    return 1.0 / (1.0 + (1.0 - bounded) / bounded * math.exp(log_odds))


def _object_or_empty(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _number_or_default(value: Json, missing: float = 0.0) -> float:
    return float(value) if isinstance(value, int | float) else missing
