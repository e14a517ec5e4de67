"""A vision-language model answers fields: one call for all, and one more for those without a usable answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ares.annotation import Cost, short_hash
from ares.errors import AresError, MediaError, ModelError
from ares_annotators.attributes.answers import AnsweredFields, AttributeAnswer
from ares_annotators.attributes.fields import AttributeField
from ares_annotators.attributes.questions import (
    count_reply_tokens,
    expect_reply_tokens,
    make_prompt,
    make_schema,
    read_answer,
    read_members,
)
from ares_annotators.base import PaidFailure, Preflight, Subject, Work
from ares_annotators.caption import (
    CaptionLayout,
    FramePlan,
    count_prompt_tokens,
    plan_frames,
    plan_test_frames,
)
from ares_annotators.examples import ConfirmedExamples, ShownExamples, find_examples
from ares_annotators.models import (
    ReadableImages,
    Vlm,
    VlmFailure,
    VlmReply,
    VlmRequest,
    call_limit,
    estimate_image_tokens,
    grey_frames,
    make_test_call,
    price_usd,
    require_capabilities,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.settings import Price
    from ares_annotators.base import CameraSeconds


_TEST_SIDE = 256


@dataclass(slots=True)
class _OpenWork:
    """A work, what is still to be asked about it, what was answered, and what that has cost."""

    work: Work
    plan: FramePlan
    examples: ShownExamples
    open: list[AttributeField]
    answers: dict[str, AttributeAnswer] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)
    error: AresError | None = None


class ModelAnswers:
    """Answers by a vision-language model.

    Args:
        vlm: The model.
        fields: The fields.
        view: Layout of the frames that it gets and name of the camera, see `ares_annotators.caption.plan_frames`.
        price: What the tokens of a server cost; None where that is not known.
        examples: Answers of other episodes that it is shown, or None.

    Raises:
        RequestError: The model cannot give JSON of a schema.
    """

    def __init__(
        self,
        vlm: Vlm,
        fields: Sequence[AttributeField],
        view: tuple[CaptionLayout, str],
        price: Price | None,
        examples: ConfirmedExamples | None = None,
    ) -> None:
        require_capabilities(vlm, frozenset({"schema"}), "attributes")
        self._vlm, self._fields = vlm, list(fields)
        self._layout, self._camera = view
        self._price, self._examples = price, examples
        self.name, self.batch_size, self.workers = vlm.name, vlm.batch_size, vlm.workers
        self.family, self.prompt_hash = vlm.family, short_hash(make_prompt(fields, "", ""))
        self.settings: Mapping[str, Json] = {**vlm.settings, "temperature": 0, "family": vlm.family}
        self.call_limit = call_limit(vlm)

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of a subject that it gets; none where the episode lacks the camera."""
        return self._plan(subject).by_camera

    def _plan(self, subject: Subject) -> FramePlan:
        return replace(plan_frames(subject, self._layout, self._camera), is_numbered=True)

    def preflight(self) -> Preflight:
        """A reply about frames without content, in the form asked for."""
        plan = replace(plan_test_frames(self._layout, _TEST_SIDE, _TEST_SIDE), is_numbered=True)
        images = plan.arrange(lambda camera, seconds: grey_frames(len(seconds)))
        return make_test_call(self._vlm, self._request(self._fields, plan, images, ""), self._form_problem)

    def _form_problem(self, reply: VlmReply) -> str:
        members = read_members(reply.text)
        return "" if any(item.name in members for item in self._fields) else "no field is answered"

    def estimate(self, subject: Subject) -> Cost:
        """One call with all fields."""
        plan = self._plan(subject)
        name = str(self._vlm.settings.get("served_from") or self.name)
        prompt = make_prompt(self._fields, plan.legend() if plan.views else "", subject.episode.instruction)
        tokens_in = estimate_image_tokens(name, plan.image_sizes()) + count_prompt_tokens(prompt)
        if self._examples:
            tokens_in += self._examples.expect_tokens(name, subject)
        tokens_out = expect_reply_tokens(self._fields)
        usd = price_usd(self._price, tokens_in, tokens_out) if self.call_limit else 0.0
        return Cost(calls=1, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)

    def answer(self, works: Sequence[Work]) -> list[AnsweredFields | PaidFailure | AresError]:
        """The answers of each work; all are asked at once, then what has no usable answer yet."""
        subjects = [
            _OpenWork(work, self._plan(work.subject), shown, list(self._fields))
            for work, shown in zip(works, find_examples(self._examples, works), strict=True)
        ]
        for _ in range(2):
            self._ask([subject for subject in subjects if subject.open and subject.error is None])
        return [self._finish(subject) for subject in subjects]

    def _ask(self, subjects: Sequence[_OpenWork]) -> None:
        """Ask what is open of each, and note what is answered."""
        requests = [self._prepare(subject) for subject in subjects]
        sent = [request for request in requests if isinstance(request, VlmRequest)]
        replies = iter(self._vlm.ask(sent) if sent else ())
        for subject, request in zip(subjects, requests, strict=True):
            if isinstance(request, AresError):
                subject.error = request
            else:
                self._read(subject, next(replies))

    def _prepare(self, subject: _OpenWork) -> VlmRequest | AresError:
        work, plan = subject.work, subject.plan
        if not plan.views:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        try:
            images = ReadableImages(lambda: plan.arrange(work.frames.at), work.release_frames)
        except MediaError as error:
            return error
        request = subject.examples.add_to(self._request(subject.open, plan, images, work.episode.instruction))
        # The same question would get the reply that is kept.
        problems = "".join(f"\nAn earlier reply had {why}: {name}." for name, why in subject.problems.items())
        return replace(request, prompt=request.prompt + problems)

    def _request(
        self,
        fields: Sequence[AttributeField],
        plan: FramePlan,
        images: Sequence[NDArray[np.uint8]],
        instruction: str,
    ) -> VlmRequest:
        return VlmRequest(
            images=images,
            prompt=make_prompt(fields, plan.legend(), instruction),
            schema=make_schema(fields, len(plan.shown_seconds)),
            max_tokens=count_reply_tokens(fields),
        )

    def _read(self, subject: _OpenWork, reply: VlmReply | VlmFailure) -> None:
        subject.cost += reply.cost
        subject.paid += reply.cost if isinstance(reply, VlmFailure) else reply.paid
        if isinstance(reply, VlmFailure) and not reply.is_unusable_reply:
            # There was no reply. The one before is kept: the next run asks for the rest alone.
            subject.error = reply.error
            return
        members, still_open = read_members(reply.text), []
        for item in subject.open:
            answer = read_answer(item, members, subject.plan.shown_seconds)
            if isinstance(answer, str):
                subject.problems[item.name] = answer
                still_open.append(item)
            else:
                subject.answers[item.name] = answer
                subject.problems.pop(item.name, None)
        subject.open = still_open

    def _finish(self, subject: _OpenWork) -> AnsweredFields | PaidFailure | AresError:
        error, answers = subject.error, subject.answers
        if error is None and not answers:
            reasons = ", ".join(subject.problems.values())[:200]
            error = ModelError("no field is answered", f"{self.name}: {reasons}")
        if error is not None:
            return PaidFailure(error, subject.paid) if subject.paid.calls else error
        ordered = {item.name: answers[item.name] for item in self._fields if item.name in answers}
        return AnsweredFields(
            answers=ordered,
            problems=subject.problems,
            cost=subject.cost,
            paid=subject.paid,
            examples=subject.examples.episode_ids,
        )
