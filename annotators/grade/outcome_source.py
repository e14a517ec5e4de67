"""Where the stored outcomes of episodes are read, and for whose captions they count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.base import Work
from annotators.grade.judge_families import model_family_error
from annotators.success import StoredOutcome, current_success_producer, read_stored_outcomes
from ares.annotation import Producer
from ares.episode import Json
from ares.rubric import Rubric

if TYPE_CHECKING:
    from ares.store import Stores


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
        if not _asks_for_outcome(rubric):
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
    producer = current_success_producer(stores) if _asks_for_outcome(rubric) else None
    return StoredOutcomeSource(stores=stores, producer=producer, families_file=families_file)


def _asks_for_outcome(rubric: Rubric) -> bool:
    return any(criterion.slot == "outcome" for criterion in rubric.criteria)
