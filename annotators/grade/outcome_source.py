"""Where the stored outcomes of episodes are read, and for whose captions they count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.annotation import Producer
from ares.rubric import Rubric
from ares_annotators.base import Work
from ares_annotators.models import model_family_error
from ares_annotators.success import StoredOutcome, current_success_producer, read_stored_outcomes

if TYPE_CHECKING:
    from ares.store import Stores


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

    def read(self, works: Iterable[Work]) -> dict[str, StoredOutcome]:
        """The outcomes of episodes by episode_id; an episode without one is left out."""
        if self.producer is None:
            return {}
        return read_stored_outcomes(self.stores, self.producer, [work.episode.episode_id for work in works])

    def may_judge(self, captioner: Producer | None) -> bool:
        """Whether its model is of another family than that of the captions."""
        if captioner is None or self.producer is None:
            return True
        return model_family_error(self.producer, captioner, self.families_file) is None


def open_outcome_source(stores: Stores, rubric: Rubric, families_file: str) -> StoredOutcomeSource:
    """The source of outcomes for the grades of a rubric; empty where the rubric does not ask for the outcome."""
    asks_for_outcome = any(criterion.slot == "outcome" for criterion in rubric.criteria)
    producer = current_success_producer(stores) if asks_for_outcome else None
    return StoredOutcomeSource(stores=stores, producer=producer, families_file=families_file)
