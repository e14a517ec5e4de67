"""A vision-language model as judge: one request per criterion, with the caption as quoted data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from annotators.base import CameraSeconds, PaidFailure, Preflight, Subject
from annotators.caption import FrameLayout
from annotators.grade.judge import GradeCase, JudgeFrames, Judgement
from annotators.models import (
    Vlm,
    VlmFailure,
    VlmReply,
    VlmRequest,
    call_limit,
    estimate_image_tokens,
    grey_frames,
    make_test_call,
    price_usd,
)
from annotators.prompting import read_json_reply, read_prompt
from ares.annotation import Cost, Maker, short_hash
from ares.errors import AresError
from ares.rubric import Criterion, Ruling, Verdict
from ares.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MAX_NEW_TOKENS = 300
_PACKAGE = "annotators.grade"
# For estimates only.
_PROMPT_TOKENS, _REPLY_TOKENS = 350, 80
# Share of claims whose evidence is checked, and how often each is asked again; for estimates only.
_CONTESTED_SHARE, _CHECKS_PER_CLAIM = 0.25, 2
_GREY = 128
# Questions that most captions leave to the model.
_CALLS_PER_CASE = 4
_MOST_CITED_FRAMES, _LONGEST_OBSERVATION = 64, 4_000


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRuling:
    """A ruling whose evidence was checked.

    Attributes:
        ruling: The ruling; UNSURE where its verdict does not depend on the frames that it cites.
        cost: What the check cost, whenever it was paid.
        paid: What was paid for it now.
    """

    ruling: Ruling
    cost: Cost
    paid: Cost


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
    observation_makers: Sequence[Maker] = ()

    def __init__(self, vlm: Vlm, layout: FrameLayout, camera: str, settings: Settings, remote: bool) -> None:
        self._vlm, self._layout, self._camera = vlm, layout, camera
        self._frames = JudgeFrames(layout, camera)
        self._price = settings.price
        self._remote = remote
        self.name, self.family = vlm.name, vlm.family
        self.settings = {**vlm.settings, "has_schema": "schema" in vlm.capabilities, "checks_evidence": True}
        self.batch_size, self.workers = vlm.batch_size, vlm.workers
        self.prompt_hash = short_hash([read_prompt(_PACKAGE, "grade"), read_prompt(_PACKAGE, "grade_system")])

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames that the layout takes."""
        return self._frames.select(subject)

    def estimate(self, subject: Subject, criteria: Sequence[Criterion]) -> Cost:
        """One call per criterion that a model can check, and two more for claims that it contests."""
        claims = sum(criterion.claim for criterion in criteria)
        calls = round(claims * (1 + _CONTESTED_SHARE * _CHECKS_PER_CLAIM))
        name = str(self._vlm.settings.get("served_from") or self.name)
        image_tokens = estimate_image_tokens(name, self._layout.image_sizes(subject, self._camera))
        tokens_in = calls * (image_tokens + _PROMPT_TOKENS)
        tokens_out = calls * _REPLY_TOKENS
        usd = price_usd(self._price, tokens_in, tokens_out) if self._remote else 0.0
        return Cost(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)

    def estimate_observation(self, subject: Subject) -> Cost:
        """Nothing: it knows the caption always."""
        return Cost()

    estimate_changed_frames = estimate_observation

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """Enough cases that their questions keep the server busy."""
        return call_limit(self._vlm, _CALLS_PER_CASE)

    def preflight(self) -> Preflight:
        """One question about frames without content, whose reply has to be of the form asked for."""
        images = self._layout.arrange(grey_frames(self._layout.count))
        legend = self._layout.legend([float(second) for second in range(self._layout.count)])
        criterion = Criterion(
            id="TEST", text="The frames show a robot arm.", category="essential", claim=True
        )
        request = self._request(images, build_criterion_prompt(criterion, "Open the drawer.", legend))
        return make_test_call(self._vlm, request, lambda reply: _form_problem(reply, self._layout.count))

    def judge(self, cases: Sequence[GradeCase]) -> Sequence[Judgement | PaidFailure | AresError]:
        """Rulings, one call per criterion of all cases at once; then the evidence of every UNMET is checked."""
        judgements = self._ask(cases)
        contested = [
            [ruling for ruling in judgement.rulings if ruling.verdict is Verdict.UNMET]
            if isinstance(judgement, Judgement)
            else []
            for judgement in judgements
        ]
        claims = [
            (case, ruling) for case, rulings in zip(cases, contested, strict=True) for ruling in rulings
        ]
        checks = iter(self.check_evidence(claims))
        return [
            _with_checks(judgement, [next(checks) for _ in rulings])
            if isinstance(judgement, Judgement)
            else judgement
            for judgement, rulings in zip(judgements, contested, strict=True)
        ]

    def _ask(self, cases: Sequence[GradeCase]) -> list[Judgement | PaidFailure | AresError]:
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

    def check_evidence(
        self, claims: Sequence[tuple[GradeCase, Ruling]]
    ) -> list[CheckedRuling | PaidFailure | AresError]:
        """Ask about claims again without the frames that the ruling cites, and on blank frames.

        A ruling whose verdict stays the same does not rest on its evidence: it becomes UNSURE, with that reason.

        Args:
            claims: Rulings of this judge, each with its case.
        """
        prepared = [self._requests_without_evidence(case, ruling) for case, ruling in claims]
        requests = [
            request for requests in prepared if not isinstance(requests, AresError) for request in requests
        ]
        replies = iter(self._vlm.ask(requests) if requests else ())
        return [
            requests
            if isinstance(requests, AresError)
            else self._checked(case, ruling, [next(replies) for _ in requests])
            for (case, ruling), requests in zip(claims, prepared, strict=True)
        ]

    def _requests_without_evidence(self, case: GradeCase, ruling: Ruling) -> list[VlmRequest] | AresError:
        """The question on blank frames, and before it with the cited frames masked where others are left."""
        frames = self._frames.read_pixels(case.work)
        if isinstance(frames, AresError):
            return frames
        (seconds,) = self.select_frames(case.work.subject).values()
        cited = [second in ruling.evidence for second in seconds]
        criterion = next(item for item in case.criteria if item.id == ruling.criterion)
        prompt = build_criterion_prompt(criterion, case.text, self._layout.legend(seconds))
        masks = [[True] * len(cited)] if all(cited) else [cited, [True] * len(cited)]
        return [self._request(self._layout.arrange(_mask_frames(frames, mask)), prompt) for mask in masks]

    def _checked(
        self, case: GradeCase, ruling: Ruling, replies: Sequence[VlmReply | VlmFailure]
    ) -> CheckedRuling | PaidFailure:
        paid = sum((reply.cost if isinstance(reply, VlmFailure) else reply.paid for reply in replies), Cost())
        failures = [reply for reply in replies if isinstance(reply, VlmFailure)]
        if failures:
            return PaidFailure(failures[0].error, paid)
        answered = [reply for reply in replies if isinstance(reply, VlmReply)]
        frames = len(next(iter(self.select_frames(case.work.subject).values())))
        same = [parse_reply(reply.text, frames)[0] is ruling.verdict for reply in answered]
        if any(same):
            reason = "same verdict on blank frames" if same[-1] else "same verdict without the frames cited"
            ruling = replace(ruling, verdict=Verdict.UNSURE, reason=reason)
        return CheckedRuling(ruling=ruling, cost=sum((reply.cost for reply in answered), Cost()), paid=paid)

    def _questions(self, case: GradeCase) -> _Questions | AresError:
        read = self._frames.read(case.work)
        if isinstance(read, AresError):
            return read
        criteria = [criterion for criterion in case.criteria if criterion.claim]
        legend = self._layout.legend(read.seconds)
        prompts = [build_criterion_prompt(criterion, case.text, legend) for criterion in criteria]
        requests = [self._request(read.images, prompt) for prompt in prompts]
        return _Questions(criteria=criteria, seconds=read.seconds, requests=requests)

    def _request(self, images: Sequence[NDArray[np.uint8]], prompt: str) -> VlmRequest:
        schema = _ClaimReply.model_json_schema() if "schema" in self._vlm.capabilities else None
        system = read_prompt(_PACKAGE, "grade_system")
        return VlmRequest(images=images, prompt=prompt, system=system, schema=schema)

    def _judgement(
        self, case: GradeCase, questions: _Questions, replies: Sequence[VlmReply | VlmFailure]
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


def _mask_frames(frames: NDArray[np.uint8], mask: Sequence[bool]) -> NDArray[np.uint8]:
    """(N, H, W, 3) frames, grey where a mask of N says so."""
    import numpy as np

    masked = np.array(frames)
    masked[np.array(mask)] = _GREY
    return masked


def _with_checks(
    judgement: Judgement, checks: Sequence[CheckedRuling | PaidFailure | AresError]
) -> Judgement | PaidFailure | AresError:
    """A judgement whose contested rulings were checked; a check that could not be made fails it."""
    paid = judgement.paid + sum((check.paid for check in checks if isinstance(check, CheckedRuling)), Cost())
    failures = [check for check in checks if not isinstance(check, CheckedRuling)]
    if failures:
        paid += sum((failure.cost for failure in failures if isinstance(failure, PaidFailure)), Cost())
        first = failures[0]
        return PaidFailure(first.error if isinstance(first, PaidFailure) else first, paid)
    checked = {check.ruling.criterion: check for check in checks if isinstance(check, CheckedRuling)}
    return replace(
        judgement,
        rulings=[
            checked[ruling.criterion].ruling if ruling.criterion in checked else ruling
            for ruling in judgement.rulings
        ],
        cost=judgement.cost + sum((check.cost for check in checked.values()), Cost()),
        paid=paid,
    )


def _form_problem(reply: VlmReply, frames: int) -> str:
    verdict, _, _, reason = parse_reply(reply.text, frames)
    return reason if verdict is Verdict.ERROR else ""


def build_criterion_prompt(criterion: Criterion, caption: str, legend: str) -> str:
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
    claim_reply = read_json_reply(_ClaimReply, reply)
    if isinstance(claim_reply, str):
        return Verdict.ERROR, "", (), claim_reply
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


def _unsupported_ruling(criterion: Criterion, judge: str) -> Ruling:
    return Ruling(
        criterion=criterion.id,
        verdict=Verdict.UNSURE,
        source="claim",
        judge=judge,
        reason="no claim check for this criterion",
    )
