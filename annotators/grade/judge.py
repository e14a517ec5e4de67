"""The interface of judges, which rule on the criteria that code leaves open, and the cases that they get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from annotators.base import PaidFailure, Preflight, Subject, Work
from annotators.models import ModelProperties
from annotators.runner import CameraSeconds
from ares.annotation import Annotation, Cost, Maker
from ares.episode import Json
from ares.errors import AresError
from ares.rubric import CaptionSlots, Criterion, Ruling


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A caption to judge, and its open criteria.

    Attributes:
        work: The episode's frames; no judge may read its instruction or its success, which are not evidence.
        text: The caption.
        slots: What it claims, parsed.
        criteria: Criteria to rule on.
    """

    work: Work
    text: str
    slots: CaptionSlots
    criteria: Sequence[Criterion]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a judge makes of a case.

    Attributes:
        rulings: One per open criterion.
        cost: What they cost, whenever it was paid.
        paid: What was paid for them now.
        observations: What the judge saw before it knew the caption, as new facts of the segment; empty where it saw
            nothing before, or where the log has them.
        observation_ids: Ids of the stored observations that the rulings rest on, or were compared with.
    """

    rulings: Sequence[Ruling]
    cost: Cost
    paid: Cost
    observations: Sequence[Annotation] = ()
    observation_ids: Sequence[str] = ()


class Judge(ModelProperties, Protocol):
    """A model that rules on captions, but not on those by its own model family."""

    @property
    def is_free(self) -> bool:
        """Whether a ruling costs no money and little time, so that more of its controls can be graded."""

    @property
    def prompt_hash(self) -> str:
        """Hash of its prompts, or "" where the rubric holds them all."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """What makes its rulings what they are beside its name and prompts, for the maker of grades."""

    @property
    def observation_makers(self) -> Sequence[Maker]:
        """Makers of what it sees before it knows the caption; empty where it always knows it."""

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """Frames that it needs of the span of a caption."""

    def judge(self, cases: Sequence[Case]) -> Sequence[Judgement | PaidFailure | AresError]:
        """One result per case; a failure means that the model could not be called, and that a retry may help."""

    def preflight(self) -> Preflight:
        """Check before a run that the model answers. Raises ModelError."""

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """Cases to have in hand at the same time now, or None where that is always `workers`."""

    def estimate(self, subject: Subject, criteria: Sequence[Criterion]) -> Cost:
        """Expected cost of one case, without what it observes before it knows the caption."""

    def estimate_observation(self, subject: Subject) -> Cost:
        """Expected cost of the observation that the captions of a subject share; nothing where there is one."""

    def estimate_changed_frames(self, subject: Subject) -> Cost:
        """Expected cost of the observation of other frames, which no captions share."""
