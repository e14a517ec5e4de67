"""What a model says that it sees before it knows any caption: the form of its reply, and how it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from annotators.json_reply import read_json_reply
from ares.episode import Json

NOT_VISIBLE = "not visible"
# What a model is less sure of counts as not visible.
LEAST_CONFIDENCE = 0.5
COMPLETED, NOT_COMPLETED = "completed", "not completed"
_MOST_OBJECTS, _MOST_ATTRIBUTES, _MOST_FRAMES, _LAST_FRAME = 6, 4, 16, 64
_PARTS = ("action", "where_from", "where_to", "actor", "manner", "outcome")

_Sentence = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_Phrase = Annotated[str, StringConstraints(min_length=1, max_length=80)]
_Word = Annotated[str, StringConstraints(min_length=1, max_length=30)]
_Frames = Annotated[list[Annotated[int, Field(ge=1, le=_LAST_FRAME)]], Field(max_length=_MOST_FRAMES)]
_Percent = Annotated[int, Field(ge=0, le=100)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _ActionForm(_Form):
    text: _Sentence
    frames: _Frames
    confidence: _Percent


class _PartForm(_Form):
    text: _Phrase
    frames: _Frames
    confidence: _Percent


class _ObjectForm(_Form):
    text: _Phrase
    attributes: list[_Word] = Field(max_length=_MOST_ATTRIBUTES)
    frames: _Frames
    confidence: _Percent


class _OutcomeForm(_Form):
    text: Literal["completed", "not completed", "not visible"]
    frames: _Frames
    confidence: _Percent


class ObservationReply(_Form):
    """The form of the reply; anything else is no observation."""

    action: _ActionForm
    objects: list[_ObjectForm] = Field(max_length=_MOST_OBJECTS)
    where_from: _PartForm
    where_to: _PartForm
    actor: _PartForm
    manner: _PartForm
    outcome: _OutcomeForm


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPart:
    """One part of an observation.

    Attributes:
        text: What is seen, in the words of the model, or NOT_VISIBLE.
        attributes: Of an object, its colour, size and material.
        seconds: Seconds of the frames that it rests on.
        confidence: How sure the model says it is, 0 to 1.
    """

    text: str
    attributes: tuple[str, ...] = ()
    seconds: tuple[float, ...] = ()
    confidence: float = 0.0

    @property
    def is_visible(self) -> bool:
        """Whether it says something, rests on a frame, and the model is sure enough of it."""
        says_something = self.text.strip(" .").lower() != NOT_VISIBLE
        return says_something and bool(self.seconds) and self.confidence >= LEAST_CONFIDENCE

    def to_json(self) -> dict[str, Json]:
        """The part as stored JSON."""
        attributes: dict[str, Json] = {"attributes": list(self.attributes)} if self.attributes else {}
        return {
            "text": self.text,
            **attributes,
            "seconds": list(self.seconds),
            "confidence": self.confidence,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a model sees in a segment.

    Attributes:
        action: What is done, one sentence in the imperative.
        objects: Things that are acted on, and places where things are put.
        where_from: Where the thing that is moved is at the start.
        where_to: Where it is moved to.
        actor: Who acts.
        manner: How it is done.
        outcome: COMPLETED, NOT_COMPLETED or NOT_VISIBLE.
    """

    action: ObservedPart
    objects: tuple[ObservedPart, ...]
    where_from: ObservedPart
    where_to: ObservedPart
    actor: ObservedPart
    manner: ObservedPart
    outcome: ObservedPart

    def to_json(self) -> dict[str, Json]:
        """The observation as the value of an annotation."""
        parts: dict[str, Json] = {name: getattr(self, name).to_json() for name in _PARTS}
        return {**parts, "objects": [part.to_json() for part in self.objects]}


def observation_schema(frames: int) -> dict[str, Json]:
    """The JSON schema of a reply about so many frames; it allows no other frame."""
    schema = ObservationReply.model_json_schema()
    for part in schema["$defs"].values():
        part["properties"]["frames"]["items"]["maximum"] = min(frames, _LAST_FRAME)
    return schema


def parse_observation(reply: str, seconds: Sequence[float]) -> Observation | str:
    """The observation of a reply; else what is wrong with it, in a few words.

    Args:
        reply: The text of the reply.
        seconds: Seconds of the frames that were shown, in order.
    """
    read = read_json_reply(ObservationReply, reply)
    if isinstance(read, str):
        return read
    forms = [*(getattr(read, name) for name in _PARTS), *read.objects]
    if any(number > len(seconds) for form in forms for number in form.frames):
        return "reply cites a frame that was not shown"
    return Observation(
        **{name: _part(getattr(read, name), seconds) for name in _PARTS},
        objects=tuple(_part(form, seconds) for form in read.objects),
    )


def _part(
    form: _ActionForm | _PartForm | _ObjectForm | _OutcomeForm, seconds: Sequence[float]
) -> ObservedPart:
    return ObservedPart(
        text=form.text.strip() or NOT_VISIBLE,
        attributes=tuple(form.attributes) if isinstance(form, _ObjectForm) else (),
        seconds=tuple(seconds[number - 1] for number in sorted(set(form.frames))),
        confidence=form.confidence / 100,
    )


def read_observation(value: Mapping[str, Json]) -> Observation | None:
    """The observation of a stored value; None for one of another form, as a judge with a menu stores it."""
    objects = value.get("objects")
    parts = {name: _stored_part(value.get(name)) for name in _PARTS}
    stored = [_stored_part(item) for item in objects] if isinstance(objects, list) else [None]
    if None in stored or None in parts.values():
        return None
    return Observation(
        **{name: part for name, part in parts.items() if part},
        objects=tuple(part for part in stored if part),
    )


def _stored_part(value: Json) -> ObservedPart | None:
    if not isinstance(value, dict):
        return None
    attributes, seconds, confidence = value.get("attributes"), value.get("seconds"), value.get("confidence")
    return ObservedPart(
        text=str(value.get("text")),
        attributes=tuple(map(str, attributes)) if isinstance(attributes, list) else (),
        seconds=tuple(float(str(second)) for second in seconds) if isinstance(seconds, list) else (),
        confidence=float(confidence) if isinstance(confidence, int | float) else 0.0,
    )
