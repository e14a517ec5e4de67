"""Judge: what rules on the criteria that code leaves open, and the cases that are put to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from annotators.base import Seconds, Work
from annotators.vlm import Model
from ares.annotation import Cost
from ares.episode import Episode
from ares.errors import AresError
from ares.rubric.rubric import Criterion
from ares.rubric.slots import Slots
from ares.rubric.verdict import Ruling


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A caption to judge, and the criteria that are still open.

    Attributes:
        work: The episode's frames; its instruction and its success are no evidence and no judge reads them.
        text: The caption.
        slots: What it claims.
        criteria: Criteria to rule on.
    """

    work: Work
    text: str
    slots: Slots
    criteria: Sequence[Criterion]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One ruling per open criterion, and what they took."""

    rulings: Sequence[Ruling]
    cost: Cost


class Judge(Model, Protocol):
    """A model that rules on captions, but not on those by its own kin."""

    @property
    def prompt_hash(self) -> str:
        """Hash of its prompts, or "" where the rubric holds them all."""

    def wants(self, episode: Episode) -> Seconds:
        """Frames that it needs."""

    def judge(self, cases: Sequence[Case]) -> Sequence[Judged | AresError]:
        """One result per case; an error means that the model could not be asked, and that asking again may help."""

    def estimate(self, criteria: Sequence[Criterion]) -> Cost:
        """Expected cost of one case."""
