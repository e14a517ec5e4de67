"""What the recorded or the stored outcome of an episode says of a caption."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from annotators.base import Subject, Work
from annotators.grade.panel import model_family_error
from annotators.success import StoredOutcome, current_success_producer, read_stored_outcomes
from ares.annotation import Producer
from ares.episode import Json
from ares.rubric import (
    COMPLETED,
    GATES,
    NOT_COMPLETED,
    NOT_VISIBLE,
    Criterion,
    Rubric,
    Ruling,
    SlotName,
    SlotValues,
    Verdict,
    count_actions,
    is_same_value,
    normalize_caption,
    read_slots_by_tables,
    slots_from_json,
)

if TYPE_CHECKING:
    from ares.store import Stores


_SLOT: SlotName = "outcome"
# Slots in which a text says what a task is.
_SAME_ACTION: tuple[SlotName, ...] = ("action", "object", "from", "to")
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
    """Whether a text has the action, the object and the places of a task, and as many actions; all else may differ."""
    claimed, of_task = normalize_caption(text.text), read_slots_by_tables(task, verbs)
    if claimed.is_negated or not of_task.get("action"):
        return False
    if claimed.phrase == normalize_caption(task).phrase:
        return True
    return count_actions(text.text) == count_actions(task) and all(
        is_same_value(slot, text.slots.get(slot, ""), of_task.get(slot, "")) for slot in _SAME_ACTION
    )
