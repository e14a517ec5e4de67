"""A vision-language model as judge: one request per criterion, with the caption as quoted data."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from annotators.base import Subject
from annotators.caption import FrameLayout, select_frame_seconds
from annotators.grade.judge import Case, Judgement
from annotators.models import Vlm, VlmReply, VlmRequest, price_usd
from annotators.prompts import read_prompt
from annotators.runner import CameraSeconds
from ares.annotation import Cost, short_hash
from ares.errors import AresError, MediaError
from ares.rubric import Criterion, Ruling, Verdict
from ares.settings import Settings

MAX_NEW_TOKENS = 300
_PACKAGE = "annotators.grade"
# For estimates only.
_TOKENS_PER_IMAGE, _PROMPT_TOKENS, _REPLY_TOKENS = 400, 350, 80


class _ClaimReply(BaseModel):
    """The form of a reply; anything else is not a verdict."""

    model_config = ConfigDict(extra="forbid", strict=True)

    observation: str
    frames: list[int]
    verdict: Literal["MET", "UNMET", "UNSURE"]


class ClaimJudge:
    """Claim checks by a vision-language model; fills the protocol `annotators.grade.judge.Judge`.

    Args:
        vlm: The model.
        layout: How frames are arranged for it.
        camera: Camera name, or "" for the best one.
        settings: Price, for estimates.
        remote: Whether its calls cost money.
    """

    # It reads captions; nothing is on offer.
    menu_hash = ""

    def __init__(self, vlm: Vlm, layout: FrameLayout, camera: str, settings: Settings, remote: bool) -> None:
        self._vlm, self._layout, self._camera = vlm, layout, camera
        self._price = settings.price
        self._remote = remote
        self.name, self.family = vlm.name, vlm.family
        self.batch_size, self.workers = vlm.batch_size, vlm.workers
        self.prompt_hash = short_hash([read_prompt(_PACKAGE, "grade"), read_prompt(_PACKAGE, "grade_system")])

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames that the layout takes."""
        return select_frame_seconds(subject, self._camera, self._layout.count)

    def estimate(self, criteria: Sequence[Criterion]) -> Cost:
        """One call per criterion that a model can check."""
        calls = sum(criterion.claim for criterion in criteria)
        images = 1 if self._layout.name == "collage" else self._layout.count
        tokens_in = calls * (images * _TOKENS_PER_IMAGE + _PROMPT_TOKENS)
        tokens_out = calls * _REPLY_TOKENS
        usd = price_usd(self._price, tokens_in, tokens_out) if self._remote else 0.0
        return Cost(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)

    def judge(self, cases: Sequence[Case]) -> Sequence[Judgement | AresError]:
        """Rulings, one call per criterion."""
        return [self._judge_case(case) for case in cases]

    def _judge_case(self, case: Case) -> Judgement | AresError:
        seconds = self.select_frames(case.work.subject)
        if not seconds:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        (camera, camera_seconds), *_ = seconds.items()
        try:
            images = self._layout.arrange(case.work.frames.at(camera, camera_seconds))
        except MediaError as error:
            return error
        criteria = [criterion for criterion in case.criteria if criterion.claim]
        legend, system = self._layout.legend(camera_seconds), read_prompt(_PACKAGE, "grade_system")
        requests = [
            VlmRequest(images=images, prompt=build_prompt(criterion, case.text, legend), system=system)
            for criterion in criteria
        ]
        replies = list(self._vlm.generate(requests))
        # A server that does not answer is no verdict: the caption stays ungraded.
        for reply in replies:
            if isinstance(reply, AresError):
                return reply
        vlm_replies = [reply for reply in replies if isinstance(reply, VlmReply)]
        rulings = {
            criterion.id: self._ruling(criterion, reply, camera_seconds)
            for criterion, reply in zip(criteria, vlm_replies, strict=True)
        }
        cost = sum((reply.cost for reply in vlm_replies), Cost())
        return Judgement(
            rulings=[
                rulings.get(criterion.id) or _unsupported_ruling(criterion, self.name)
                for criterion in case.criteria
            ],
            cost=cost,
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
