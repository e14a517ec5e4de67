"""What is stored of the success of episodes, without the claims of captions: an outcome for judges of captions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.success.combination import (
    CAPTION_PREFIX,
    OUTCOME_PREFIX,
    SuccessVerdict,
    verdict_of_probability,
)
from ares.annotation import Annotation, Maker
from ares.curation import maker_catalog

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores

_ANNOTATOR = "success"
# Probabilities are stored with four digits: nearer to certainty than half of the last one, they say no more.
_LEAST_PROBABILITY = 0.00005


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


def current_success_maker(stores: Stores) -> Maker | None:
    """The maker of success that is pinned, else the one that worked last; None where there is none."""
    catalog = maker_catalog(stores)
    return catalog.makers.get(catalog.current(_ANNOTATOR))


def read_outcomes(stores: Stores, maker: Maker, episode_ids: Sequence[str]) -> dict[str, StoredOutcome]:
    """The stored outcomes by one maker, by episode_id; an episode that it has not judged is left out."""
    annotations = stores.annotations.find_annotations(episode_ids, [_ANNOTATOR], maker_ids=[maker.maker_id])
    return {annotation.episode_id: outcome_without_captions(annotation, maker) for annotation in annotations}


def outcome_without_captions(annotation: Annotation, maker: Maker) -> StoredOutcome:
    """An outcome from a stored success, with what captions contributed taken out of the log-odds.

    A caption that had a part in the probability would bear witness for itself.
    """
    value = annotation.value
    contributions = {name: _number(odds) for name, odds in _object(value.get("contributions")).items()}
    claimed = sum(odds for name, odds in contributions.items() if name.startswith(CAPTION_PREFIX))
    probability = _without(_number(value.get("success_probability"), 0.5), claimed)
    sees_outcome = any(name.startswith(OUTCOME_PREFIX) for name in contributions)
    verdict = _verdict(probability, maker) if sees_outcome else "unsure"
    # Where captions turned the verdict, frames and signals are too close to the thresholds to contradict them.
    is_decided = verdict == value.get("success_verdict")
    return StoredOutcome(
        annotation_id=annotation.annotation_id,
        task=str(value.get("task", "")),
        probability=round(probability, 4),
        verdict=verdict if is_decided else "unsure",
        judge=maker.model,
        frames=annotation.frames,
    )


def _verdict(probability: float, maker: Maker) -> SuccessVerdict:
    settings = maker.settings
    failure_below, success_from = _number(settings["failure_below"]), _number(settings["success_from"])
    return verdict_of_probability(probability, failure_below, success_from)


def _without(probability: float, log_odds: float) -> float:
    """A probability whose log-odds are less by `log_odds`."""
    bounded = min(max(probability, _LEAST_PROBABILITY), 1.0 - _LEAST_PROBABILITY)
    return 1.0 / (1.0 + (1.0 - bounded) / bounded * math.exp(log_odds))


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _number(value: Json, missing: float = 0.0) -> float:
    return float(value) if isinstance(value, int | float) else missing
