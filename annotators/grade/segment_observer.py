"""Observes segments, each once: what a model sees in them is kept as a fact that all captions of a segment share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Cost, Producer, make_segment_id, short_hash
from ares.errors import AresError, ModelError
from ares_annotators.base import PaidFailure, Preflight, Subject, Work, new_annotation
from ares_annotators.caption import FramePlan, describe_verbs, plan_test_frames
from ares_annotators.grade.judge import ImagesForJudge, JudgeFrames
from ares_annotators.grade.observation import (
    OBSERVATION,
    Observation,
    ObservationReply,
    observation_schema,
    parse_observation,
    read_observation,
)
from ares_annotators.models import (
    Vlm,
    VlmFailure,
    VlmReply,
    VlmRequest,
    estimate_image_tokens,
    grey_frames,
    make_test_call,
)
from ares_annotators.prompting import read_prompt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


MAX_NEW_TOKENS = 800
_VERSION = "3"
_PACKAGE = "ares_annotators.grade"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkObservation:
    """What was observed in a work.

    Attributes:
        observation: What was seen.
        annotation: The fact that it is, where it was made now of the frames of the episode; else None.
        cost: What it costs the grade of this work: nothing where it is a fact of the segment, which all captions share.
        paid: What was paid for it now.
    """

    observation: Observation
    annotation: Annotation | None = None
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)


# A failure means that there is no observation, and that a retry may help.
ObservationOutcome = WorkObservation | PaidFailure | AresError


class SegmentObserver:
    """Observes segments by one request each; neither a caption nor the instruction is part of it.

    Args:
        vlm: The model; it keeps its replies and books their cost.
        frames: Which frames it gets.
        stores: Stores of the workspace, whose log has earlier observations.
        verbs: The guide of verbs.

    Attributes:
        producer: Producer of the observations; the rubric and the captions are no part of it.
    """

    def __init__(self, vlm: Vlm, frames: JudgeFrames, stores: Stores, verbs: Mapping[str, str]) -> None:
        self._vlm, self._frames, self._log, self._verbs = vlm, frames, stores.annotations, verbs
        self._has_schema = "schema" in vlm.capabilities
        self.prompt_hash = short_hash(
            [
                read_prompt(_PACKAGE, "observe"),
                read_prompt(_PACKAGE, "observe_system"),
                ObservationReply.model_json_schema(),
                dict(verbs),
            ]
        )
        self.producer = Producer(
            annotator=OBSERVATION,
            version=_VERSION,
            model=vlm.name,
            prompt_hash=self.prompt_hash,
            settings={
                **vlm.settings,
                "layout": frames.layout,
                "camera": frames.camera,
                "family": vlm.family,
                "has_schema": self._has_schema,
                "max_new_tokens": MAX_NEW_TOKENS,
            },
            kind="model",
            subject_kind="segment",
        )

    def expect_image_tokens(self, subject: Subject) -> int:
        """Tokens of the images of a subject."""
        name = str(self._vlm.settings.get("served_from") or self._vlm.name)
        return estimate_image_tokens(name, self._frames.plan(subject).image_sizes())

    def preflight(self) -> Preflight:
        """Observe frames without content; the reply has to be of the form asked for. Raises ModelError."""
        height, width = grey_frames(1).shape[1:3]
        plan = replace(plan_test_frames(self._frames.layout, height, width), is_numbered=True)
        images = plan.arrange(lambda camera, seconds: grey_frames(len(seconds)))
        request = self._request(images, plan)
        return make_test_call(
            self._vlm, request, lambda reply: self._reply_problem(reply, plan.shown_seconds)
        )

    def _reply_problem(self, reply: VlmReply, seconds: Sequence[float]) -> str:
        parsed = parse_observation(reply.text, seconds, self._verbs)
        return parsed if isinstance(parsed, str) else ""

    def observe(self, works: Sequence[Work]) -> list[ObservationOutcome]:
        """The observation of each work; works about the same frames share it, and the first of them has paid for it."""
        first = {shared_frames_key(work): work for work in reversed(works)}
        known = self._read_stored([work for work in first.values() if not work.frames.is_changed])
        missing = {key: work for key, work in first.items() if key not in known}
        answers = self._ask(missing)
        outcomes: list[ObservationOutcome] = []
        paid_for: set[tuple[int, str]] = set()
        for key in map(shared_frames_key, works):
            outcome = known[key] if key in known else answers[key]
            outcomes.append(_as_already_paid(outcome) if key in paid_for else outcome)
            paid_for.add(key)
        return outcomes

    def _read_stored(self, works: Sequence[Work]) -> dict[tuple[int, str], WorkObservation]:
        """The observations of segments that the log has."""
        if not works:
            return {}
        ids = sorted({work.episode.episode_id for work in works})
        stored = self._log.find_annotations(ids, [OBSERVATION], maker_ids=[self.producer.maker_id])
        by_segment = {
            annotation.subject: WorkObservation(observation=observation)
            for annotation in stored
            if (observation := read_observation(annotation.value))
        }
        segments = {shared_frames_key(work): segment_of(work.subject) for work in works}
        return {key: by_segment[segment] for key, segment in segments.items() if segment in by_segment}

    def _ask(self, works: Mapping[tuple[int, str], Work]) -> dict[tuple[int, str], ObservationOutcome]:
        images = {key: self._frames.read(work) for key, work in works.items()}
        readable = {key: read for key, read in images.items() if isinstance(read, ImagesForJudge)}
        requests = [self._request(read.images, read.plan) for read in readable.values()]
        replies = dict(zip(readable, self._vlm.ask(requests) if requests else (), strict=True))
        return {
            key: self._outcome(works[key], read, replies[key]) if isinstance(read, ImagesForJudge) else read
            for key, read in images.items()
        }

    def _request(self, images: Sequence[NDArray[np.uint8]], plan: FramePlan) -> VlmRequest:
        prompt = read_prompt(_PACKAGE, "observe").replace("{legend}", plan.legend())
        prompt = prompt.replace("{verbs}", describe_verbs(self._verbs))
        return VlmRequest(
            images=images,
            prompt=prompt,
            system=read_prompt(_PACKAGE, "observe_system"),
            schema=observation_schema(len(plan.shown_seconds), self._verbs) if self._has_schema else None,
            max_tokens=MAX_NEW_TOKENS,
        )

    def _outcome(self, work: Work, read: ImagesForJudge, reply: VlmReply | VlmFailure) -> ObservationOutcome:
        if isinstance(reply, VlmFailure):
            return PaidFailure(reply.error, reply.cost)
        observation = parse_observation(reply.text, read.seconds, self._verbs)
        if isinstance(observation, str):
            detail = f"{self._vlm.name}: {observation}; it replied {reply.text[:200]!r}"
            return PaidFailure(ModelError("observation cannot be used", detail), reply.paid)
        if work.frames.is_changed:
            return WorkObservation(observation=observation, cost=reply.cost, paid=reply.paid)
        value, plan = observation.to_json(), read.plan
        annotation = new_annotation(
            work, self.producer, value, camera=plan.camera, frames=plan.seconds, cost=reply.cost
        )
        # A fact about the segment, which all captions of it share.
        annotation = replace(annotation, subject=segment_of(work.subject), subject_kind="segment")
        return WorkObservation(observation=observation, annotation=annotation, paid=reply.paid)


def _as_already_paid(outcome: ObservationOutcome) -> ObservationOutcome:
    """The outcome for another work about the same frames: it has been paid for."""
    if isinstance(outcome, PaidFailure):
        return outcome.error
    if isinstance(outcome, WorkObservation):
        return replace(outcome, annotation=None, paid=Cost())
    return outcome


def shared_frames_key(work: Work) -> tuple[int, str]:
    """The same for works about the same frames: several texts about one segment."""
    return id(work.frames), segment_of(work.subject)


def segment_of(subject: Subject) -> str:
    """Id of the segment that a subject spans."""
    return make_segment_id(subject.episode.episode_id, subject.start_seconds, subject.stop_seconds)
