"""A vision-language model as judge of success."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ares.annotation import Cost
from ares.errors import AresError, MediaError, ModelError
from ares_annotators.base import CameraSeconds, PaidFailure, Preflight, Subject
from ares_annotators.caption import compute_even_seconds
from ares_annotators.examples import ConfirmedExamples, ShownExamples, find_examples
from ares_annotators.models import (
    Capability,
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
from ares_annotators.prompting import read_json_reply
from ares_annotators.success.combination import Attempt, OutcomeParts, choose_judged_cameras
from ares_annotators.success.judge_questions import (
    VOTES,
    YES,
    OutcomeReply,
    build_choice_request,
    build_outcome_request,
    hash_success_prompts,
    parse_outcome_vote,
)
from ares_annotators.success.task_criteria import TaskCriteria

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.settings import Price
    from ares.store import Stores


MAX_NEW_TOKENS = 400
# Frames of the last part of an episode, of each camera, beside its start.
_LAST_FRAMES, _LAST_SHARE = 3, 0.1
# A server gets at most this many cameras: the first are the best views.
_MOST_CAMERAS = 4
# For estimates only.
_PROMPT_TOKENS, _REPLY_TOKENS, _CHOICE_TOKENS = 350, 120, 2
_TEST_TASK, _TEST_CRITERIA = "open the drawer", ("the drawer is open",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Views:
    """The images of an attempt.

    Attributes:
        images: Start and last images of every camera, in the order of the question.
        sources: Camera and second of each.
        legend: What each is, for the prompt.
    """

    images: Sequence[NDArray[np.uint8]]
    sources: Sequence[tuple[str, float]]
    legend: str


class ModelOutcomeJudge:
    """A vision-language model that says how an attempt ended.

    Args:
        vlm: The model.
        stores: Stores of the workspace, which keep the criteria of tasks.
        camera: Camera name, or "" for every good one.
        votes: Answers that are asked for.
        price: What the tokens of a server cost; None where that is not known.
        examples: Outcomes of other episodes that it is shown, or None.

    Raises:
        RequestError: The model cannot give JSON of a schema, or several replies where several votes are asked for.
    """

    def __init__(
        self,
        vlm: Vlm,
        stores: Stores,
        camera: str,
        votes: int,
        price: Price | None = None,
        examples: ConfirmedExamples | None = None,
    ) -> None:
        self._vlm, self._camera, self._votes = vlm, camera, votes
        self._price, self._examples = price, examples
        self._criteria = TaskCriteria(vlm, stores)
        self.name, self.family = vlm.name, vlm.family
        self.batch_size, self.workers = vlm.batch_size, vlm.workers
        self.prompt_hash = hash_success_prompts()
        self._has_probabilities = {"choices", "probabilities"} <= vlm.capabilities
        self._asks_choice = self._has_probabilities
        self.settings: dict[str, Json] = {
            **vlm.settings,
            "votes": votes,
            "has_probabilities": self._has_probabilities,
        }

    def require_capabilities(self) -> None:
        """Raises RequestError where the model cannot do what it will be asked: before anything is paid."""
        needed: dict[Capability, bool] = {"schema": True, "samples": self._votes > 1}
        capabilities = frozenset(name for name, is_needed in needed.items() if is_needed)
        require_capabilities(self._vlm, capabilities, "success")

    @property
    def warnings(self) -> Sequence[str]:
        """That a model gives no probabilities."""
        if self._has_probabilities:
            return ()
        return (f"{self.name} gives no probabilities of its answers: success rests on its votes alone",)

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """Enough attempts that their questions keep the server busy."""
        return call_limit(self._vlm, 2.0 if self._has_probabilities else 1.0)

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """Start and last frames of every camera."""
        seconds = {}
        for camera in choose_judged_cameras(subject, self._camera)[:_MOST_CAMERAS]:
            (first,) = compute_even_seconds(camera, 1, subject=subject)
            span = max(_LAST_FRAMES, round(_LAST_SHARE * camera.media.num_frames))
            last = compute_even_seconds(camera, _LAST_FRAMES, last_frames=span, subject=subject)
            seconds[camera.name] = sorted({first, *last})
        return seconds

    def preflight(self) -> Preflight:
        """A vote on frames without content, in the form asked for, and a scored answer where the model has them.

        A server that sends no probabilities is not asked for scored answers again.
        """
        self.require_capabilities()
        images = list(grey_frames(1 + _LAST_FRAMES))
        legend = _image_legend([("front", 0.0)] * len(images))
        vote = make_test_call(
            self._vlm, build_outcome_request(_TEST_TASK, _TEST_CRITERIA, images, legend, 1), _form_problem
        )
        if not self._has_probabilities or call_limit(self._vlm) is None:
            return vote
        (scored,) = self._vlm.ask([build_choice_request(_TEST_TASK, _TEST_CRITERIA, images, legend)])
        if isinstance(scored, VlmReply):
            return replace(vote, cost=vote.cost + scored.paid)
        self._asks_choice = False
        warning = f"success rests on votes alone, because a scored answer failed: {scored.error}"
        return Preflight(cost=vote.cost + scored.cost, warnings=[*vote.warnings, warning])

    def estimate(self, subject: Subject) -> Cost:
        """Votes and the scored answer; criteria are paid once per task and not counted."""
        cameras = choose_judged_cameras(subject, self._camera)[:_MOST_CAMERAS]
        name = str(self._vlm.settings.get("served_from") or self.name)
        sizes = [(camera.height, camera.width) for camera in cameras for _ in range(1 + _LAST_FRAMES)]
        questions = 2 if self._has_probabilities else 1
        shown = self._examples.expect_tokens(name, subject) if self._examples else 0
        tokens_in = questions * (estimate_image_tokens(name, sizes) + _PROMPT_TOKENS + shown)
        tokens_out = self._votes * _REPLY_TOKENS + (questions - 1) * _CHOICE_TOKENS
        usd = price_usd(self._price, tokens_in, tokens_out) if call_limit(self._vlm) else 0.0
        return Cost(calls=questions, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)

    def judge(self, attempts: Sequence[Attempt]) -> Sequence[OutcomeParts | PaidFailure | AresError]:
        """Parts of every attempt; the questions of one attempt are asked at once."""
        shown = find_examples(self._examples, [attempt.work for attempt in attempts])
        return [self._judge(attempt, own) for attempt, own in zip(attempts, shown, strict=True)]

    def _judge(self, attempt: Attempt, shown: ShownExamples) -> OutcomeParts | PaidFailure | AresError:
        views = self._views(attempt)
        if isinstance(views, AresError):
            return views
        criteria, paid = self._criteria.read(attempt.task, views.images[0])
        if isinstance(criteria, ModelError):
            return PaidFailure(criteria, paid)
        replies = self._vlm.ask(self._requests(attempt.task, criteria, views, shown))
        paid = sum((reply.cost if isinstance(reply, VlmFailure) else reply.paid for reply in replies), paid)
        vote, *others = replies
        # Without a readable vote there is no verdict; what else cannot be used is left out.
        failures = [
            reply.error
            for reply in replies
            if isinstance(reply, VlmFailure) and (reply is vote or not reply.is_unusable_reply)
        ]
        if failures or isinstance(vote, VlmFailure):
            return PaidFailure(failures[0], paid)
        scored = next((reply for reply in others if isinstance(reply, VlmReply)), None)
        return self._parts(criteria, views, shown, vote, scored, paid)

    def _requests(
        self, task: str, criteria: Sequence[str], views: _Views, shown: ShownExamples
    ) -> list[VlmRequest]:
        questions = [build_outcome_request(task, criteria, views.images, views.legend, self._votes)]
        if self._asks_choice:
            questions.append(build_choice_request(task, criteria, views.images, views.legend))
        return [shown.add_to(question) for question in questions]

    def _views(self, attempt: Attempt) -> _Views | AresError:
        subject, frames = attempt.work.subject, attempt.work.frames
        cameras = self.select_frames(subject)
        if not cameras:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        try:
            images = ReadableImages(
                lambda: [image for name, seconds in cameras.items() for image in frames.at(name, seconds)],
                attempt.work.release_frames,
            )
        except MediaError as error:
            return error
        sources = [(name, second) for name, seconds in cameras.items() for second in seconds]
        return _Views(images=images, sources=sources, legend=_image_legend(sources))

    def _parts(
        self,
        criteria: Sequence[str],
        views: _Views,
        shown: ShownExamples,
        vote: VlmReply,
        scored: VlmReply | None,
        paid: Cost,
    ) -> OutcomeParts | PaidFailure:
        """The votes must be readable; the scored answer may be missing."""
        texts = vote.samples or (vote.text,)
        votes = [parse_outcome_vote(text, len(views.images), len(criteria)) for text in texts]
        readable = [vote for vote in votes if vote is not None]
        if not readable:
            detail = f"{self.name} replied {texts[0][:200]!r}"
            return PaidFailure(ModelError("no vote on success can be read", detail), paid)
        # An unreadable vote is half a vote for each side, as is the half that keeps a single vote from certainty.
        total = sum(VOTES[vote.outcome] for vote in readable) + 0.5 * (len(votes) - len(readable))
        parts = {"outcome_vote": (total + 0.5) / (len(votes) + 1)}
        if scored is not None and scored.probabilities:
            parts["outcome_token"] = scored.probabilities[YES]
        cited = sorted({number for answer in readable for number in answer.frames})
        details: dict[str, Json] = {
            "criteria": [*criteria],
            "observation": readable[0].observation,
            "conditions": [*readable[0].conditions],
            "votes": [vote.outcome if vote else "unreadable" for vote in votes],
            "replies": [*texts],
        }
        if shown.episode_ids:
            details["examples"] = [*shown.episode_ids]
        return OutcomeParts(
            parts=parts,
            evidence=[views.sources[number - 1] for number in cited],
            details=details,
            cost=sum((reply.cost for reply in (vote, scored) if reply), Cost()),
            paid=paid,
        )


def _form_problem(reply: VlmReply) -> str:
    read = read_json_reply(OutcomeReply, reply.text)
    return "the vote has another form" if isinstance(read, str) else ""


def _image_legend(sources: Sequence[tuple[str, float]]) -> str:
    names = list(dict.fromkeys(name for name, _ in sources))
    images = "; ".join(
        f"{number} {escape_camera_name(name)} at {second:.2f} s"
        for number, (name, second) in enumerate(sources, 1)
    )
    return f"{len(sources)} images of {len(names)} cameras, the first of each camera is the start: {images}."


def escape_camera_name(name: str) -> str:
    """The name of a camera, which is a text of the dataset, with nothing in it that is markup."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)
