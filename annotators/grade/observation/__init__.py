"""Observation before judgement: what a model sees in a segment before it knows any caption, and what that decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.grade.observation.comparison import ObservationComparison, compare_with_observations
    from annotators.grade.observation.form import (
        Observation,
        ObservationReply,
        ObservedPart,
        observation_schema,
        parse_observation,
        read_observation,
    )
    from annotators.grade.observation.observer import OBSERVATION, Observer, observation_annotation
    from annotators.grade.observation.observing_judge import ObservingJudge

__all__ = [
    "OBSERVATION",
    "Observation",
    "ObservationComparison",
    "ObservationReply",
    "ObservedPart",
    "Observer",
    "ObservingJudge",
    "compare_with_observations",
    "observation_annotation",
    "observation_schema",
    "parse_observation",
    "read_observation",
]

__getattr__ = lazy_exports(__name__)
