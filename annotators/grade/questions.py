"""What a judge asks beside the observation: lists of value pairs, of choices and of words."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Generic, Literal, NamedTuple, TypeVar

from pydantic import Field, RootModel, StringConstraints

from ares.annotation import short_hash
from ares.episode import Json
from ares.rubric import COMPLETED, NOT_COMPLETED, OTHER, SlotName, Verdict, slots_to_json
from ares_annotators.grade.judge import ImagesForJudge
from ares_annotators.grade.list_calls import EntryReply
from ares_annotators.grade.observation import (
    LEAST_CONFIDENCE,
    MOST_FRAMES,
    Frames,
    ObservedPart,
    Percent,
    StrictForm,
    find_unshown_frame,
    make_part,
)
from ares_annotators.models import VlmRequest
from ares_annotators.prompting import escape_json, read_json_reply, read_prompt

CANNOT_TELL = "cannot tell"
MAX_NEW_TOKENS = 200
# Most that the answer about one of several pairs, or of several captions, takes.
_TOKENS_OF_AN_ANSWER, _TOKENS_OF_WORDS = 12, 40
_PACKAGE = "ares_annotators.grade"
# Earlier versions could also ask a "question" of a lab: with its text in the hash the producer of grades stays.
_PROMPTS = ("compare", "choose", "words", "question", "observe_system")
_MEANINGS: Mapping[SlotName, str] = {
    "action": "what is done",
    "object": "which thing is acted on",
    "attributes": "which colour, size, material or state the thing that is acted on has",
    "from": "where the thing that is acted on is at the start, or what it is taken from",
    "to": "where the thing that is acted on is moved to, or is meant to be moved to",
    "hand": "which hand, arm or person acts",
    "manner": "how the action is done: tool, grip, direction, speed or way",
    "count": "how many things are acted on, or how often",
    "outcome": "whether the action is completed at the end of the segment",
}


def questions_hash() -> str:
    """Hash of all that the questions say."""
    return short_hash([*(read_prompt(_PACKAGE, name) for name in _PROMPTS), list[Json](_MEANINGS.values())])


def _stable_order(seed: str, values: Sequence[str]) -> list[str]:
    """Values in an order that a hash decides, whoever said them."""
    return sorted(values, key=lambda value: hashlib.blake2b(f"{seed}\n{value}".encode()).digest())


def bare_value(slot: SlotName, value: str) -> str:
    """A value as a model reads it: an action that the guide does not have is its words."""
    return value.removeprefix(f"{OTHER}: ") if slot == "action" else value


_Answer = TypeVar("_Answer")


class _NumberedReplies(RootModel[dict[str, _Answer]], Generic[_Answer]):
    """A reply about several entries, by their numbers."""


def _list_request(prompt: str, entries: Sequence[Json], answers: Sequence[Json], tokens: int) -> VlmRequest:
    """A question about entries without frames.

    Args:
        prompt: The prompt, with a place for the entries.
        entries: The entries.
        answers: The JSON schema of the answer about each.
        tokens: Most tokens of the reply.
    """
    numbered = {str(number): entry for number, entry in enumerate(entries, 1)}
    schema: dict[str, Json] = {
        "type": "object",
        "properties": dict(zip(numbered, answers, strict=True)),
        "required": list[Json](numbered),
        "additionalProperties": False,
    }
    return VlmRequest(
        images=(),
        prompt=prompt.replace("{data}", escape_json(numbered)),
        schema=schema,
        max_tokens=tokens,
    )


def _read_list(form: type[_NumberedReplies[_Answer]], reply: str, count: int) -> list[_Answer] | str:
    """The answers about so many entries, in order; else what is wrong with the reply."""
    read = read_json_reply(form, reply)
    if isinstance(read, str):
        return read
    if read.root.keys() != {str(number) for number in range(1, count + 1)}:
        return "reply is off the menu"
    return [read.root[str(number)] for number in range(1, count + 1)]


def _describe_slots(prompt: str, slots: Sequence[SlotName]) -> str:
    return prompt.replace("{meanings}", "\n".join(f"- {slot}: {_MEANINGS[slot]}" for slot in slots))


class ValuePair(NamedTuple):
    """Two values of a slot as a model of texts reads them, in an order that does not tell who says which.

    Attributes:
        slot: The slot.
        first: One value.
        second: The other.
    """

    slot: SlotName
    first: str
    second: str


def make_pair(slot: SlotName, first: str, second: str) -> ValuePair:
    """The pair of two values; the same in whichever order they come."""
    return ValuePair(slot, *_stable_order(slot, [bare_value(slot, first), bare_value(slot, second)]))


def comparison_request(pairs: Sequence[ValuePair]) -> VlmRequest:
    """The question which pairs of values mean the same."""
    answer: dict[str, Json] = {"type": "string", "enum": ["same", "different", CANNOT_TELL]}
    return _list_request(
        _describe_slots(read_prompt(_PACKAGE, "compare"), list(dict.fromkeys(pair.slot for pair in pairs))),
        [pair._asdict() for pair in pairs],
        [answer] * len(pairs),
        tokens=40 + _TOKENS_OF_AN_ANSWER * len(pairs),
    )


def parse_comparisons(pairs: Sequence[ValuePair], reply: str) -> Sequence[str] | str:
    """ "same", "different" or CANNOT_TELL of each pair, in order; else what is wrong with the reply."""
    form = _NumberedReplies[Literal["same", "different", "cannot tell"]]
    return _read_list(form, reply, len(pairs))


class ChoiceReply(StrictForm):
    """The reply about options."""

    option: int = Field(ge=1, le=4)
    frames: Frames
    confidence: Percent


class SlotOptions(NamedTuple):
    """The options of a choice about one slot.

    Attributes:
        slot: The slot.
        options: The options, in an order that does not tell who says what.
    """

    slot: SlotName
    options: tuple[str, ...]


def slot_options(segment: str, slot: SlotName, claimed: str, rival: str) -> SlotOptions:
    """The options of a choice in an order that does not tell who says what.

    Args:
        segment: Id of the segment.
        slot: The slot.
        claimed: What the caption says.
        rival: What was observed, or a value of another caption of the dataset.
    """
    values = [bare_value(slot, claimed), bare_value(slot, rival), OTHER, CANNOT_TELL]
    if slot == "outcome":
        values = [COMPLETED, NOT_COMPLETED, CANNOT_TELL]
    return SlotOptions(slot, tuple(_stable_order(f"{segment} {slot}", list(dict.fromkeys(values)))))


def choice_request(choices: Sequence[SlotOptions], shown: ImagesForJudge) -> VlmRequest:
    """The question which of some values the frames show, for slots of one caption."""
    prompt = read_prompt(_PACKAGE, "choose").replace("{legend}", shown.plan.legend())
    request = _list_request(
        _describe_slots(prompt, [slot for slot, _ in choices]),
        [{"slot": slot, "options": list[Json](options)} for slot, options in choices],
        [_choice_schema(options, shown) for _, options in choices],
        tokens=MAX_NEW_TOKENS * len(choices),
    )
    return replace(request, images=shown.images, system=read_prompt(_PACKAGE, "observe_system"))


def _choice_schema(options: Sequence[str], shown: ImagesForJudge) -> dict[str, Json]:
    schema = ChoiceReply.model_json_schema()
    schema["properties"]["option"]["maximum"] = len(options)
    schema["properties"]["frames"]["items"]["maximum"] = min(len(shown.seconds), MOST_FRAMES)
    return schema


def parse_choices(
    choices: Sequence[SlotOptions], reply: str, seconds: Sequence[float]
) -> list[ObservedPart] | str:
    """The options that a reply chooses, in order; else what is wrong with the reply."""
    read = _read_list(_NumberedReplies[ChoiceReply], reply, len(choices))
    if isinstance(read, str):
        return read
    pairs = list(zip(read, choices, strict=True))
    if any(item.option > len(options) for item, (_, options) in pairs):
        return "reply is off the menu"
    return find_unshown_frame(read, seconds) or [
        make_part(options[item.option - 1], item, seconds) for item, (_, options) in pairs
    ]


_AGREES, _OTHERWISE = "the frames show what the caption says", "the frames show something else"
_NOT_SHOWN, _TOO_UNSURE = "the frames do not tell", "the model is not sure of what the frames show"
_NO_FRAME = "reply cites no frame"


def verdict_of_answer(reply: EntryReply[ObservedPart], claimed: str) -> tuple[Verdict, str]:
    """The verdict of an answer by frames, and its reason; `claimed` is the option that the caption stands for."""
    answer = reply.answer
    if answer is None:
        return Verdict.ERROR, reply.problem
    if answer.value == CANNOT_TELL:
        return Verdict.UNSURE, _NOT_SHOWN
    if not answer.seconds:
        return Verdict.UNSURE, _NO_FRAME
    if answer.confidence < LEAST_CONFIDENCE:
        return Verdict.UNSURE, _TOO_UNSURE
    return (Verdict.MET, _AGREES) if answer.value == claimed else (Verdict.UNMET, _OTHERWISE)


class ExtraWords(NamedTuple):
    """Words of a caption beside its slots.

    Attributes:
        words: The words, alphabetically.
        slots: The slots with their values.
    """

    words: tuple[str, ...]
    slots: tuple[tuple[SlotName, str], ...]


def words_request(entries: Sequence[ExtraWords]) -> VlmRequest:
    """The question which words of captions say something that their slots do not."""
    return _list_request(
        read_prompt(_PACKAGE, "words"),
        [{"words": list[Json](entry.words), "slots": slots_to_json(dict(entry.slots))} for entry in entries],
        [
            {
                "type": "array",
                "items": {"type": "string", "enum": list[Json](entry.words)},
                "maxItems": len(entry.words),
            }
            for entry in entries
        ],
        tokens=40 + _TOKENS_OF_WORDS * len(entries),
    )


_Word = Annotated[str, StringConstraints(min_length=1, max_length=60)]


def parse_words(entries: Sequence[ExtraWords], reply: str) -> Sequence[list[Json]] | str:
    """The words of each caption that say something of their own; else what is wrong with the reply."""
    read = _read_list(_NumberedReplies[list[_Word]], reply, len(entries))
    return read if isinstance(read, str) else [list[Json](words) for words in read]
