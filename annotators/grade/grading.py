"""How a text gets its grade: rulings by code, by the stored outcome, and by an unrelated judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from annotators.base import PaidFailure, Subject, Work
from annotators.grade.additions import find_extra_words, rule_on_extra_words
from annotators.grade.judge import GradeCase, Judge, Judgement
from annotators.grade.panel import model_family_error
from annotators.success import StoredOutcome, current_success_producer, read_stored_outcomes
from ares.annotation import Producer
from ares.episode import Json
from ares.errors import AresError
from ares.rubric import (
    CHECKS,
    COMPLETED,
    GATES,
    NOT_COMPLETED,
    NOT_VISIBLE,
    SLOTS,
    CheckInput,
    Criterion,
    Rubric,
    Ruling,
    SlotName,
    SlotValues,
    Verdict,
    count_actions,
    is_same_value,
    make_grade_value,
    normalize_caption,
    read_slots_by_tables,
    slots_from_json,
)

if TYPE_CHECKING:
    from ares.store import Stores


_ANNOTATOR = "success"
_SLOT: SlotName = "outcome"
# Slots in which a text says what a task is.
_SAME_ACTION: tuple[SlotName, ...] = ("action", "object", "from", "to")
_MOST_WORDS = 12
_NOT_STORED = (
    "no success is stored, and not every episode has one of its source: the judge alone decides on OUTCOME there; "
    "run ares annotate success grade"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOutcomeSource:
    """Where the outcomes of episodes are read.

    Attributes:
        stores: Stores of the workspace.
        producer: The producer of success whose verdict counts, or None where the judge decides alone.
        families_file: The user's table of model families, or "".
    """

    stores: Stores
    producer: Producer | None
    families_file: str

    # The three names by which a judge and a captioner are compared.

    @property
    def name(self) -> str:
        """Portable name of the model of success, or ""."""
        return self.producer.model if self.producer else ""

    @property
    def family(self) -> str:
        """Its model family, or ""."""
        return str(self.settings.get("family", ""))

    @property
    def settings(self) -> Mapping[str, Json]:
        """Settings of the producer of success."""
        return self.producer.settings if self.producer else {}

    @property
    def producer_settings(self) -> dict[str, Json]:
        """What the producer of grades says of it: another success gives other grades."""
        return {"success": self.producer.maker_id if self.producer else ""}

    def read(self, works: Iterable[Work]) -> dict[str, StoredOutcome]:
        """The outcomes of episodes by episode_id; an episode without one is left out."""
        if self.producer is None:
            return {}
        return read_stored_outcomes(self.stores, self.producer, [work.episode.episode_id for work in works])

    def may_judge(self, captioner: Producer | None) -> bool:
        """Whether its model is of another family than that of the captions."""
        return captioner is None or model_family_error(self, captioner, self.families_file) is None

    def warnings(self, rubric: Rubric, captioners: Sequence[Producer]) -> list[str]:
        """What a person should know before a run: nothing is stored, or it may not be used for some captions."""
        if not any(criterion.slot == _SLOT for criterion in rubric.criteria):
            return []
        if self.producer is None:
            return [_NOT_STORED] if self.stores.tables.episodes.count("success IS NULL") else []
        related = sorted(captioner.model for captioner in captioners if not self.may_judge(captioner))
        return [
            f"the stored success by {self.name!r} is of the model family of captioner {model!r}: the judge alone "
            "decides on OUTCOME"
            for model in related
        ]


def open_outcome_source(stores: Stores, rubric: Rubric, families_file: str) -> StoredOutcomeSource:
    """The source of outcomes for the grades of a rubric; empty where the rubric does not ask for the outcome."""
    asks = any(criterion.slot == _SLOT for criterion in rubric.criteria)
    producer = current_success_producer(stores) if asks else None
    return StoredOutcomeSource(stores=stores, producer=producer, families_file=families_file)


def rule_by_outcome(criterion: Criterion, text: Text, verbs: Mapping[str, str]) -> Ruling | None:
    """The ruling on a stated outcome that a recorded or a stored one gives; None where neither says anything of it.

    Both are about the whole episode and its task: they say nothing of a segment, nor of frames that were changed.

    Args:
        criterion: The criterion.
        text: The caption.
        verbs: The guide of verbs.
    """
    work, claimed = text.work, text.slots.get(_SLOT, "")
    if criterion.slot != _SLOT or claimed not in (COMPLETED, NOT_COMPLETED):
        return None
    if not work.subject.is_whole_episode or work.frames.is_changed:
        return None
    recorded = work.episode.success
    if recorded is not None and not text.hides_label:
        observed = COMPLETED if recorded else NOT_COMPLETED
        return _stored_ruling(criterion, claimed, observed, "the source says so", 1.0)
    if text.outcome is None or not _is_same_action(text, text.outcome.task, verbs):
        return None
    return _model_ruling(criterion, claimed, text.outcome)


def is_refuted_by_label(subject: Subject, rubric: Rubric) -> bool:
    """Whether a caption states another outcome than the source records, so that nothing but its slots is asked about.

    What a sentence without slots states is what word tables read, before a model of texts has filled its slots.
    """
    recorded, caption = subject.episode.success, subject.annotation
    if recorded is None or caption is None or not subject.is_whole_episode:
        return False
    if not any(item.slot == _SLOT and item.category in GATES for item in rubric.criteria):
        return False
    slots = slots_from_json(caption.value.get("slots"))
    stated = read_slots_by_tables(str(caption.value.get("text", "")), {}) if slots is None else slots
    return stated.get(_SLOT, "") == (NOT_COMPLETED if recorded else COMPLETED)


def _stored_ruling(criterion: Criterion, claimed: str, observed: str, reason: str, margin: float) -> Ruling:
    return Ruling(
        criterion=criterion.id,
        verdict=Verdict.MET if claimed == observed else Verdict.UNMET,
        source="stored",
        slot=_SLOT,
        claimed=claimed,
        observed=observed,
        reason=reason,
        margin=margin,
    )


def _model_ruling(criterion: Criterion, claimed: str, outcome: StoredOutcome) -> Ruling:
    """The ruling by a success that a model has judged without captions."""
    observed = {"success": COMPLETED, "failure": NOT_COMPLETED}.get(outcome.verdict, NOT_VISIBLE)
    belief = outcome.probability if claimed == COMPLETED else round(1.0 - outcome.probability, 4)
    fits = (
        "the stored success fits the caption" if claimed == observed else "the stored success says otherwise"
    )
    is_open = observed == NOT_VISIBLE
    ruling = _stored_ruling(criterion, claimed, observed, fits, max(belief, round(1.0 - belief, 4)))
    return replace(
        ruling,
        verdict=Verdict.UNSURE if is_open else ruling.verdict,
        reason="the stored success is unsure" if is_open else fits,
        evidence=outcome.frames,
        judge=outcome.judge,
        confidence=belief,
    )


def _is_same_action(text: Text, task: str, verbs: Mapping[str, str]) -> bool:
    """Whether a text says what the task is, no more and no less; attributes and manner may differ."""
    claimed, of_task = normalize_caption(text.text), read_slots_by_tables(task, verbs)
    if claimed.is_negated or not of_task.get("action"):
        return False
    if claimed.phrase == normalize_caption(task).phrase:
        return True
    return count_actions(text.text) == count_actions(task) and all(
        is_same_value(slot, text.slots.get(slot, ""), of_task.get(slot, "")) for slot in _SAME_ACTION
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A rubric and a judge, and the producer of their grades.

    Attributes:
        rubric: The rubric.
        judge: The judge.
        producer: The producer of their grades.
        families_file: The user's table of model families, or "".
        outcomes: Where the outcomes of episodes are read.
        verbs: The guide of verbs.
    """

    rubric: Rubric
    judge: Judge
    producer: Producer
    families_file: str
    outcomes: StoredOutcomeSource
    verbs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text that claims to describe an episode, or a segment of it.

    Attributes:
        work: The episode with the frames that the judge selects.
        text: The text.
        slots: What it states.
        outcome: The stored outcome of the episode; None where the judge decides on it.
        hides_label: Whether the outcome that the source records must not be used, so that the judge is measured.
        only: The slot that alone is ruled on; "" for all criteria.
    """

    work: Work
    text: str
    slots: SlotValues
    outcome: StoredOutcome | None = None
    hides_label: bool = False
    only: str = ""


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
        criterion.id: _leave_out(criterion, text.only)
        or _rule_by_code(criterion, checked)
        or _rule_on_additions(criterion, extra_words, text.slots)
        or rule_by_outcome(criterion, text, grader.verbs)
        for criterion in rubric.criteria
    }
    pitfall = _failed_pitfall(rubric, rulings)
    if pitfall:
        # Nothing of a caption that addresses the judge is shown to it.
        rulings = {name: ruling or _unsure_after_pitfall(name, pitfall) for name, ruling in rulings.items()}
    open_criteria = [criterion for criterion in rubric.criteria if rulings[criterion.id] is None]
    return GradeCase(
        work=text.work,
        slots=text.slots,
        extra_words=extra_words[:_MOST_WORDS],
        phrase=normalize_caption(text.text),
        rubric=rubric,
        rulings=[ruling for ruling in rulings.values() if ruling],
        criteria=open_criteria,
    )


def _leave_out(criterion: Criterion, only: str) -> Ruling | None:
    """That a criterion does not apply where another slot alone is ruled on."""
    if not only or criterion.slot == only:
        return None
    return Ruling(
        criterion=criterion.id,
        verdict=Verdict.NA,
        source="hard",
        slot=criterion.slot or "",
        reason=f"only {only} is asked",
    )


def _rule_on_additions(criterion: Criterion, words: Sequence[str], slots: SlotValues) -> Ruling | None:
    """What code says of words that no slot bears: nothing more, or a doubt; None where a model of texts is asked."""
    if criterion.slot != "additions":
        return None
    problem = rule_on_extra_words(words, slots)
    if words and not problem:
        return None
    return Ruling(
        criterion=criterion.id,
        verdict=Verdict.UNSURE if problem else Verdict.MET,
        source="hard",
        slot="additions",
        observed=", ".join(words[:_MOST_WORDS]),
        reason=problem or "every word is borne by a slot",
        margin=0.0 if problem else 1.0,
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
            criterion=criterion.id,
            verdict=Verdict.NA,
            source="hard",
            slot=criterion.slot or "",
            reason="caption does not say",
        )
    outcomes = [CHECKS[name](subject) for name in criterion.hard]
    failed = next((outcome for outcome in outcomes if outcome.verdict is Verdict.UNMET), None)
    if failed:
        return Ruling(
            criterion=criterion.id,
            verdict=Verdict.UNMET,
            source="hard",
            slot=criterion.slot or "",
            claimed=_claimed_value(criterion, subject.slots),
            reason=failed.reason,
            observed=failed.observed,
        )
    if criterion.slot or criterion.claim:
        return None
    met = any(outcome.verdict is Verdict.MET for outcome in outcomes)
    verdict, reason = (Verdict.MET, "checked by code") if met else (Verdict.NA, "no check applies")
    return Ruling(criterion=criterion.id, verdict=verdict, source="hard", reason=reason)


def _is_slot_stated(criterion: Criterion, slots: SlotValues) -> bool:
    return bool(_claimed_value(criterion, slots))


def _claimed_value(criterion: Criterion, slots: SlotValues) -> str:
    return slots.get(criterion.slot, "") if criterion.slot in SLOTS else ""


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
