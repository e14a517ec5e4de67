"""A vision-language model as judge: one request per criterion, with the caption as quoted data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from annotators.base import PaidFailure, Preflight, Subject
from annotators.caption import FrameLayout, select_frame_seconds
from annotators.grade.judge import Case, Judgement
from annotators.models import (
    ReadableImages,
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
from annotators.runner import CameraSeconds
from ares.annotation import Cost, short_hash
from ares.errors import AresError, MediaError
from ares.rubric import Criterion, Ruling, Verdict
from ares.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_NEW_TOKENS = 300
_PACKAGE = "annotators.grade"
# For estimates only.
_PROMPT_TOKENS, _REPLY_TOKENS = 350, 80
# Questions that most captions leave to the model.
_CALLS_PER_CASE = 4
_MOST_CITED_FRAMES, _LONGEST_OBSERVATION = 64, 4_000
_TEST_CRITERION = Criterion(id="TEST", text="The frames show a robot arm.", category="essential", claim=True)


class _ClaimReply(BaseModel):
    """The form of a reply; anything else is not a verdict."""

    model_config = ConfigDict(extra="forbid", strict=True)

    observation: str = Field(max_length=_LONGEST_OBSERVATION)
    frames: list[int] = Field(max_length=_MOST_CITED_FRAMES)
    verdict: Literal["MET", "UNMET", "UNSURE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Questions:
    """The questions about one caption.

    Attributes:
        criteria: What is asked.
        seconds: Seconds of the frames.
        requests: One request per criterion.
    """

    criteria: Sequence[Criterion]
    seconds: Sequence[float]
    requests: Sequence[VlmRequest]


class ClaimJudge:
    """Claim checks by a vision-language model; fills the protocol `annotators.grade.judge.Judge`.

    Args:
        vlm: The model.
        layout: How frames are arranged for it.
        camera: Camera name, or "" for the best one.
        settings: Price, for estimates.
        remote: Whether its calls cost money.
    """

    is_free = False

    def __init__(self, vlm: Vlm, layout: FrameLayout, camera: str, settings: Settings, remote: bool) -> None:
        self._vlm, self._layout, self._camera = vlm, layout, camera
        self._price = settings.price
        self._remote = remote
        self.name, self.family = vlm.name, vlm.family
        self.settings = {**vlm.settings, "has_schema": "schema" in vlm.capabilities}
        self.batch_size, self.workers = vlm.batch_size, vlm.workers
        self.prompt_hash = short_hash([read_prompt(_PACKAGE, "grade"), read_prompt(_PACKAGE, "grade_system")])

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames that the layout takes."""
        return select_frame_seconds(subject, self._camera, self._layout.count)

    def estimate(self, subject: Subject, criteria: Sequence[Criterion]) -> Cost:
        """One call per criterion that a model can check."""
        calls = sum(criterion.claim for criterion in criteria)
        name = str(self._vlm.settings.get("served_from") or self.name)
        image_tokens = expected_image_tokens(name, self._layout.image_sizes(subject, self._camera))
        tokens_in = calls * (image_tokens + _PROMPT_TOKENS)
        tokens_out = calls * _REPLY_TOKENS
        usd = price_usd(self._price, tokens_in, tokens_out) if self._remote else 0.0
        return Cost(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """Enough cases that their questions keep the server busy."""
        return call_limit(self._vlm, _CALLS_PER_CASE)

    def preflight(self) -> Preflight:
        """One question about frames without content, whose reply has to be of the form asked for."""
        images = self._layout.arrange(grey_frames(self._layout.count))
        legend = self._layout.legend([float(second) for second in range(self._layout.count)])
        request = self._request(images, build_prompt(_TEST_CRITERION, "Open the drawer.", legend))
        return make_test_call(self._vlm, request, lambda reply: _form_problem(reply, self._layout.count))

    def judge(self, cases: Sequence[Case]) -> Sequence[Judgement | PaidFailure | AresError]:
        """Rulings, one call per criterion; the questions of all cases are asked at once."""
        questions_by_case = [self._questions(case) for case in cases]
        requests = [
            request
            for questions in questions_by_case
            if isinstance(questions, _Questions)
            for request in questions.requests
        ]
        replies = iter(self._vlm.ask(requests) if requests else ())
        return [
            self._judgement(case, questions, [next(replies) for _ in questions.requests])
            if isinstance(questions, _Questions)
            else questions
            for case, questions in zip(cases, questions_by_case, strict=True)
        ]

    def _questions(self, case: Case) -> _Questions | AresError:
        seconds = self.select_frames(case.work.subject)
        if not seconds:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        (camera, camera_seconds), *_ = seconds.items()
        try:
            images = ReadableImages(
                lambda: self._layout.arrange(case.work.frames.at(camera, camera_seconds)),
                case.work.release_frames,
            )
        except MediaError as error:
            return error
        criteria = [criterion for criterion in case.criteria if criterion.claim]
        legend = self._layout.legend(camera_seconds)
        prompts = [build_prompt(criterion, case.text, legend) for criterion in criteria]
        requests = [self._request(images, prompt) for prompt in prompts]
        return _Questions(criteria=criteria, seconds=camera_seconds, requests=requests)

    def _request(self, images: Sequence[NDArray[np.uint8]], prompt: str) -> VlmRequest:
        schema = _ClaimReply.model_json_schema() if "schema" in self._vlm.capabilities else None
        system = read_prompt(_PACKAGE, "grade_system")
        return VlmRequest(images=images, prompt=prompt, system=system, schema=schema)

    def _judgement(
        self, case: Case, questions: _Questions, replies: Sequence[VlmReply | VlmFailure]
    ) -> Judgement | PaidFailure:
        """A server that does not answer is no verdict: the caption stays ungraded, and the replies are kept."""
        paid = sum((reply.cost if isinstance(reply, VlmFailure) else reply.paid for reply in replies), Cost())
        failures = [reply for reply in replies if isinstance(reply, VlmFailure)]
        if failures:
            return PaidFailure(failures[0].error, paid)
        answered = [reply for reply in replies if isinstance(reply, VlmReply)]
        rulings = {
            criterion.id: self._ruling(criterion, reply, questions.seconds)
            for criterion, reply in zip(questions.criteria, answered, strict=True)
        }
        return Judgement(
            rulings=[
                rulings.get(criterion.id) or _unsupported_ruling(criterion, self.name)
                for criterion in case.criteria
            ],
            cost=sum((reply.cost for reply in answered), Cost()),
            paid=paid,
        )

    def _ruling(self, criterion: Criterion, reply: VlmReply, seconds: Sequence[float]) -> Ruling:
        verdict, observed, frames, reason = parse_reply(reply.text, len(seconds))
        return Ruling(
            criterion=criterion.id,
            verdict=verdict,
            source="claim",
            observed=observed,
            evidence=tuple(seconds[number - 1] for number in frames),
            judge=self.name,
            reason=reason,
            reply=reply.text,
        )


def _form_problem(reply: VlmReply, frames: int) -> str:
    verdict, _, _, reason = parse_reply(reply.text, frames)
    return reason if verdict is Verdict.ERROR else ""


def build_prompt(criterion: Criterion, caption: str, legend: str) -> str:
    """The prompt for one criterion; it contains the caption once, as an escaped JSON string."""
    data = json.dumps({"caption": caption}, ensure_ascii=True)
    # JSON does not escape markup; escaped, no tag or fence of the caption reaches the model's chat template.
    escaped = re.sub(r"[<>&`|]", lambda match: f"\\u{ord(match.group()):04x}", data)
    examples = "".join(
        f"{verdict}: {text}\n"
        for verdict, text in (("MET", criterion.passes), ("UNMET", criterion.fails))
        if text
    )
    return read_prompt(_PACKAGE, "grade").format(
        legend=legend, id=criterion.id, text=criterion.text, examples=examples, caption=escaped
    )


def parse_reply(reply: str, frames: int) -> tuple[Verdict, str, Sequence[int], str]:
    """Verdict, observation, frame numbers and reason of a reply; ERROR for a reply of another form.

    One pair of code fences is removed; nothing else is corrected. A verdict without a frame as evidence is UNSURE.
    """
    body = reply.strip()
    fenced = re.fullmatch(r"```(?:json)?\s*(.*?)\s*```", body, re.DOTALL)
    try:
        document = json.loads(
            fenced[1] if fenced else body,
            object_pairs_hook=_reject_duplicate_keys,
            parse_constant=_reject_constant,
        )
        claim_reply = _ClaimReply.model_validate(document)
    except (ValueError, RecursionError) as error:
        off_menu = isinstance(error, ValidationError)
        return Verdict.ERROR, "", (), "reply is off the menu" if off_menu else "reply is no JSON"
    if any(not 1 <= number <= frames for number in claim_reply.frames):
        return Verdict.ERROR, claim_reply.observation, (), "reply cites a frame that was not shown"
    if not claim_reply.frames and claim_reply.verdict != "UNSURE":
        return Verdict.UNSURE, claim_reply.observation, (), "reply cites no frame"
    return (
        Verdict(claim_reply.verdict),
        claim_reply.observation,
        claim_reply.frames,
        "judged by the frames cited",
    )


def _reject_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key comes twice")
    return dict(pairs)


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _unsupported_ruling(criterion: Criterion, judge: str) -> Ruling:
    return Ruling(
        criterion=criterion.id,
        verdict=Verdict.UNSURE,
        source="claim",
        judge=judge,
        reason="no claim check for this criterion",
    )
