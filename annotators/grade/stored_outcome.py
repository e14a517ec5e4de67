"""OUTCOME from the stored success of an episode: a second opinion on how it ended, from more than one model's look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.base import Work
from annotators.grade.kinship import kinship_error
from annotators.success import StoredOutcome, current_success_maker, read_outcomes
from ares.annotation import Maker
from ares.errors import RequestError
from ares.rubric import CaptionSlots, Criterion, Rubric, Ruling, Verdict, parse_caption, slot_matches

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores

_ANNOTATOR = "success"
_SLOT = "outcome"
_NOT_STORED = (
    "no success is stored: the judge alone decides on OUTCOME; run ares annotate success before grade"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeSource:
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
        return read_outcomes(self.stores, self.maker, [work.episode.episode_id for work in works])

    def may_judge(self, captioner: Maker | None) -> bool:
        """Whether its model is of another family than that of the captions."""
        return captioner is None or kinship_error(self, captioner, self.families_file) is None

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


def open_outcome_source(stores: Stores, rubric: Rubric, families_file: str) -> OutcomeSource:
    """The source of outcomes for the grades of a rubric; empty where the rubric does not ask for the outcome."""
    asks = any(criterion.slot == _SLOT for criterion in rubric.criteria)
    maker = current_success_maker(stores) if asks else None
    return OutcomeSource(stores=stores, maker=maker, families_file=families_file)


def refuse_success_in_run(makers: Sequence[Maker]) -> None:
    """Raises RequestError where the run itself makes success: which of it is stored in time would be chance."""
    if any(maker.annotator == _ANNOTATOR for maker in makers):
        raise RequestError(
            "grade reads success that is stored",
            "success and grade in one command; run ares annotate success first",
        )


def rule_by_outcome(
    criterion: Criterion, slots: CaptionSlots, work: Work, outcome: StoredOutcome | None
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
    return _ruling(criterion, slots, outcome)


def _ruling(criterion: Criterion, slots: CaptionSlots, outcome: StoredOutcome) -> Ruling:
    verdict, reason, belief = _verdict(slots, outcome)
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


def _is_same_action(claimed: CaptionSlots, task: CaptionSlots) -> bool:
    """Whether a text says what the task is, no more and no less; attributes and manner may differ."""
    return bool(task.verbs) and all(slot_matches(slot, claimed, task) for slot in ("verb", "complete"))


def _verdict(slots: CaptionSlots, outcome: StoredOutcome) -> tuple[Verdict, str, float | None]:
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
