"""The criteria by which captions are graded, read from YAML, versioned and hashed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from ares.annotation import Column, canonical_json
from ares.errors import RequestError, SourceError, first_fault
from ares.input import parse_yaml
from ares.rubric.slots import SlotName
from ares.rubric.verdict import RESERVED_CRITERIA, Category, verdict_column

# Part of the hash; to be changed when any field changes its meaning.
_HASH_DOMAIN = "ares-rubric-2"

# A slot of a caption, what its sentence says beside all slots, and what it leaves out; of the caption of a segment also
# whose span it is of.
CriterionSlot = SlotName | Literal["additions", "complete", "span"]
AppliesWhen = Literal["always", "stated"]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Criterion(_StrictModel):
    """One atomic yes-or-no question about a caption.

    Attributes:
        id: Short capital name ("VERB").
        text: The condition for MET.
        category: "essential" and "pitfall" decide acceptance; the others only change the score.
        applies_when: "always", or "stated": only where the caption makes a claim in the slot.
        hard: Names of checks in code that may decide it, in order; see `CHECKS`.
        slot: Slot of the caption that it is about, "additions" (what the sentence says beside its slots), "complete"
            (what it leaves out), "span" of a segment, or None.
        claim: Whether a judge that compares whole phrases rules on it, where it is about no slot.
        passes: Example of a caption that passes.
        fails: Example of a caption that fails.
    """

    id: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2,16}$")]
    text: str = Field(min_length=10)
    category: Category
    applies_when: AppliesWhen = "always"
    hard: tuple[str, ...] = ()
    slot: CriterionSlot | None = None
    claim: bool = False
    passes: str = ""
    fails: str = ""

    @model_validator(mode="after")
    def _check_deciders(self) -> Criterion:
        if self.id in RESERVED_CRITERIA:
            raise ValueError(
                f"criterion {self.id} would have the column grade_{self.id.lower()}; give another id"
            )
        if not (self.hard or self.slot or self.claim):
            raise ValueError(f"criterion {self.id} has nothing that decides it; give hard, slot or claim")
        if self.applies_when == "stated" and self.slot is None:
            raise ValueError(f"criterion {self.id} applies when its slot is stated, but has no slot")
        return self


class Rubric(_StrictModel):
    """A versioned list of criteria; two rubrics with the same hash grade alike.

    Attributes:
        id: Name ("caption").
        version: Semantic version.
        style: Style profile of the captions it judges ("imperative").
        notes: Comments; the only field that the hash does not cover.
        criteria: At least one, with distinct ids.
    """

    id: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")]
    version: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
    style: Literal["imperative"] = "imperative"
    notes: str = ""
    criteria: tuple[Criterion, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_criteria(self) -> Rubric:
        from ares.rubric.hard_checks import CHECKS

        ids = [criterion.id for criterion in self.criteria]
        if len(set(ids)) != len(ids):
            raise ValueError(f"two criteria have the same id: {', '.join(sorted(ids))}")
        unknown = sorted({name for criterion in self.criteria for name in criterion.hard} - set(CHECKS))
        if unknown:
            raise ValueError(f"no hard check {unknown[0]!r}; there are: {', '.join(sorted(CHECKS))}")
        return self

    @property
    def hash(self) -> str:
        """SHA-256 over everything that decides a grade, as 64 hex digits; the order of keys does not matter."""
        document = self.model_dump(mode="json", exclude={"notes"})
        return hashlib.sha256(canonical_json([_HASH_DOMAIN, document]).encode()).hexdigest()

    @property
    def verdict_columns(self) -> tuple[Column, ...]:
        """The filter columns of the verdicts on its criteria, in its order."""
        return tuple(verdict_column(criterion.id, criterion.text) for criterion in self.criteria)

    @property
    def categories(self) -> list[tuple[str, Category]]:
        """Pairs (id, category) of all criteria."""
        return [(criterion.id, criterion.category) for criterion in self.criteria]


def read_rubric(path: Path) -> Rubric:
    """Read a rubric from YAML. Raises RequestError naming the first invalid field."""
    try:
        document = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError("rubric cannot be read", f"{path}: {error}") from None
    except SourceError as error:
        raise RequestError("rubric cannot be read", str(error)) from None
    try:
        return Rubric.model_validate(document)
    except ValidationError as error:
        raise RequestError("rubric is not valid", f"{path}: {first_fault(error, 'rubric')}") from None
