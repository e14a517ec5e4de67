"""The interface of judges of success: what they get of an episode, and the parts that they measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from annotators.base import CameraSeconds, PaidFailure, Preflight, Subject, Work
from annotators.models import ModelProperties
from ares.annotation import Cost
from ares.episode import Camera, Json
from ares.errors import AresError


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An episode to judge.

    Attributes:
        work: Its frames and signals; no judge may read `work.episode.success`.
        task: What was to be done: the instruction, or what the caption says where there is none.
    """

    work: Work
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeParts:
    """What a judge measured of an attempt.

    Attributes:
        parts: Values by the name of the part; a part that could not be measured is left out.
        evidence: Camera and second of the frames that the judge rests on.
        details: What else is stored for people: criteria, observation, replies.
        cost: What it cost, whenever it was paid.
        paid: What was paid for it now.
    """

    parts: Mapping[str, float]
    evidence: Sequence[tuple[str, float]]
    details: Mapping[str, Json] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)


class OutcomeJudge(ModelProperties, Protocol):
    """A model that says how an attempt ended."""

    @property
    def prompt_hash(self) -> str:
        """Hash of its prompts or texts."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """What makes its parts what they are beside its name and prompts."""

    @property
    def warnings(self) -> Sequence[str]:
        """What it cannot do, for the start of a run."""

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """Attempts to have in hand at the same time now, or None where that is always `workers`."""

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """Frames that it needs."""

    def judge(self, attempts: Sequence[Attempt]) -> Sequence[OutcomeParts | PaidFailure | AresError]:
        """One result per attempt."""

    def preflight(self) -> Preflight:
        """Check before a run that the model answers. Raises ModelError."""

    def estimate(self, subject: Subject) -> Cost:
        """Expected cost of one attempt."""


def choose_judged_cameras(subject: Subject, name: str) -> list[Camera]:
    """Every good camera, or the one of that name."""
    return [camera for camera in subject.episode.good_cameras if not name or camera.name == name]
