"""How a text gets its grade: rulings by code, by the stored outcome, and by an unrelated judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ares.annotation import Producer
from ares.episode import Json
from ares.errors import AresError
from ares.rubric import (
    CHECKS,
    SLOTS,
    CheckInput,
    Criterion,
    Rubric,
    Ruling,
    SlotValues,
    Verdict,
    make_grade_value,
    normalize_caption,
)
from ares_annotators.base import PaidFailure
from ares_annotators.grade.additions import find_extra_words
from ares_annotators.grade.judge import GradeCase, Judge, Judgement
from ares_annotators.grade.outcome_rulings import Text, rule_by_outcome
from ares_annotators.grade.outcome_source import StoredOutcomeSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A rubric and a judge, and the producer of their grades.

    Attributes:
        rubric: The rubric.
        judge: The judge.
        producer: The producer of their grades.
        outcomes: Where the outcomes of episodes are read.
        verbs: The guide of verbs.
    """

    rubric: Rubric
    judge: Judge
    producer: Producer
    outcomes: StoredOutcomeSource
    verbs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedText:
    """What a rubric makes of a text.

    Attributes:
        value: The grade with its rulings, see `ares.rubric.make_grade_value`.
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
    cases = [_make_case(text, grader) for text in texts]
    judgements = iter(grader.judge.judge([case for case in cases if case.criteria]))
    graded: list[GradeOutcome] = []
    for case in cases:
        judgement = next(judgements) if case.criteria else Judgement(rulings=())
        graded.append(_grade_case(case, judgement) if isinstance(judgement, Judgement) else judgement)
    return graded


def _make_case(text: Text, grader: Grader) -> GradeCase:
    rubric = grader.rubric
    checked = CheckInput(text=text.text, slots=text.slots, trajectory=text.work.trajectory)
    extra_words = find_extra_words(text.text, text.slots, grader.verbs)
    rulings = {
        criterion.id: _rule_by_code(criterion, checked, is_control=text.is_control)
        or rule_by_outcome(criterion, text)
        for criterion in rubric.criteria
    }
    open_criteria = [criterion for criterion in rubric.criteria if rulings[criterion.id] is None]
    return GradeCase(
        work=text.work,
        slots=text.slots,
        extra_words=extra_words,
        phrase=normalize_caption(text.text).phrase,
        rubric=rubric,
        rulings=[ruling for ruling in rulings.values() if ruling],
        criteria=open_criteria,
        is_control=text.is_control,
    )


def _grade_case(case: GradeCase, judgement: Judgement) -> GradedText:
    by_id = {ruling.criterion: ruling for ruling in (*case.rulings, *judgement.rulings)}
    categories = case.rubric.categories
    value = make_grade_value(
        [{**by_id[name].to_json(), "category": category} for name, category in categories]
    )
    rulings = [by_id[name] for name, _ in categories]
    return GradedText(value=value, rulings=rulings, judgement=judgement)


def _rule_by_code(criterion: Criterion, subject: CheckInput, *, is_control: bool) -> Ruling | None:
    """The ruling of code on a criterion, or None where the judge has to rule."""
    claimed = _claimed_value(criterion, subject.slots)
    unstated = Ruling(
        criterion=criterion.id,
        verdict=Verdict.NA,
        source="hard",
        slot=criterion.slot or "",
        reason="caption does not say",
    )
    if criterion.applies_when == "stated" and not claimed:
        return unstated
    outcomes = [] if is_control else [CHECKS[name](subject) for name in criterion.hard]
    failed = next((outcome for outcome in outcomes if outcome.verdict is Verdict.UNMET), None)
    if failed:
        _, reason, observed = failed
        return replace(unstated, verdict=Verdict.UNMET, claimed=claimed, reason=reason, observed=observed)
    if criterion.slot or criterion.claim:
        return None
    met = any(outcome.verdict is Verdict.MET for outcome in outcomes)
    verdict, reason = (Verdict.MET, "checked by code") if met else (Verdict.NA, "no check applies")
    return replace(unstated, verdict=verdict, reason=reason)


def _claimed_value(criterion: Criterion, slots: SlotValues) -> str:
    return slots.get(criterion.slot, "") if criterion.slot in SLOTS else ""
