"""How a text gets its grade: rulings by code, by the stored outcome, and by an unrelated judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.base import PaidFailure, Work
from annotators.grade.judge import GradeCase, Judge, Judgement
from annotators.grade.panel import model_family_error
from annotators.success import StoredOutcome, current_success_maker, read_stored_outcomes
from ares.annotation import Cost, Maker
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.rubric import (
    CHECKS,
    CheckInput,
    Criterion,
    ParsedCaption,
    Rubric,
    Ruling,
    Verdict,
    claims_slot,
    make_grade_value,
    parse_caption,
    slot_matches,
)

if TYPE_CHECKING:
    from ares.store import Stores


_ANNOTATOR = "success"
_SLOT = "outcome"
_NOT_STORED = (
    "no success is stored: the judge alone decides on OUTCOME; run ares annotate success before grade"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOutcomeSource:
    """Where the outcomes of episodes are read.

    Attributes:
        stores: Stores of the workspace.
        maker: The maker of success whose word counts, or None where the judge decides alone.
        families_file: The user's table of model families, or "".
    """

    stores: Stores
    maker: Maker | None
    families_file: str

    # The three names by which a judge and a captioner are compared.

    @property
    def name(self) -> str:
        """Portable name of the model of success, or ""."""
        return self.maker.model if self.maker else ""

    @property
    def family(self) -> str:
        """Its model family, or ""."""
        return str(self.settings.get("family", ""))

    @property
    def settings(self) -> Mapping[str, Json]:
        """Settings of the maker of success."""
        return self.maker.settings if self.maker else {}

    @property
    def maker_settings(self) -> dict[str, Json]:
        """What the maker of grades says of it: another success gives other grades."""
        return {"success": self.maker.maker_id if self.maker else ""}

    def read(self, works: Iterable[Work]) -> dict[str, StoredOutcome]:
        """The outcomes of episodes by episode_id; an episode without one is left out."""
        if self.maker is None:
            return {}
        return read_stored_outcomes(self.stores, self.maker, [work.episode.episode_id for work in works])

    def may_judge(self, captioner: Maker | None) -> bool:
        """Whether its model is of another family than that of the captions."""
        return captioner is None or model_family_error(self, captioner, self.families_file) is None

    def warnings(self, rubric: Rubric, captioners: Sequence[Maker]) -> list[str]:
        """What a person should know before a run: nothing is stored, or it may not be used for some captions."""
        if not any(criterion.slot == _SLOT for criterion in rubric.criteria):
            return []
        if self.maker is None:
            return [_NOT_STORED]
        related = sorted(captioner.model for captioner in captioners if not self.may_judge(captioner))
        return [
            f"the stored success by {self.name!r} is of the model family of captioner {model!r}: the judge alone "
            "decides on OUTCOME"
            for model in related
        ]


def open_outcome_source(stores: Stores, rubric: Rubric, families_file: str) -> StoredOutcomeSource:
    """The source of outcomes for the grades of a rubric; empty where the rubric does not ask for the outcome."""
    asks = any(criterion.slot == _SLOT for criterion in rubric.criteria)
    maker = current_success_maker(stores) if asks else None
    return StoredOutcomeSource(stores=stores, maker=maker, families_file=families_file)


def refuse_success_in_run(makers: Sequence[Maker]) -> None:
    """Raises RequestError where the run itself makes success: which of it is stored in time would be chance."""
    if any(maker.annotator == _ANNOTATOR for maker in makers):
        raise RequestError(
            "grade reads success that is stored",
            "success and grade in one command; run ares annotate success first",
        )


def rule_by_outcome(
    criterion: Criterion, slots: ParsedCaption, work: Work, outcome: StoredOutcome | None
) -> Ruling | None:
    """The ruling on a stated outcome that a stored one gives; None where it says nothing of it.

    A stored outcome is about the whole episode and its task: it says nothing of a segment, of another action, or of
    frames that were changed.

    Args:
        criterion: The criterion.
        slots: What the text claims.
        work: The work.
        outcome: The stored outcome of the episode, or None.
    """
    if criterion.slot != _SLOT or outcome is None:
        return None
    if not work.subject.is_whole_episode or work.frames.is_changed:
        return None
    if not _is_same_action(slots, parse_caption(outcome.task)):
        return None
    return _outcome_ruling(criterion, slots, outcome)


def _outcome_ruling(criterion: Criterion, slots: ParsedCaption, outcome: StoredOutcome) -> Ruling:
    verdict, reason, belief = _outcome_verdict(slots, outcome)
    return Ruling(
        criterion=criterion.id,
        verdict=verdict,
        source="stored",
        observed=f"probability {outcome.probability:.2f} of success without captions: {outcome.verdict}",
        evidence=outcome.frames,
        judge=outcome.judge,
        reason=reason,
        confidence=belief,
    )


def _is_same_action(claimed: ParsedCaption, task: ParsedCaption) -> bool:
    """Whether a text says what the task is, no more and no less; attributes and manner may differ."""
    return bool(task.verbs) and all(slot_matches(slot, claimed, task) for slot in ("verb", "complete"))


def _outcome_verdict(slots: ParsedCaption, outcome: StoredOutcome) -> tuple[Verdict, str, float | None]:
    if slots.outcome == "attempt":
        return Verdict.UNSURE, "caption states no outcome", None
    belief = outcome.probability if slots.outcome == "success" else round(1.0 - outcome.probability, 4)
    if outcome.verdict == "unsure":
        return Verdict.UNSURE, "the stored success is unsure", belief
    is_met = outcome.verdict == slots.outcome
    return (
        Verdict.MET if is_met else Verdict.UNMET,
        "the stored success fits the caption" if is_met else "the stored success says otherwise",
        belief,
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
    outcomes: StoredOutcomeSource


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
        value: grade, acceptable, score, grade_score, counts and rulings, see `ares.rubric.make_grade_value`.
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
    cases = [_make_case(text, grader.rubric) for text in texts]
    judgements = iter(grader.judge.judge([case for case in cases if case.criteria]))
    graded: list[GradeOutcome] = []
    for case in cases:
        judgement = next(judgements) if case.criteria else Judgement(rulings=(), cost=Cost(), paid=Cost())
        graded.append(_grade_case(case, judgement) if isinstance(judgement, Judgement) else judgement)
    return graded


def _make_case(text: Text, rubric: Rubric) -> GradeCase:
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
    return GradeCase(
        work=text.work,
        text=text.text,
        slots=slots,
        rubric=rubric,
        rulings=[ruling for ruling in rulings.values() if ruling],
        criteria=open_criteria,
    )


def _grade_case(case: GradeCase, judgement: Judgement) -> GradedText:
    by_id = {ruling.criterion: ruling for ruling in (*case.rulings, *judgement.rulings)}
    categories = case.rubric.categories
    value = make_grade_value(
        [{**by_id[name].to_json(), "category": category} for name, category in categories]
    )
    rulings = [by_id[name] for name, _ in categories]
    return GradedText(value=value, rulings=rulings, judgement=judgement)


def _rule_by_code(criterion: Criterion, subject: CheckInput) -> Ruling | None:
    """The ruling of code on a criterion, or None where the judge has to rule."""
    if criterion.applies_when == "stated" and not _is_slot_stated(criterion, subject.slots):
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


def _is_slot_stated(criterion: Criterion, slots: ParsedCaption) -> bool:
    return criterion.slot is not None and claims_slot(criterion.slot, slots)


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
