"""Refused captions asked again, and what their judge says of the new ones; nothing is stored but replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from annotators.base import (
    MAX_REPEATED_FAILURES,
    Frames,
    Outcome,
    PaidFailure,
    Result,
    Work,
    find_outcome_cost,
    make_annotation_subject,
    make_episode_subject,
)
from annotators.caption import CaptionQuestion, ask_captioner, choose_camera
from annotators.prompting import apply_in_batches
from annotators.revise.critique import (
    FailedCriterion,
    build_critique,
    choose_evidence_seconds,
    find_failed_criteria,
)
from ares.annotation import Annotation, Cost
from ares.clock import needs_timestamps
from ares.errors import AresError, NotTried, ServerError
from ares.store import batched

if TYPE_CHECKING:
    from annotators.base import Budget, CameraSeconds
    from annotators.caption import Captioner
    from annotators.grade import GradeAnnotator
    from ares.annotation import Producer
    from ares.episode import Episode, Json
    from ares.rubric import Rubric
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedCaption:
    """A caption with its grade.

    Attributes:
        caption: The caption.
        grade: Its grade.
    """

    caption: Annotation
    grade: Annotation

    @property
    def is_accepted(self) -> bool:
        """Whether the judge accepts it, with every veto; no decision is not."""
        return self.grade.value["acceptable"] is True

    def meets(self, criteria: Sequence[str]) -> bool:
        """Whether it meets some criteria, as far as they apply to it; UNSURE and ERROR do not count as met."""
        rulings = self.grade.value["rulings"]
        assert isinstance(rulings, list)
        verdicts = {item["criterion"]: item["verdict"] for item in rulings if isinstance(item, dict)}
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
        error = outcome.error if isinstance(outcome, PaidFailure) else outcome
        self.server_failures = self.server_failures + 1 if isinstance(error, ServerError) else 0
        if isinstance(error, AresError) and not isinstance(error, NotTried):
            self.failures[error.reason] = self.failures.get(error.reason, 0) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Who takes part in a revision, and what its captioner is not told.

    Attributes:
        stores: Stores of the workspace.
        first: Producer of the captions that are revised.
        captioner: The captioner that is asked again; its producer is that of the revised captions.
        judge: The judge of both sides.
        graded_by: Producer of the grades so far; another than the judge's only in a quote, see `quote_revision`.
        rubric: Its rubric.
        hidden: Criteria of which the captioner is not told.
        spending: What was paid.
    """

    stores: Stores
    first: Producer
    captioner: Captioner
    judge: GradeAnnotator
    graded_by: Producer
    rubric: Rubric
    hidden: Sequence[str]
    spending: Spending

    def find_failures(self, graded: GradedCaption) -> list[FailedCriterion]:
        """What the captioner is told of a caption; nothing where it fails no gate that may be told."""
        return find_failed_criteria(graded.grade, self.rubric, self.hidden)


# Episodes whose frames are held at the same time.
_EPISODES_AT_ONCE = 64


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
    for batch in batched(refused, _EPISODES_AT_ONCE):
        if revision.spending.ended_by:
            break
        questions = list(_read_questions(revision, batch))
        revised += _judge_answers(revision, _ask_again(revision, questions))
        advance(len(batch))
    return revised


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A refused caption as it is asked about.

    Attributes:
        before: The caption with its grade.
        criteria: What the captioner is told.
        evidence: The frames that show it; none where no camera is known.
        work: The episode, with all frames of captioner and judge.
    """

    before: GradedCaption
    criteria: Sequence[FailedCriterion]
    evidence: CameraSeconds
    work: Work


def _read_questions(revision: Revision, refused: Sequence[GradedCaption]) -> Iterator[_Question]:
    """The questions about captions; the frames are decoded."""
    tables, captions = revision.stores.tables, {item.caption.episode_id: item for item in refused}
    signals = dict(tables.trajectories.read(list(captions)))
    for episode in tables.episodes.get(list(captions)):
        before, trajectory = captions[episode.episode_id], signals.get(episode.episode_id)
        criteria = revision.find_failures(before)
        evidence = _select_evidence(before.grade, criteria, episode)
        subject = make_episode_subject(episode)
        selected = [annotator.select_frames(subject) for annotator in (revision.judge, revision.captioner)]
        stamps = trajectory.timestamps if trajectory and needs_timestamps(episode) else None
        frames = Frames(episode, [*selected, evidence], stamps)
        frames.decode()
        work = Work(subject=subject, frames=frames, trajectory=trajectory)
        yield _Question(before=before, criteria=criteria, evidence=evidence, work=work)


def _select_evidence(
    grade: Annotation, criteria: Sequence[FailedCriterion], episode: Episode
) -> CameraSeconds:
    """The frames that show failures, of the best camera where the judge had several."""
    best = choose_camera(episode, "")
    camera = grade.camera or (best.name if best else "")
    seconds = choose_evidence_seconds(criteria)
    return {camera: seconds} if camera and seconds else {}


def _ask_again(revision: Revision, questions: Sequence[_Question]) -> Iterator[tuple[_Question, Annotation]]:
    """The new captions of questions that were answered."""
    ask, vlm = partial(ask_captioner, revision.captioner), revision.captioner.vlm
    with_critique = [_add_critique(question) for question in questions]
    outcomes = apply_in_batches(ask, with_critique, vlm.batch_size, vlm.workers)
    for question, outcome in zip(questions, outcomes, strict=True):
        revision.spending.add(outcome)
        if isinstance(outcome, Result):
            (caption,) = outcome.annotations
            criteria: list[Json] = [criterion.id for criterion in question.criteria]
            revises = question.before.caption.annotation_id
            value = {**caption.value, "revises": revises, "criteria": criteria}
            yield question, replace(caption, value=value)


def _add_critique(question: _Question) -> CaptionQuestion:
    """The question of a caption with what the former one does not meet."""
    shown = [second for seconds in question.evidence.values() for second in seconds]
    critique = build_critique(str(question.before.caption.value["text"]), question.criteria, shown)
    return CaptionQuestion(work=question.work, more=critique, more_frames=question.evidence)


def _judge_answers(
    revision: Revision, answers: Iterator[tuple[_Question, Annotation]]
) -> Iterator[RevisedCaption]:
    """The captions before and after; words that did not change keep the grade that they have."""
    judge, changed = revision.judge, []
    for question, caption in answers:
        if caption.value["text"] != question.before.caption.value["text"]:
            changed.append((question, caption))
        else:
            after = replace(question.before, caption=caption)
            yield RevisedCaption(before=question.before, after=after, new=())
    works = [
        replace(question.work, subject=make_annotation_subject(question.work.episode, caption))
        for question, caption in changed
    ]
    graded = apply_in_batches(judge.grade_captions, works, judge.batch_size, judge.workers)
    for (question, caption), item in zip(changed, graded, strict=True):
        outcome = item.result
        revision.spending.add(outcome)
        if isinstance(outcome, Result):
            (grade,) = [item for item in outcome.annotations if item.name == judge.producer.annotator]
            after = GradedCaption(caption=caption, grade=grade)
            yield RevisedCaption(before=question.before, after=after, new=[caption, *outcome.annotations])
