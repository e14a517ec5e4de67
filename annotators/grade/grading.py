"""Grades texts by a rubric: by code and a stored outcome first, then by a judge what is open. Stores nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from annotators.base import PaidFailure, Work
from annotators.grade.judge import Case, Judge, Judgement
from annotators.grade.stored_outcome import OutcomeSource, rule_by_outcome
from annotators.success import StoredOutcome
from ares.annotation import Cost, Maker
from ares.episode import Json
from ares.errors import AresError
from ares.rubric import (
    CHECKS,
    CaptionSlots,
    CheckInput,
    Criterion,
    Rubric,
    Ruling,
    Verdict,
    grade_values,
    is_stated,
    parse_caption,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A rubric and a judge, and the maker of their grades.

    Attributes:
        rubric: The rubric.
        judge: The judge.
        maker: The maker of their grades.
        families_file: The user's table of model families, or "".
        outcomes: Where the outcomes of episodes are read.
    """

    rubric: Rubric
    judge: Judge
    maker: Maker
    families_file: str
    outcomes: OutcomeSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text that claims to describe an episode, or a segment of it.

    Attributes:
        work: The episode with the frames that the judge selects.
        text: The text.
        outcome: The stored outcome of the episode; None where the judge decides on it.
    """

    work: Work
    text: str
    outcome: StoredOutcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedText:
    """What a rubric makes of a text.

    Attributes:
        value: grade, acceptable, score, grade_score, counts and rulings, see `ares.rubric.grade_values`.
        rulings: The rulings in the order of the rubric.
        judgement: What the judge said; empty where code has ruled on everything.
    """

    value: dict[str, Json]
    rulings: Sequence[Ruling]
    judgement: Judgement


# A failure means that the judge could not be called: a retry may help.
GradeOutcome = GradedText | PaidFailure | AresError


def grade_texts(grader: Grader, texts: Sequence[Text]) -> list[GradeOutcome]:
    """The grades of texts, in order; the judge gets all their open criteria at once."""
    prepared = [_prepare(text, grader.rubric) for text in texts]
    judgements = iter(grader.judge.judge([text.case for text in prepared if text.is_open]))
    graded: list[GradeOutcome] = []
    for text in prepared:
        judgement = next(judgements) if text.is_open else Judgement(rulings=(), cost=Cost(), paid=Cost())
        graded.append(
            _grade(text, judgement, grader.rubric) if isinstance(judgement, Judgement) else judgement
        )
    return graded


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedText:
    """A text with the rulings of code, and the case of the criteria that the judge has to rule on."""

    case: Case
    code_rulings: Sequence[Ruling]

    @property
    def is_open(self) -> bool:
        """Whether there is a criterion for the judge."""
        return bool(self.case.criteria)


def _prepare(text: Text, rubric: Rubric) -> _PreparedText:
    slots = parse_caption(text.text)
    subject = CheckInput(text=text.text, slots=slots, trajectory=text.work.trajectory)
    rulings = {
        criterion.id: _rule_by_code(criterion, subject)
        or rule_by_outcome(criterion, slots, text.work, text.outcome)
        for criterion in rubric.criteria
    }
    pitfall = _failed_pitfall(rubric, rulings)
    if pitfall:
        # A caption that addresses the judge is not shown to it.
        rulings = {name: ruling or _unsure_after_pitfall(name, pitfall) for name, ruling in rulings.items()}
    open_criteria = [criterion for criterion in rubric.criteria if rulings[criterion.id] is None]
    case = Case(work=text.work, text=text.text, slots=slots, criteria=open_criteria)
    code_rulings = [ruling for ruling in rulings.values() if ruling]
    return _PreparedText(case=case, code_rulings=code_rulings)


def _grade(text: _PreparedText, judgement: Judgement, rubric: Rubric) -> GradedText:
    by_id = {ruling.criterion: ruling for ruling in (*text.code_rulings, *judgement.rulings)}
    value = grade_values(
        [{**by_id[name].to_json(), "category": category} for name, category in rubric.categories]
    )
    rulings = [by_id[name] for name, _ in rubric.categories]
    return GradedText(value=value, rulings=rulings, judgement=judgement)


def _rule_by_code(criterion: Criterion, subject: CheckInput) -> Ruling | None:
    """The ruling of code on a criterion, or None where the judge has to rule."""
    if criterion.applies_when == "stated" and not _stated(criterion, subject.slots):
        return Ruling(
            criterion=criterion.id, verdict=Verdict.NA, source="hard", reason="caption does not say"
        )
    outcomes = [CHECKS[name](subject) for name in criterion.hard]
    failed = next((outcome for outcome in outcomes if outcome.verdict is Verdict.UNMET), None)
    if failed:
        return Ruling(
            criterion=criterion.id,
            verdict=Verdict.UNMET,
            source="hard",
            reason=failed.reason,
            observed=failed.observed,
        )
    if criterion.slot or criterion.claim:
        return None
    met = any(outcome.verdict is Verdict.MET for outcome in outcomes)
    verdict, reason = (Verdict.MET, "checked by code") if met else (Verdict.NA, "no check applies")
    return Ruling(criterion=criterion.id, verdict=verdict, source="hard", reason=reason)


def _stated(criterion: Criterion, slots: CaptionSlots) -> bool:
    return criterion.slot is not None and is_stated(criterion.slot, slots)


def _failed_pitfall(rubric: Rubric, rulings: dict[str, Ruling | None]) -> str:
    """Id of a pitfall criterion that the caption does not meet, or ""."""
    for name, category in rubric.categories:
        ruling = rulings[name]
        if category == "pitfall" and ruling and ruling.verdict is Verdict.UNMET:
            return name
    return ""


def _unsure_after_pitfall(name: str, pitfall: str) -> Ruling:
    return Ruling(
        criterion=name, verdict=Verdict.UNSURE, source="hard", reason=f"not asked, {pitfall} is not met"
    )
