"""Refused captions asked again, and what their judge says of the new ones; nothing is stored but replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ares.annotation import Annotation, Cost
from ares.errors import NotTried, ServerError
from ares.store import batched, read_rulings
from ares_annotators.base import (
    MAX_REPEATED_FAILURES,
    Outcome,
    Result,
    Work,
    find_outcome_cost,
    find_outcome_error,
    make_annotation_subject,
    make_episode_subject,
    read_work,
)
from ares_annotators.caption import CaptionQuestion, ask_captioner
from ares_annotators.prompting import apply_in_batches
from ares_annotators.revise.critique import (
    build_critique,
    find_failed_criteria,
)

if TYPE_CHECKING:
    from ares.annotation import Producer
    from ares.episode import Json
    from ares.rubric import Criterion, Rubric
    from ares.store import Stores
    from ares_annotators.base import Budget
    from ares_annotators.caption import Captioner
    from ares_annotators.grade import GradeAnnotator


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedCaption:
    """A caption with its grade.

    Attributes:
        caption: The caption.
        grade: Its grade.
    """

    caption: Annotation
    grade: Annotation

    def meets(self, criteria: Sequence[str]) -> bool:
        """Whether it meets some criteria, as far as they apply to it; UNSURE and ERROR do not count as met."""
        verdicts = {item["criterion"]: item["verdict"] for item in read_rulings(self.grade.value)}
        return all(verdicts.get(name) in ("MET", "NA") for name in criteria)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisedCaption:
    """A caption before and after.

    Attributes:
        before: The refused caption.
        after: What the captioner made of it, with the grade of the same judge.
        new: What is stored where it is adopted: the caption and all of its grading; nothing where no word changed.
    """

    before: GradedCaption
    after: GradedCaption
    new: Sequence[Annotation]


@dataclass(slots=True)
class Spending:
    """What a revision has paid, and why work failed.

    Attributes:
        budget: Pays for the calls.
        cost: What was paid.
        failures: Number of failures by reason; work that the budget did not pay for has not failed.
        server_failures: How many outcomes in a row a server has failed.
    """

    budget: Budget
    cost: Cost = field(default_factory=Cost)
    failures: dict[str, int] = field(default_factory=dict)
    server_failures: int = 0

    @property
    def ended_by(self) -> str:
        """What ends the revision before all is done: "budget", "server" or ""."""
        if self.server_failures >= MAX_REPEATED_FAILURES:
            return "server"
        return "budget" if self.budget.is_spent else ""

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.cost = self.cost + find_outcome_cost(outcome)
        error = find_outcome_error(outcome)
        self.server_failures = self.server_failures + 1 if isinstance(error, ServerError) else 0
        if error and not isinstance(error, NotTried):
            self.failures[error.reason] = self.failures.get(error.reason, 0) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Who takes part in a revision, and what its captioner is not told.

    Attributes:
        stores: Stores of the workspace.
        first: Producer of the captions that are revised.
        captioner: The captioner that is asked again; its producer is that of the revised captions.
        judge: The judge of both sides.
        rubric: Its rubric.
        hidden: Criteria of which the captioner is not told.
        spending: What was paid.
    """

    stores: Stores
    first: Producer
    captioner: Captioner
    judge: GradeAnnotator
    rubric: Rubric
    hidden: Sequence[str]
    spending: Spending

    def find_failures(self, graded: GradedCaption) -> list[Criterion]:
        """What the captioner is told of a caption; nothing where it fails no gate that may be told."""
        return find_failed_criteria(graded.grade, self.rubric, self.hidden)


# Captions that are asked about at the same time.
_CAPTIONS_AT_ONCE = 64


def revise_captions(
    revision: Revision, refused: Sequence[GradedCaption], advance: Callable[[int], None]
) -> list[RevisedCaption]:
    """Ask for refused captions again, and judge what comes; a caption of which something failed is left out.

    Ends early where the budget is spent or the server is given up. Replies are kept: a second call pays for what is
    left.

    Args:
        revision: The revision.
        refused: The captions, of whole episodes.
        advance: Called with the number of captions that were done.
    """
    revised: list[RevisedCaption] = []
    for batch in batched(refused, _CAPTIONS_AT_ONCE):
        if revision.spending.ended_by:
            break
        revised += _judge_answers(revision, list(_ask_again(revision, batch)))
        advance(len(batch))
    return revised


class _Answer(NamedTuple):
    """A new caption, beside the refused one; the work has all frames of captioner and judge."""

    before: GradedCaption
    work: Work
    caption: Annotation


def _ask_again(revision: Revision, refused: Sequence[GradedCaption]) -> Iterator[_Answer]:
    """The new captions of those that were answered."""
    questions = [_make_question(revision, before) for before in refused]
    ask, vlm = partial(ask_captioner, revision.captioner), revision.captioner.vlm
    outcomes = apply_in_batches(ask, questions, vlm.batch_size, vlm.workers)
    for before, question, outcome in zip(refused, questions, outcomes, strict=True):
        revision.spending.add(outcome)
        if isinstance(outcome, Result):
            (caption,) = outcome.annotations
            criteria: list[Json] = [criterion.id for criterion in revision.find_failures(before)]
            value = {**caption.value, "revises": before.caption.annotation_id, "criteria": criteria}
            yield _Answer(before, question.work, replace(caption, value=value))


def _make_question(revision: Revision, before: GradedCaption) -> CaptionQuestion:
    """The question of a caption with what the former one does not meet."""
    episode = revision.stores.tables.episodes.get_episode(before.caption.episode_id)
    subject, text = make_episode_subject(episode), str(before.caption.value["text"])
    selected = [annotator.select_frames(subject) for annotator in (revision.judge, revision.captioner)]
    return CaptionQuestion(
        work=read_work(revision.stores, subject, selected),
        more=build_critique(text, before.grade, revision.find_failures(before)),
    )


def _judge_answers(revision: Revision, answers: Sequence[_Answer]) -> Iterator[RevisedCaption]:
    """The captions before and after; words that did not change keep the grade that they have."""
    judge, changed = revision.judge, list[_Answer]()
    for answer in answers:
        if answer.caption.value["text"] != answer.before.caption.value["text"]:
            changed.append(answer)
        else:
            after = replace(answer.before, caption=answer.caption)
            yield RevisedCaption(before=answer.before, after=after, new=())
    works = [
        replace(answer.work, subject=make_annotation_subject(answer.work.episode, answer.caption))
        for answer in changed
    ]
    graded = apply_in_batches(judge.captions.grade, works, judge.batch_size, judge.workers)
    for answer, item in zip(changed, graded, strict=True):
        outcome = item.result
        revision.spending.add(outcome)
        if isinstance(outcome, Result):
            (grade,) = [item for item in outcome.annotations if item.name == judge.producer.annotator]
            after = GradedCaption(caption=answer.caption, grade=grade)
            new = [answer.caption, *outcome.annotations]
            yield RevisedCaption(before=answer.before, after=after, new=new)
