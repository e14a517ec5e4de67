"""What a maker of entailments gives: three probabilities for each slot of a caption against an observed action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from annotators.base import PaidFailure
from ares.annotation import Cost
from ares.episode import Json


@dataclass(frozen=True, slots=True)
class Entailment:
    """How sure it is that a claim follows from what was observed; the three add up to 1.

    Attributes:
        entailed: Probability that the claim is true where the observation is.
        contradicted: Probability that it is then false.
        neutral: Probability that the observation says neither.
    """

    entailed: float
    contradicted: float
    neutral: float


NEUTRAL = Entailment(0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEntailment:
    """A caption against one observed action.

    Attributes:
        slots: Entailment by slot of the caption ("verb", "object", ...); a slot that is not there is NEUTRAL.
        outcome: Probability of each outcome that the caption may state, by its name; empty where it was not read.
        cost: What it cost, whenever it was paid.
        paid: What was paid for it now.
    """

    slots: Mapping[str, Entailment]
    outcome: Mapping[str, float] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)

    def slot(self, name: str) -> Entailment:
        """The entailment of one slot."""
        return self.slots.get(name, NEUTRAL)


class EntailmentModel(Protocol):
    """A model that compares texts, and sees no frames."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """What makes its answers what they are, for the maker of grades."""

    @property
    def most_pairs(self) -> int:
        """Most observed actions that one caption is compared with; the likeliest come first."""

    def compare(
        self, pairs: Sequence[tuple[str, str]], slots: Sequence[Sequence[str]]
    ) -> Sequence[PairEntailment | PaidFailure]:
        """The entailment of pairs (observed action, caption), in the slots that are asked of each pair.

        A failure means that the model could not be called, and that a retry may help.
        """
