"""What is said of the fields of one episode or segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ares.annotation import Cost
from ares.episode import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeAnswer:
    """What is said of one field.

    Attributes:
        value: The answer; None where it cannot be told.
        seconds: Seconds of the frames that it rests on.
        confidence: How sure the model says it is, or the mean probability of CLIP, 0 to 1.
    """

    value: Json
    seconds: tuple[float, ...]
    confidence: float

    def to_json(self) -> dict[str, Json]:
        """The answer as stored JSON."""
        return {"value": self.value, "seconds": list(self.seconds), "confidence": round(self.confidence, 4)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredFields:
    """What is said of one subject.

    Attributes:
        answers: By name of the field.
        problems: Why a field has no answer, by its name.
        cost: What it cost, whenever it was paid.
        paid: What was paid for it now.
        examples: Episodes that the model was shown as examples.
    """

    answers: Mapping[str, AttributeAnswer]
    problems: Mapping[str, str] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)
    examples: Sequence[str] = ()
