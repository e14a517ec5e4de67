"""The interface of judges: the cases and frames that they get, and the rulings that they return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from ares.annotation import Annotation, Cost, Producer
from ares.errors import AresError, MediaError
from ares.rubric import Criterion, Rubric, Ruling, SlotValues
from ares_annotators.base import CameraSeconds, PaidFailure, Subject, Work
from ares_annotators.caption import CaptionLayout, FramePlan, plan_frames
from ares_annotators.models import FrameJudge, ReadableImages, Vlm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares_annotators.grade.observation import Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeCase:
    """A caption to grade, without its sentence: the rulings that it has already, and the criteria that are open.

    Attributes:
        work: The episode's frames; no judge may read its instruction or its success, which are not evidence.
        slots: What the caption states.
        extra_words: Words of its sentence that no slot bears, alphabetically.
        phrase: What it says is done, for the demo's judge, which compares it with a list by code; no model reads it.
        rubric: The rubric of its grade.
        rulings: Rulings by code and by the recorded outcome.
        criteria: Open criteria, for the judge to rule on.
        is_control: Whether it is a false text, which the judge itself has to refuse.
    """

    work: Work
    slots: SlotValues
    extra_words: Sequence[str]
    phrase: str
    rubric: Rubric
    rulings: Sequence[Ruling]
    criteria: Sequence[Criterion]
    is_control: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a judge makes of a case.

    Attributes:
        rulings: One per open criterion.
        cost: What they cost, whenever it was paid.
        paid: What was paid for them now.
        observations: What the judge saw before it knew the caption, as new facts of the segment; empty where it saw
            nothing before, or where the log has them.
        seen: What each judge saw in the segment itself, whether new or stored.
    """

    rulings: Sequence[Ruling]
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)
    observations: Sequence[Annotation] = ()
    seen: Sequence[Observation] = ()


class Judge(FrameJudge, Protocol):
    """A model that rules on captions, but not on those by its model family."""

    @property
    def vlm(self) -> Vlm | None:
        """The model, which also reads the slots of sentences; None for the demo's, which compares whole phrases."""

    @property
    def observation_producers(self) -> Sequence[Producer]:
        """Producers of what it sees before it knows the caption; empty where it always knows it."""

    def judge(self, cases: Sequence[GradeCase]) -> Sequence[Judgement | PaidFailure | AresError]:
        """One result per case; a failure means that the model could not be called, and that a retry may help."""

    def expect_cost(self, subject: Subject) -> Cost:
        """Calls and tokens for one caption that was not observed, as they are expected before any measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesForJudge:
    """Images of a work.

    Attributes:
        plan: Which frames they show.
        images: The images.
    """

    plan: FramePlan
    images: Sequence[NDArray[np.uint8]]

    @property
    def seconds(self) -> Sequence[float]:
        """Seconds of the frames, in the order of the numbers by which a judge cites them."""
        return self.plan.shown_seconds


@dataclass(frozen=True, slots=True)
class JudgeFrames:
    """Which frames a judge gets, and how they are arranged: as a captioner gets them by the same layout.

    Attributes:
        layout: A layout of captioners, such as "auto".
        camera: Camera name; "" for the best one as tiles, and for all good ones in the other layouts.
    """

    layout: CaptionLayout
    camera: str

    def plan(self, subject: Subject) -> FramePlan:
        """The frames of a subject, with numbers to cite."""
        return replace(plan_frames(subject, self.layout, self.camera), is_numbered=True)

    def select(self, subject: Subject) -> CameraSeconds:
        """The frames that the layout takes; none without such a camera."""
        return self.plan(subject).by_camera

    def read(self, work: Work) -> ImagesForJudge | AresError:
        """The images of a work, which can be released and read again."""
        plan = self.plan(work.subject)
        if not plan.views:
            return MediaError("episode has no such camera", f"{self.camera or 'any'!r}")
        try:
            images = ReadableImages(lambda: plan.arrange(work.frames.at), work.release_frames)
        except MediaError as error:
            return error
        return ImagesForJudge(plan=plan, images=images)
