"""What a judge asks beside the observation: two values of a slot, a choice, words, and questions of a lab."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, RootModel, StringConstraints

from annotators.grade.observation import LEAST_CONFIDENCE, MOST_FRAMES, Frames, Percent, StrictForm
from annotators.models import VlmRequest
from annotators.prompting import escape_json, read_json_reply, read_prompt
from ares.annotation import short_hash
from ares.episode import Json
from ares.rubric import COMPLETED, NOT_COMPLETED, OTHER, SlotName, SlotValues, Verdict, slots_to_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


CANNOT_TELL = "cannot tell"
MAX_NEW_TOKENS = 200
# Most that the answer about one of several pairs, or of several captions, takes.
_TOKENS_OF_AN_ANSWER, _TOKENS_OF_WORDS = 12, 40
_PACKAGE = "annotators.grade"
_PROMPTS = (
    "compare", "compare_many", "choose", "choose_many", "words", "words_many", "question", "observe_system",
)  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class ValuePair:
    """Two values of a slot as a model of texts reads them, in an order that does not tell who says which.

    Attributes:
        slot: The slot.
        first: One value.
        second: The other.
    """

    slot: SlotName
    first: str
    second: str

    @property
    def data(self) -> dict[str, Json]:
        """The pair as JSON of a prompt."""
        return {"slot": self.slot, "first": self.first, "second": self.second}


# A pair, and the one of its values that a caption states; the other is the judge's.
ClaimedPair = tuple[ValuePair, str]


def make_pair(slot: SlotName, first: str, second: str) -> ValuePair:
    """The pair of two values; the same in whichever order they come."""
    return ValuePair(slot, *_stable_order(slot, [bare_value(slot, first), bare_value(slot, second)]))


class ComparisonReply(StrictForm):
    """The reply about two values."""

    answer: Literal["same", "different", "cannot tell"]


def comparison_request(pair: ValuePair, has_schema: bool) -> VlmRequest:
    """The question whether two values of a slot mean the same."""
    prompt = read_prompt(_PACKAGE, "compare").replace("{meaning}", _MEANINGS[pair.slot])
    schema = ComparisonReply.model_json_schema() if has_schema else None
    return VlmRequest(
        images=(),
        prompt=prompt.replace("{data}", escape_json(pair.data)),
        schema=schema,
        max_tokens=MAX_NEW_TOKENS,
    )


def parse_comparison(reply: str) -> str:
    """ "same", "different" or CANNOT_TELL, also for a reply of another form."""
    read = read_json_reply(ComparisonReply, reply)
    return CANNOT_TELL if isinstance(read, str) else read.answer


class ComparisonsReply(RootModel[dict[str, Literal["same", "different", "cannot tell"]]]):
    """The reply about several pairs, by their numbers."""


def comparisons_request(pairs: Sequence[ValuePair], has_schema: bool) -> VlmRequest:
    """The question which of several pairs of values mean the same; for pairs of plain words only."""
    slots = dict.fromkeys(pair.slot for pair in pairs)
    numbered = {str(number): pair.data for number, pair in enumerate(pairs, 1)}
    prompt = read_prompt(_PACKAGE, "compare_many").replace(
        "{meanings}", "\n".join(f"- {slot}: {_MEANINGS[slot]}" for slot in slots)
    )
    answer: dict[str, Json] = {"type": "string", "enum": ["same", "different", CANNOT_TELL]}
    schema: dict[str, Json] = {
        "type": "object",
        "properties": dict.fromkeys(numbered, answer),
        "required": list[Json](numbered),
        "additionalProperties": False,
    }
    return VlmRequest(
        images=(),
        prompt=prompt.replace("{data}", escape_json(numbered)),
        schema=schema if has_schema else None,
        max_tokens=40 + _TOKENS_OF_AN_ANSWER * len(pairs),
    )


def parse_comparisons(reply: str, count: int) -> list[str] | None:
    """The answers about so many pairs, in order; None where the reply does not answer each of them."""
    read = read_json_reply(ComparisonsReply, reply)
    if isinstance(read, str) or read.root.keys() != {str(number) for number in range(1, count + 1)}:
        return None
    return [read.root[str(number)] for number in range(1, count + 1)]


class ChoiceReply(StrictForm):
    """The reply about options."""

    option: int = Field(ge=1, le=4)
    frames: Frames
    confidence: Percent


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageEvidence:
    """The images of a question about frames.

    Attributes:
        images: The images.
        legend: What they are.
        seconds: Seconds of the frames, in order.
    """

    images: Sequence[NDArray[np.uint8]]
    legend: str
    seconds: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameAnswer:
    """An answer that rests on frames.

    Attributes:
        answer: The option, or the answer to a question; "" for a reply that cannot be used.
        seconds: Seconds of the frames that it rests on.
        confidence: How sure the model says it is, 0 to 1.
        problem: What is wrong with the reply, in a few words, or "".
    """

    answer: str
    seconds: tuple[float, ...] = field(default=())
    confidence: float = 0.0
    problem: str = ""


def choice_options(segment: str, slot: SlotName, claimed: str, rival: str) -> list[str]:
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
    return _stable_order(f"{segment} {slot}", list(dict.fromkeys(values)))


def choice_request(
    slot: SlotName, options: Sequence[str], evidence: ImageEvidence, has_schema: bool
) -> VlmRequest:
    """The question which of some values the frames show."""
    data = escape_json({"slot": slot, "options": list(options)})
    prompt = read_prompt(_PACKAGE, "choose").replace("{meaning}", _MEANINGS[slot])
    return _frames_request(prompt, data, evidence, _choice_schema(options, evidence) if has_schema else None)


def _choice_schema(options: Sequence[str], evidence: ImageEvidence) -> dict[str, Json]:
    schema = ChoiceReply.model_json_schema()
    schema["properties"]["option"]["maximum"] = len(options)
    return _limit_frames(schema, evidence)


def parse_choice(reply: str, options: Sequence[str], seconds: Sequence[float]) -> FrameAnswer:
    """The option that a reply chooses; one that cites no frame chooses none."""
    read = read_json_reply(ChoiceReply, reply)
    return (
        FrameAnswer(answer="", problem=read)
        if isinstance(read, str)
        else _read_choice(read, options, seconds)
    )


def _read_choice(read: ChoiceReply, options: Sequence[str], seconds: Sequence[float]) -> FrameAnswer:
    if read.option > len(options):
        return FrameAnswer(answer="", problem="reply is off the menu")
    return _answer_with_frames(options[read.option - 1], read.frames, read.confidence, seconds)


@dataclass(frozen=True, slots=True)
class SlotOptions:
    """The options of a choice about one slot.

    Attributes:
        slot: The slot.
        options: The options, in an order that does not tell who says what.
    """

    slot: SlotName
    options: tuple[str, ...]


class _ManyChoicesReply(RootModel[dict[str, ChoiceReply]]):
    """The reply about the options of several slots, by their numbers."""


def choices_request(entries: Sequence[SlotOptions], evidence: ImageEvidence, has_schema: bool) -> VlmRequest:
    """The question of `choice_request` about several slots of one caption; for plain values only."""
    numbered: dict[str, Json] = {
        str(number): {"slot": entry.slot, "options": list[Json](entry.options)}
        for number, entry in enumerate(entries, 1)
    }
    prompt = read_prompt(_PACKAGE, "choose_many").replace(
        "{meanings}", "\n".join(f"- {entry.slot}: {_MEANINGS[entry.slot]}" for entry in entries)
    )
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {
            str(number): _choice_schema(entry.options, evidence) for number, entry in enumerate(entries, 1)
        },
        "required": list[Json](numbered),
        "additionalProperties": False,
    }
    request = _frames_request(prompt, escape_json(numbered), evidence, None)
    return replace(request, schema=schema if has_schema else None, max_tokens=MAX_NEW_TOKENS * len(entries))


def parse_choices(
    reply: str, entries: Sequence[SlotOptions], seconds: Sequence[float]
) -> list[FrameAnswer] | None:
    """The options that a reply chooses, in order; None where it does not answer each entry."""
    read = read_json_reply(_ManyChoicesReply, reply)
    if isinstance(read, str) or read.root.keys() != {str(number) for number in range(1, len(entries) + 1)}:
        return None
    return [
        _read_choice(read.root[str(number)], entry.options, seconds)
        for number, entry in enumerate(entries, 1)
    ]


class QuestionReply(StrictForm):
    """The reply to a question of a lab."""

    answer: Literal["yes", "no", "cannot tell"]
    frames: Frames
    confidence: Percent


def rubric_question_request(
    question: str, slots: SlotValues, evidence: ImageEvidence, has_schema: bool
) -> VlmRequest:
    """A criterion of a rubric that is about no slot, asked with the slots of the caption."""
    data = escape_json({"question": question, "slots": slots_to_json(slots)})
    prompt = read_prompt(_PACKAGE, "question")
    schema = _limit_frames(QuestionReply.model_json_schema(), evidence)
    return _frames_request(prompt, data, evidence, schema if has_schema else None)


def parse_answer(reply: str, seconds: Sequence[float]) -> FrameAnswer:
    """ "yes", "no" or CANNOT_TELL, with the frames."""
    read = read_json_reply(QuestionReply, reply)
    if isinstance(read, str):
        return FrameAnswer(answer="", problem=read)
    return _answer_with_frames(read.answer, read.frames, read.confidence, seconds)


def _limit_frames(schema: dict[str, Any], evidence: ImageEvidence) -> dict[str, Json]:
    """The schema of a reply that cites frames, of those that are shown."""
    schema["properties"]["frames"]["items"]["maximum"] = min(len(evidence.seconds), MOST_FRAMES)
    return schema


def _frames_request(
    prompt: str, data: str, evidence: ImageEvidence, schema: dict[str, Json] | None
) -> VlmRequest:
    return VlmRequest(
        images=evidence.images,
        prompt=prompt.replace("{legend}", evidence.legend).replace("{data}", data),
        system=read_prompt(_PACKAGE, "observe_system"),
        schema=schema,
        max_tokens=MAX_NEW_TOKENS,
    )


def _answer_with_frames(
    answer: str, frames: Sequence[int], confidence: int, seconds: Sequence[float]
) -> FrameAnswer:
    if any(number > len(seconds) for number in frames):
        return FrameAnswer(answer="", problem="reply cites a frame that was not shown")
    return FrameAnswer(
        answer=answer,
        seconds=tuple(seconds[number - 1] for number in sorted(set(frames))),
        confidence=confidence / 100,
    )


_AGREES, _OTHERWISE = "the frames show what the caption says", "the frames show something else"
_NOT_SHOWN, _TOO_UNSURE = "the frames do not tell", "the model is not sure of what the frames show"
_NO_FRAME = "reply cites no frame"


def verdict_of_answer(answer: FrameAnswer, claimed: str, slot: SlotName | None = None) -> tuple[Verdict, str]:
    """The verdict of an answer by frames, and its reason; `claimed` is the option that the caption stands for."""
    if answer.problem:
        return Verdict.ERROR, answer.problem
    if answer.answer == CANNOT_TELL:
        return Verdict.UNSURE, _NOT_SHOWN
    if not answer.seconds:
        return Verdict.UNSURE, _NO_FRAME
    if answer.confidence < LEAST_CONFIDENCE:
        return Verdict.UNSURE, _TOO_UNSURE
    is_met = answer.answer == bare_value(slot, claimed) if slot else answer.answer == claimed
    return (Verdict.MET, _AGREES) if is_met else (Verdict.UNMET, _OTHERWISE)


_Word = Annotated[str, StringConstraints(min_length=1, max_length=60)]


class WordsReply(StrictForm):
    """The reply about words that no slot bears."""

    words: list[_Word] = Field(max_length=12)


def words_request(words: Sequence[str], slots: SlotValues, has_schema: bool) -> VlmRequest:
    """The question whether words of a sentence say something that the slots do not."""
    data = escape_json({"words": list[Json](sorted(words)), "slots": slots_to_json(slots)})
    schema = WordsReply.model_json_schema() if has_schema else None
    prompt = read_prompt(_PACKAGE, "words").replace("{data}", data)
    return VlmRequest(images=(), prompt=prompt, schema=schema, max_tokens=MAX_NEW_TOKENS)


def parse_words(reply: str) -> list[str] | str:
    """The words that say something of their own; else what is wrong with the reply."""
    read = read_json_reply(WordsReply, reply)
    return read if isinstance(read, str) else list(read.words)


@dataclass(frozen=True, slots=True)
class ExtraWords:
    """Words of a caption beside its slots.

    Attributes:
        words: The words, alphabetically.
        slots: The slots.
    """

    words: tuple[str, ...]
    slots: SlotValues


class _ManyWordsReply(RootModel[dict[str, Annotated[list[_Word], Field(max_length=12)]]]):
    """The reply about the words of several captions, by their numbers."""


def shared_words_request(entries: Sequence[ExtraWords], has_schema: bool) -> VlmRequest:
    """The question of `words_request` about several captions; for plain words only."""
    numbered: dict[str, Json] = {
        str(number): {"words": list[Json](entry.words), "slots": slots_to_json(entry.slots)}
        for number, entry in enumerate(entries, 1)
    }
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {
            str(number): {
                "type": "array",
                "items": {"type": "string", "enum": list[Json](entry.words)},
                "maxItems": len(entry.words),
            }
            for number, entry in enumerate(entries, 1)
        },
        "required": list[Json](numbered),
        "additionalProperties": False,
    }
    return VlmRequest(
        images=(),
        prompt=read_prompt(_PACKAGE, "words_many").replace("{data}", escape_json(numbered)),
        schema=schema if has_schema else None,
        max_tokens=40 + _TOKENS_OF_WORDS * len(entries),
    )


def parse_shared_words(reply: str, count: int) -> list[list[str]] | None:
    """The words of so many captions that say something of their own; None where the reply leaves one out."""
    read = read_json_reply(_ManyWordsReply, reply)
    if isinstance(read, str) or read.root.keys() != {str(number) for number in range(1, count + 1)}:
        return None
    return [read.root[str(number)] for number in range(1, count + 1)]
