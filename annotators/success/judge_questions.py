"""The questions to a judge of success, and what its replies must be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ares.annotation import short_hash
from ares_annotators.models import VlmRequest
from ares_annotators.prompting import escape_json, read_json_reply, read_prompt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_PACKAGE = "ares_annotators.success"

_PROMPTS = ("system", "criteria", "outcome", "choice")

_MOST_CRITERIA, _LONGEST_TEXT, _MOST_FRAMES = 5, 2_000, 64

# Temperature of several votes; a single one is the most probable reply.
_VOTE_TEMPERATURE = 0.7

YES, NO = "yes", "no"

_Text = Annotated[str, StringConstraints(min_length=1, max_length=300)]

Judged = Literal["met", "unmet", "unsure"]

# The value of an answer in the share of votes.
VOTES = {"success": 1.0, "unsure": 0.5, "failure": 0.0}


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CriteriaReply(_Reply):
    """Criteria of a task."""

    criteria: list[_Text] = Field(min_length=1, max_length=_MOST_CRITERIA)


class OutcomeReply(_Reply):
    """One vote on the outcome."""

    observation: str = Field(max_length=_LONGEST_TEXT)
    conditions: list[Judged] = Field(max_length=_MOST_CRITERIA)
    frames: list[int] = Field(max_length=_MOST_FRAMES)
    outcome: Literal["success", "failure", "unsure"]


def hash_success_prompts() -> str:
    """Hash of all prompts."""
    return short_hash([read_prompt(_PACKAGE, name) for name in _PROMPTS])


def build_criteria_request(task: str, first_frame: NDArray[np.uint8]) -> VlmRequest:
    """What must be visible at the end of a task that is done."""
    prompt = read_prompt(_PACKAGE, "criteria").format(task=escape_json({"task": task}))
    return _question_request([first_frame], prompt, CriteriaReply)


def build_outcome_request(
    task: str, criteria: Sequence[str], images: Sequence[NDArray[np.uint8]], legend: str, votes: int
) -> VlmRequest:
    """How an attempt ended: one vote, or several that are sampled."""
    data = escape_json({"task": task, "conditions": [*criteria]})
    prompt = read_prompt(_PACKAGE, "outcome").format(task=data, legend=legend)
    sampling = {"samples": votes, "temperature": _VOTE_TEMPERATURE, "seed": 0} if votes > 1 else {}
    return _question_request(images, prompt, OutcomeReply, **sampling)


def build_choice_request(
    task: str, criteria: Sequence[str], images: Sequence[NDArray[np.uint8]], legend: str
) -> VlmRequest:
    """Whether the task is done, scored by the probabilities of "yes" and "no"."""
    data = escape_json({"task": task, "conditions": [*criteria]})
    prompt = read_prompt(_PACKAGE, "choice").format(task=data, legend=legend)
    system = read_prompt(_PACKAGE, "system")
    return VlmRequest(images=images, prompt=prompt, system=system, choices=(YES, NO), probabilities=True)


def parse_outcome_vote(text: str, images: int, criteria: int) -> OutcomeReply | None:
    """A vote; None where it has another form, cites an image that was not shown, or contradicts itself."""
    vote = read_json_reply(OutcomeReply, text)
    if isinstance(vote, str) or any(not 1 <= number <= images for number in vote.frames):
        return None
    if len(vote.conditions) != criteria or (vote.outcome == "success" and "unmet" in vote.conditions):
        return None
    return vote


def _question_request(
    images: Sequence[NDArray[np.uint8]], prompt: str, reply: type[_Reply], **sampling: float
) -> VlmRequest:
    system, schema = read_prompt(_PACKAGE, "system"), reply.model_json_schema()
    return VlmRequest(images=images, prompt=prompt, system=system, schema=schema, **sampling)  # type: ignore[arg-type]
