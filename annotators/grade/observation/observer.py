"""Asks a model what it sees, once for each segment and before any caption is known, and keeps it as a fact."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from annotators.base import PaidFailure, Preflight, Subject, Work, new_annotation
from annotators.grade.judge_frames import JudgeFrames, JudgeImages
from annotators.grade.observation.form import (
    Observation,
    ObservationReply,
    observation_schema,
    parse_observation,
    read_observation,
)
from annotators.models import (
    Vlm,
    VlmFailure,
    VlmReply,
    VlmRequest,
    call_limit,
    expected_image_tokens,
    grey_frames,
    make_test_call,
    price_usd,
)
from annotators.prompts import read_prompt
from ares.annotation import Annotation, Cost, Maker, make_segment_id, short_hash
from ares.errors import AresError, ModelError
from ares.settings import Price

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import Stores

OBSERVATION = "observation"
MAX_NEW_TOKENS = 800
_VERSION = "1"
_PACKAGE = "annotators.grade"
# For estimates only.
_PROMPT_TOKENS, _REPLY_TOKENS = 450, 260


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWork:
    """What was observed in a work.

    Attributes:
        observation: What was seen.
        annotation: The fact that it is, where it was made now of the frames of the episode; else None.
        annotation_id: Id of the fact, also where the log has it; "" for changed frames.
        cost: What it costs the grade of this work: nothing where it is a fact of the segment, which all captions share.
        paid: What was paid for it now.
    """

    observation: Observation
    annotation: Annotation | None = None
    annotation_id: str = ""
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)


# A failure means that there is no observation, and that a retry may help.
ObservationOutcome = ObservedWork | PaidFailure | AresError


class Observer:
    """Observes segments by one request each; neither a caption nor the instruction is part of it.

    Args:
        vlm: The model; it holds JSON schemas, keeps its replies and books their cost.
        frames: Which frames it gets.
        stores: Stores of the workspace, whose log has earlier observations.
        price: Its price, for estimates.
        remote: Whether its calls cost money.

    Attributes:
        maker: Maker of the observations; the rubric and the captions are no part of it.
    """

    def __init__(
        self, vlm: Vlm, frames: JudgeFrames, stores: Stores, price: Price | None, remote: bool
    ) -> None:
        self._vlm, self._frames, self._log = vlm, frames, stores.annotations
        self._price, self._remote = price, remote
        self.prompt_hash = short_hash(
            [
                read_prompt(_PACKAGE, "observe"),
                read_prompt(_PACKAGE, "observe_system"),
                ObservationReply.model_json_schema(),
            ]
        )
        self.maker = Maker(
            annotator=OBSERVATION,
            version=_VERSION,
            model=vlm.name,
            prompt_hash=self.prompt_hash,
            settings={
                **vlm.settings,
                "layout": frames.layout.name,
                "camera": frames.camera,
                "family": vlm.family,
                "max_new_tokens": MAX_NEW_TOKENS,
            },
            kind="model",
            subject_kind="segment",
        )

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """Works to have in hand now so that the server gets as many calls as it takes; None for other models."""
        return call_limit(self._vlm)

    def estimate(self, subject: Subject) -> Cost:
        """Expected cost of the observation of a subject: nothing where there is one."""
        is_known = bool(self._log.find_done_subjects(self.maker.maker_id, [_segment(subject)]))
        return Cost() if is_known else self.estimate_call(subject)

    def estimate_call(self, subject: Subject) -> Cost:
        """Expected cost of one observation that is made."""
        name = str(self._vlm.settings.get("served_from") or self._vlm.name)
        sizes = self._frames.layout.image_sizes(subject, self._frames.camera)
        tokens_in = expected_image_tokens(name, sizes) + _PROMPT_TOKENS
        usd = price_usd(self._price, tokens_in, _REPLY_TOKENS) if self._remote else 0.0
        return Cost(calls=1, tokens_in=tokens_in, tokens_out=_REPLY_TOKENS, usd=usd)

    def preflight(self) -> Preflight:
        """Observe frames without content; the reply has to be of the form asked for. Raises ModelError."""
        layout = self._frames.layout
        seconds = [float(second) for second in range(layout.count)]
        request = self._request(layout.arrange(grey_frames(layout.count)), seconds)
        return make_test_call(self._vlm, request, lambda reply: _problem(reply, seconds))

    def observe(self, works: Sequence[Work]) -> list[ObservationOutcome]:
        """The observation of each work; works about the same frames share it, and the first of them has paid for it."""
        first = {_key(work): work for work in reversed(works)}
        known = self._read_stored([work for work in first.values() if not work.frames.is_changed])
        missing = {key: work for key, work in first.items() if key not in known}
        answers = self._ask(missing)
        outcomes: list[ObservationOutcome] = []
        paid_for: set[tuple[int, str]] = set()
        for key in map(_key, works):
            outcome = known[key] if key in known else answers[key]
            outcomes.append(_shared(outcome) if key in paid_for else outcome)
            paid_for.add(key)
        return outcomes

    def _read_stored(self, works: Sequence[Work]) -> dict[tuple[int, str], ObservedWork]:
        """The observations of segments that the log has."""
        if not works:
            return {}
        ids = sorted({work.episode.episode_id for work in works})
        stored = self._log.find_annotations(ids, [OBSERVATION], maker_ids=[self.maker.maker_id])
        by_segment = {
            annotation.subject: ObservedWork(observation=observation, annotation_id=annotation.annotation_id)
            for annotation in stored
            if (observation := read_observation(annotation.value))
        }
        segments = {_key(work): _segment(work.subject) for work in works}
        return {key: by_segment[segment] for key, segment in segments.items() if segment in by_segment}

    def _ask(self, works: Mapping[tuple[int, str], Work]) -> dict[tuple[int, str], ObservationOutcome]:
        images = {key: self._frames.read(work) for key, work in works.items()}
        readable = {key: read for key, read in images.items() if isinstance(read, JudgeImages)}
        requests = [self._request(read.images, read.seconds) for read in readable.values()]
        replies = dict(zip(readable, self._vlm.ask(requests) if requests else (), strict=True))
        return {
            key: self._outcome(works[key], read, replies[key]) if isinstance(read, JudgeImages) else read
            for key, read in images.items()
        }

    def _request(self, images: Sequence[NDArray[np.uint8]], seconds: Sequence[float]) -> VlmRequest:
        legend, frames = self._frames.layout.legend(seconds), len(seconds)
        return VlmRequest(
            images=images,
            prompt=read_prompt(_PACKAGE, "observe").replace("{legend}", legend),
            system=read_prompt(_PACKAGE, "observe_system"),
            schema=observation_schema(frames),
            max_tokens=MAX_NEW_TOKENS,
        )

    def _outcome(self, work: Work, read: JudgeImages, reply: VlmReply | VlmFailure) -> ObservationOutcome:
        if isinstance(reply, VlmFailure):
            return PaidFailure(reply.error, reply.cost)
        observation = parse_observation(reply.text, read.seconds)
        if isinstance(observation, str):
            detail = f"{self._vlm.name}: {observation}; it replied {reply.text[:200]!r}"
            return PaidFailure(ModelError("observation cannot be used", detail), reply.paid)
        if work.frames.is_changed:
            return ObservedWork(observation=observation, cost=reply.cost, paid=reply.paid)
        annotation = observation_annotation(
            work, self.maker, observation.to_json(), camera=read.camera, seconds=read.seconds, cost=reply.cost
        )
        return ObservedWork(
            observation=observation,
            annotation=annotation,
            annotation_id=annotation.annotation_id,
            paid=reply.paid,
        )


def observation_annotation(
    work: Work,
    maker: Maker,
    value: Mapping[str, Json],
    *,
    camera: str,
    seconds: Sequence[float],
    cost: Cost | None = None,
) -> Annotation:
    """What was seen in the span of a work, as a fact about its segment that all captions of it share."""
    annotation = new_annotation(work, maker, value, camera=camera, frames=seconds, cost=cost)
    return replace(annotation, subject=_segment(work.subject), subject_kind="segment")


def _shared(outcome: ObservationOutcome) -> ObservationOutcome:
    """The outcome for another work about the same frames: it has been paid for."""
    if isinstance(outcome, PaidFailure):
        return outcome.error
    if isinstance(outcome, ObservedWork):
        return replace(outcome, annotation=None, paid=Cost())
    return outcome


def _problem(reply: VlmReply, seconds: Sequence[float]) -> str:
    parsed = parse_observation(reply.text, seconds)
    return parsed if isinstance(parsed, str) else ""


def _key(work: Work) -> tuple[int, str]:
    """The same for works about the same frames: several texts about one segment."""
    return id(work.frames), _segment(work.subject)


def _segment(subject: Subject) -> str:
    return make_segment_id(subject.episode.episode_id, subject.start_seconds, subject.stop_seconds)
