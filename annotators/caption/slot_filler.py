"""Fills the slots of sentences by a text model that can only choose parts of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, StringConstraints

from ares.annotation import Cost, short_hash
from ares.episode import Json
from ares.errors import ModelError
from ares.rubric import (
    NOT_VISIBLE,
    OTHER,
    SlotName,
    SlotValues,
    is_short_value,
    join_attributes,
    order_slots,
)
from ares_annotators.models import Vlm, VlmFailure, VlmReply, VlmRequest
from ares_annotators.prompting import escape_json, read_json_reply, read_prompt

_PACKAGE = "ares_annotators.caption"
MAX_FILL_TOKENS = 300
# A longer text is no sentence: it is not sent, and nothing is stated.
_MAX_CHARACTERS = 600
# Scripts from here on write words without spaces between them, such as Thai, Chinese and Japanese.
_FIRST_WITHOUT_SPACES = "\u0e00"
_COPIED: tuple[SlotName, ...] = ("object", "from", "to", "hand", "manner", "count")

ValueText = Annotated[str, StringConstraints(max_length=120)]
AttributeTexts = Annotated[list[ValueText], Field(max_length=8)]


class _FillForm(BaseModel):
    """The form of the reply; what is no part of the sentence is dropped from it afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True)

    action: ValueText
    action_words: ValueText
    object: ValueText
    attributes: AttributeTexts
    source: ValueText = Field(alias="from")
    to: ValueText
    hand: ValueText
    manner: ValueText
    count: ValueText
    outcome: Literal["completed", "not completed", "not visible"]


