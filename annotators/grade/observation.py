"""What a model says that it sees in a segment, slot by slot, before it knows any caption."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ares.episode import Json
from ares.rubric import NOT_VISIBLE, OTHER, SLOTS, SlotName, is_short_value, join_attributes
from ares_annotators.prompting import read_json_reply

# Name of the annotations that hold observations.
OBSERVATION = "observation"
# What a model is less sure of counts as not visible.
LEAST_CONFIDENCE = 0.5
MOST_FRAMES = 64
_MOST_ATTRIBUTES = 6

_Phrase = Annotated[str, StringConstraints(max_length=120)]
_Word = Annotated[str, StringConstraints(min_length=1, max_length=40)]
Frames = Annotated[list[Annotated[int, Field(ge=1, le=MOST_FRAMES)]], Field(max_length=MOST_FRAMES)]
Percent = Annotated[int, Field(ge=0, le=100)]


class StrictForm(BaseModel):
    """A reply with these keys and no others, each of exactly this type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CitingForm(Protocol):
    """A part of a reply that rests on frames."""

    frames: Frames
    confidence: Percent


class _ActionForm(StrictForm):
    value: _Phrase
    other_action: _Phrase = ""
    frames: Frames
    confidence: Percent


class _ValueForm(StrictForm):
    value: _Phrase
    frames: Frames
    confidence: Percent


class _AttributesForm(StrictForm):
    value: list[_Word] = Field(max_length=_MOST_ATTRIBUTES)
    frames: Frames
    confidence: Percent


class _OutcomeForm(StrictForm):
    value: Literal["completed", "not completed", "not visible"]
    frames: Frames
    confidence: Percent


_AnyForm = _ActionForm | _ValueForm | _AttributesForm | _OutcomeForm


class ObservationReply(StrictForm):
    """The form of the reply; anything else is no observation."""

    action: _ActionForm
    object: _ValueForm
    attributes: _AttributesForm
    from_: _ValueForm = Field(alias="from")
    to: _ValueForm
    hand: _ValueForm
    manner: _ValueForm
    count: _ValueForm
    outcome: _OutcomeForm

    def form(self, slot: SlotName) -> _AnyForm:
        """What it says of a slot."""
        form: _AnyForm = getattr(self, "from_" if slot == "from" else slot)
        return form


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPart:
    """What is seen of one slot.

    Attributes:
        value: What is seen, as slots have it, or NOT_VISIBLE.
        seconds: Seconds of the frames that it rests on.
        confidence: How sure the model says it is, 0 to 1.
    """

    value: str
    seconds: tuple[float, ...] = ()
    confidence: float = 0.0

    @property
    def is_visible(self) -> bool:
        """Whether it says something in a few words, rests on a frame, and the model is sure enough of it."""
        says_something = is_short_value(self.value) and self.value.strip(" .").lower() != NOT_VISIBLE
        return says_something and bool(self.seconds) and self.confidence >= LEAST_CONFIDENCE

    def to_json(self) -> dict[str, Json]:
        """The part as stored JSON."""
        return {"value": self.value, "seconds": list(self.seconds), "confidence": self.confidence}


@dataclass(frozen=True, slots=True)
class Observation:
    """What a model sees in a segment.

    Attributes:
        parts: What it sees of every slot.
    """

    parts: Mapping[SlotName, ObservedPart]

    @property
    def visible_values(self) -> list[str]:
        """What it sees of the slots that are visible."""
        return [part.value for part in self.parts.values() if part.is_visible]

    def to_json(self) -> dict[str, Json]:
        """The observation as the value of an annotation."""
        return {slot: self.parts[slot].to_json() for slot in SLOTS}


def observation_schema(frames: int, verbs: Mapping[str, str]) -> dict[str, Json]:
    """The JSON schema of a reply about so many frames: it allows no other frame, and no verb beside the guide's."""
    schema = ObservationReply.model_json_schema()
    for part in schema["$defs"].values():
        part["properties"]["frames"]["items"]["maximum"] = min(frames, MOST_FRAMES)
        part["required"] = list(part["properties"])
    schema["$defs"]["_ActionForm"]["properties"]["value"] = {"type": "string", "enum": [*verbs, OTHER]}
    return schema


def parse_observation(reply: str, seconds: Sequence[float], verbs: Mapping[str, str]) -> Observation | str:
    """The observation of a reply; else what is wrong with it, in a few words.

    Args:
        reply: The text of the reply.
        seconds: Seconds of the frames that were shown, in order.
        verbs: The guide of verbs.
    """
    read = read_json_reply(ObservationReply, reply)
    if isinstance(read, str):
        return read
    forms: dict[SlotName, _AnyForm] = {slot: read.form(slot) for slot in SLOTS}
    return find_unshown_frame(forms.values(), seconds) or Observation(
        {
            slot: make_part(_form_value(form, verbs) or NOT_VISIBLE, form, seconds)
            for slot, form in forms.items()
        }
    )


def find_unshown_frame(forms: Iterable[CitingForm], seconds: Sequence[float]) -> str:
    """What is wrong with forms that cite more frames than were shown, in order at these seconds; else ""."""
    is_unshown = any(number > len(seconds) for form in forms for number in form.frames)
    return "reply cites a frame that was not shown" if is_unshown else ""


def make_part(value: str, form: CitingForm, seconds: Sequence[float]) -> ObservedPart:
    """A value with the seconds of the frames that its form cites, and with its confidence."""
    cited = tuple(seconds[number - 1] for number in sorted(set(form.frames)))
    return ObservedPart(value=value, seconds=cited, confidence=form.confidence / 100)


def _form_value(form: _AnyForm, verbs: Mapping[str, str]) -> str:
    if isinstance(form, _AttributesForm):
        return join_attributes([word for word in form.value if word.strip().lower() != NOT_VISIBLE])
    value = form.value.strip()
    if not isinstance(form, _ActionForm) or value.lower() in verbs:
        return value.lower() if isinstance(form, _ActionForm) else value
    # Another verb, wherever a model without schemas writes it.
    verb = form.other_action.strip() if value.lower() == OTHER else value
    return f"{OTHER}: {verb}" if verb and verb.lower() != NOT_VISIBLE else NOT_VISIBLE


def read_observation(value: Mapping[str, Json]) -> Observation | None:
    """The observation of a stored value; None for one of another form, as earlier versions stored it."""
    parts = {slot: _stored_part(value.get(slot)) for slot in SLOTS}
    if None in parts.values():
        return None
    return Observation({slot: part for slot, part in parts.items() if part})


def _stored_part(value: Json) -> ObservedPart | None:
    if not isinstance(value, dict) or "value" not in value:
        return None
    seconds, confidence = value.get("seconds"), value.get("confidence")
    return ObservedPart(
        value=str(value["value"]),
        seconds=tuple(float(str(second)) for second in seconds) if isinstance(seconds, list) else (),
        confidence=float(confidence) if isinstance(confidence, int | float) else 0.0,
    )
