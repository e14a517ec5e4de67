"""What a captioner is told of its refused captions, and the new ones that it proposes."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from annotators.base import Outcome, PaidFailure, Result, new_annotation
from annotators.caption import WrittenCaption, write_captions
from annotators.models import ReadableImages, VlmRequest
from annotators.prompting import apply_in_batches, read_prompt
from ares.annotation import Annotation, Cost, Producer, short_hash
from ares.episode import Json
from ares.errors import AresError, MediaError
from ares.rubric import GATES

if TYPE_CHECKING:
    from annotators.base import CameraSeconds, Work
    from annotators.caption import Captioner
    from ares.rubric import Rubric


_PACKAGE = "annotators.revise"
_MOST_SECONDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCriterion:
    """A criterion that a caption does not meet.

    Attributes:
        id: Its id.
        text: Its condition, as the rubric words it.
        seconds: Seconds of the frames that the ruling rests on.
        is_gate: Whether it alone makes the caption not acceptable.
    """

    id: str
    text: str
    seconds: tuple[float, ...]
    is_gate: bool


def find_failed_criteria(
    grade: Annotation, rubric: Rubric, hidden: Collection[str]
) -> tuple[FailedCriterion, ...]:
    """The criteria that a grade names as failed; none where no gate is among them.

    Nothing of what the judge saw or replied is in them: a captioner that gets the answer learns to repeat it.

    Args:
        grade: The grade, with its rulings.
        rubric: Its rubric.
        hidden: Criteria that the captioner must not learn of.
    """
    rulings = grade.value["rulings"]
    assert isinstance(rulings, list)
    failed = {
        str(item["criterion"]): item
        for item in rulings
        if isinstance(item, dict) and item["verdict"] == "UNMET"
    }
    criteria = tuple(
        FailedCriterion(
            id=criterion.id,
            text=criterion.text,
            seconds=tuple(failed[criterion.id]["evidence"]),
            is_gate=criterion.category in GATES,
        )
        for criterion in rubric.criteria
        if criterion.id in failed and criterion.id not in hidden
    )
    return criteria if any(criterion.is_gate for criterion in criteria) else ()


def choose_evidence_seconds(criteria: Sequence[FailedCriterion]) -> list[float]:
    """Seconds of the frames that show the failures: all, or eight evenly spread over them."""
    seconds = sorted({second for criterion in criteria for second in criterion.seconds})
    if len(seconds) <= _MOST_SECONDS:
        return seconds
    step = (len(seconds) - 1) / (_MOST_SECONDS - 1)
    return [seconds[round(step * position)] for position in range(_MOST_SECONDS)]


def build_revision_prompt(
    prompt: str, caption: str, criteria: Sequence[FailedCriterion], evidence: Sequence[float]
) -> str:
    """What a captioner is asked.

    Args:
        prompt: What it was asked for the caption.
        caption: The caption.
        criteria: What it does not meet; without any the captioner is asked again, and told nothing.
        evidence: Seconds of the frames that follow those of `prompt`.
    """
    failures = ""
    if criteria:
        lines = "\n".join(_criterion_line(criterion, evidence) for criterion in criteria)
        failures = (
            read_prompt(_PACKAGE, "failures")
            .format(criteria=lines, evidence=_evidence_legend(evidence))
            .rstrip()
        )
    text = read_prompt(_PACKAGE, "revise").format(caption=json.dumps(caption), failures=failures)
    return prompt + text


def _criterion_line(criterion: FailedCriterion, evidence: Sequence[float]) -> str:
    shown = [f"{second:.2f} s" for second in criterion.seconds if second in evidence]
    return f"- {criterion.text}" + (f" (see {', '.join(shown)})" if shown else "")


def _evidence_legend(evidence: Sequence[float]) -> str:
    if not evidence:
        return ""
    times = ", ".join(f"{second:.2f} s" for second in evidence)
    return f"The last {len(evidence)} images are the frames that this rests on, at {times}."


# The annotator of proposals: it fills no column, and nothing describes it.
PROPOSAL = "caption_proposal"
_VERSION = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposer:
    """A captioner that is asked again.

    Attributes:
        captioner: The captioner.
        producer: Producer of its revised captions.
        has_critique: Whether it is told what failed; else it is asked the same again, and its changes are noise.
    """

    captioner: Captioner
    producer: Producer
    has_critique: bool

    @property
    def proposal_producer(self) -> Producer:
        """Producer of its proposals."""
        return replace(self.producer, annotator=PROPOSAL, columns=(), fills_segments=False)


def make_revision_captioner(
    captioner: Captioner, judge: Producer, hidden: Sequence[str], *, has_critique: bool
) -> Proposer:
    """A captioner that is asked again.

    Args:
        captioner: The captioner, with the producer of the captions that are revised.
        judge: Producer of the grades that say what failed.
        hidden: Criteria that it must not learn of.
        has_critique: Whether it is told what failed.
    """
    base = captioner.producer
    prompts = [base.prompt_hash, *(read_prompt("annotators.revise", name) for name in ("revise", "failures"))]
    critique: dict[str, Json] = {
        "revises": base.maker_id,
        "judge": judge.maker_id,
        "hidden": list[Json](hidden),
    }
    settings = {**base.settings, **(critique if has_critique else {"repeats": base.maker_id})}
    producer = replace(base, version=_VERSION, prompt_hash=short_hash(list[Json](prompts)), settings=settings)
    return Proposer(captioner=captioner, producer=producer, has_critique=has_critique)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCaption:
    """A caption that is asked again.

    Attributes:
        work: Its episode, with frames.
        caption: The caption.
        criteria: What it does not meet, as far as the captioner may learn of it.
        camera: Camera of the frames that show it.
    """

    work: Work
    caption: Annotation
    criteria: Sequence[FailedCriterion]
    camera: str


def read_evidence_frames(criteria: Sequence[FailedCriterion], camera: str) -> CameraSeconds:
    """The frames that show failures; none where no camera is named."""
    seconds = choose_evidence_seconds(criteria)
    return {camera: seconds} if camera and seconds else {}


def propose_captions(proposer: Proposer, refused: Sequence[RefusedCaption], revision: int) -> list[Outcome]:
    """The proposals for some captions, in order; each result is one annotation of `proposer.proposal_producer`."""
    vlm = proposer.captioner.vlm
    requests = [_proposal_request(proposer, item) for item in refused]
    readable = [request for request in requests if isinstance(request, VlmRequest)]
    write = partial(write_captions, proposer.captioner)
    replies = iter(apply_in_batches(write, readable, vlm.batch_size, vlm.workers))
    return [
        _proposal_result(proposer, item, next(replies), revision)
        if isinstance(request, VlmRequest)
        else request
        for item, request in zip(refused, requests, strict=True)
    ]


def _proposal_request(proposer: Proposer, item: RefusedCaption) -> VlmRequest | AresError:
    captioner, frames = proposer.captioner, item.work.frames
    plan = captioner.plan(item.work.subject)
    if not plan.views:
        return MediaError("episode has no such camera", f"{captioner.camera or 'any'!r}")
    criteria = item.criteria if proposer.has_critique else ()
    evidence = read_evidence_frames(criteria, item.camera)
    try:
        images = ReadableImages(
            lambda: [
                *plan.arrange(frames.at),
                *(image for name, shown in evidence.items() for image in frames.at(name, shown)),
            ]
        )
    except MediaError as error:
        return error
    shown = [second for seconds in evidence.values() for second in seconds]
    text = str(item.caption.value["text"])
    return captioner.request(images, build_revision_prompt(captioner.prompt(plan), text, criteria, shown))


def _proposal_result(
    proposer: Proposer, item: RefusedCaption, written: WrittenCaption | PaidFailure, revision: int
) -> Outcome:
    if isinstance(written, PaidFailure):
        return written
    failed: list[Json] = [criterion.id for criterion in item.criteria] if proposer.has_critique else []
    value = {**written.value, "revises": item.caption.annotation_id, "criteria": failed}
    plan = proposer.captioner.plan(item.work.subject)
    annotation = new_annotation(
        item.work,
        proposer.proposal_producer,
        value,
        camera=plan.camera,
        frames=plan.seconds,
        cost=written.cost,
    )
    return Result(annotations=[replace(annotation, revision=revision)], paid=written.paid)


def make_adopted_caption(proposer: Proposer, proposal: Annotation) -> Annotation:
    """The caption that a proposal becomes, without its cost; it is graded under this id before it is stored."""
    return replace(proposal, name="caption", maker_id=proposer.producer.maker_id, cost=Cost())