class _FillForms(RootModel[dict[str, _FillForm]]):
    """The forms of several sentences by their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledSlots:
    """What a sentence states.

    Attributes:
        slots: Its slots; what it leaves open is left out.
        cost: What filling them cost, whenever it was paid.
        paid: What was paid for it now.
    """

    slots: SlotValues
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)


def fill_slots(
    sentences: Sequence[str], vlm: Vlm, verbs: Mapping[str, str]
) -> list[FilledSlots | VlmFailure]:
    """The slots of each sentence, by one call without images; equal sentences share it, and the first has paid for it.

    The model sees nothing but the sentence and the guide. Each value is part of the sentence, the action a verb of the
    guide or part of the sentence, so a sentence that gives orders gains nothing but other parts of itself.

    Args:
        sentences: The sentences, whoever wrote them.
        vlm: The model; images are never sent to it.
        verbs: The guide of verbs.
    """
    fillable = list(dict.fromkeys(text for text in sentences if is_fillable(text)))
    requests = [make_fill_request(text, vlm, verbs) for text in fillable]
    replies = dict(zip(fillable, vlm.ask(requests) if requests else (), strict=True))
    filled: list[FilledSlots | VlmFailure] = []
    seen: set[str] = set()
    for text in sentences:
        outcome = read_fill_reply(text, replies[text], vlm.name, verbs) if text in replies else None
        filled.append(_as_paid(outcome, is_again=text in seen) if outcome else FilledSlots(slots={}))
        seen.add(text)
    return filled


# In the prompt about one sentence the keys of a reply stand after this.
_KEYS_START = "its keys in this order:\n"
# Sentences of plain words in one request.
MOST_SENTENCES = 16


def make_shared_fill_request(sentences: Sequence[str], vlm: Vlm, verbs: Mapping[str, str]) -> VlmRequest:
    """The request for the slots of several sentences; whoever calls it answers for the words that stand in them."""
    numbered = {str(number): sentence for number, sentence in enumerate(sentences, 1)}
    single = (
        read_prompt(_PACKAGE, "slots").partition(_KEYS_START)[2].replace("{verbs}", describe_verbs(verbs))
    )
    template = read_prompt(_PACKAGE, "slots_many").replace("{keys}", single)
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {number: {"$ref": "#/$defs/slots"} for number in numbered},
        "required": list[Json](numbered),
        "additionalProperties": False,
        "$defs": {"slots": fill_schema(verbs)},
    }
    return VlmRequest(
        images=[],
        prompt=template.replace("{data}", escape_json(numbered)),
        schema=schema if "schema" in vlm.capabilities else None,
        max_tokens=MAX_FILL_TOKENS * len(sentences),
    )


def read_shared_fill_reply(
    sentences: Sequence[str], reply: str, verbs: Mapping[str, str]
) -> list[SlotValues] | None:
    """The slots of several sentences from the reply about them; None where it does not answer each of them."""
    forms = read_json_reply(_FillForms, reply)
    if isinstance(forms, str) or forms.root.keys() != {str(number) for number, _ in enumerate(sentences, 1)}:
        return None
    return [
        _part_slots(sentence, forms.root[str(number)], verbs) for number, sentence in enumerate(sentences, 1)
    ]


def is_fillable(sentence: str) -> bool:
    """Whether a text can be a sentence about an action; what is none states nothing, and no model is asked."""
    return bool(re.search(r"\w", sentence)) and len(sentence) <= _MAX_CHARACTERS


def make_fill_request(sentence: str, vlm: Vlm, verbs: Mapping[str, str]) -> VlmRequest:
    """The request for the slots of one sentence."""
    return VlmRequest(
        images=[],
        prompt=fill_prompt(sentence, verbs),
        schema=fill_schema(verbs) if "schema" in vlm.capabilities else None,
        max_tokens=MAX_FILL_TOKENS,
    )


def fill_prompt(sentence: str, verbs: Mapping[str, str]) -> str:
    """What a text model is asked; the sentence is in it once, as escaped JSON on a separate line."""
    template = read_prompt(_PACKAGE, "slots").replace("{verbs}", describe_verbs(verbs))
    return template.replace("{data}", escape_json({"sentence": sentence}))


def describe_verbs(verbs: Mapping[str, str]) -> str:
    """The guide of verbs as lines of a prompt."""
    return "\n".join(f"- {verb}: {meaning}" for verb, meaning in verbs.items())


def fill_schema(verbs: Mapping[str, str]) -> dict[str, Json]:
    """The JSON schema of a reply."""
    return limit_actions(_FillForm.model_json_schema(), verbs)


def limit_actions(schema: dict[str, Any], verbs: Mapping[str, str]) -> dict[str, Json]:
    """A JSON schema without notes for programmers, whose `action` is a verb of the guide, or "other"."""
    schema = {name: value for name, value in schema.items() if name not in ("title", "description")}
    for form in schema["properties"].values():
        form.pop("title", None)
    schema["properties"]["action"] = {"enum": [*verbs, OTHER], "type": "string"}
    return schema


def fill_hash(verbs: Mapping[str, str]) -> str:
    """Hash of all that a text model is asked beside the sentence."""
    return short_hash([read_prompt(_PACKAGE, "slots"), fill_schema(verbs), dict(verbs)])


def read_fill_reply(
    sentence: str, reply: VlmReply | VlmFailure, model: str, verbs: Mapping[str, str]
) -> FilledSlots | VlmFailure:
    """The slots of a sentence from the reply about it.

    Args:
        sentence: The sentence.
        reply: The reply, or why there is none.
        model: Name of the model, for errors.
        verbs: The guide of verbs.
    """
    if isinstance(reply, VlmFailure):
        return reply
    form = read_json_reply(_FillForm, reply.text)
    if isinstance(form, str):
        error = ModelError("slots cannot be filled", f"{model}: {form}; it replied {reply.text[:200]!r}")
        return VlmFailure(error, reply.paid, is_unusable_reply=True)
    slots = _part_slots(sentence, form, verbs)
    return FilledSlots(slots=slots, cost=reply.cost, paid=reply.paid)


def _as_paid(outcome: FilledSlots | VlmFailure, *, is_again: bool) -> FilledSlots | VlmFailure:
    if not is_again:
        return outcome
    if isinstance(outcome, VlmFailure):
        return VlmFailure(outcome.error, Cost(), is_unusable_reply=outcome.is_unusable_reply)
    return FilledSlots(slots=outcome.slots)


def _part_slots(sentence: str, form: _FillForm, verbs: Mapping[str, str]) -> SlotValues:
    words = find_part(sentence, form.action_words)
    named: dict[SlotName, str] = {
        "action": name_action(form.action if words else "", words, verbs),
        "attributes": clean_attributes([find_part(sentence, part) for part in form.attributes]),
        "outcome": "" if form.outcome == NOT_VISIBLE else form.outcome,
    }
    copied = form.model_dump(by_alias=True)
    named |= {name: find_part(sentence, str(copied[name])) for name in _COPIED}
    return order_slots(named)


def find_part(sentence: str, value: str) -> str:
    """The part of a sentence that a value is, in its letters; "" where it is none, or has more than 12 words."""
    words = [re.escape(word) for word in value.split()]
    if not words:
        return ""
    starts = r"(?<!\w)" if value.strip()[0] < _FIRST_WITHOUT_SPACES else ""
    ends = r"(?!\w)" if value.strip()[-1] < _FIRST_WITHOUT_SPACES else ""
    match = re.search(starts + r"\s+".join(words) + ends, sentence, re.IGNORECASE)
    part = " ".join(match.group().split()) if match else ""
    return part if re.search(r"\w", part) and is_short_value(part) else ""


def name_action(action: str, words: str, verbs: Mapping[str, str]) -> str:
    """The value of the slot `action`: a verb of the guide, or "other: WORDS"; "" where nothing is said.

    Args:
        action: What the model chose, or "".
        words: What it says in its words, or those of the sentence.
        verbs: The guide of verbs.
    """
    verb_word, phrase = action.strip().lower(), " ".join(words.lower().split())
    for verb in (verb_word, phrase if verb_word == OTHER else ""):
        if verb in verbs:
            return verb
    # A server that takes no notice of the guide has another word for the action.
    phrase = phrase if verb_word == OTHER else verb_word
    return f"{OTHER}: {phrase}" if phrase not in ("", NOT_VISIBLE) else ""


def clean_attributes(attributes: Sequence[str]) -> str:
    """The value of the slot `attributes`, as many of them as its 12 words hold."""
    stated = [
        text for part in attributes if (text := clean_value(part.replace(",", " "))) and is_short_value(text)
    ]
    while stated and not is_short_value(join_attributes(stated)):
        stated.pop()
    return join_attributes(stated)


def clean_value(value: str) -> str:
    """A value on one line; "" where it states nothing."""
    text = " ".join(value.split()).rstrip(".")
    return "" if text.lower() in ("", NOT_VISIBLE, "none", "n/a") else text
