"""What a model says that it sees before any caption, and how a caption is compared with that."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from annotators.base import PaidFailure
from annotators.grade.entailment import CaptionEntailment, EntailmentModel, EntailmentProbabilities
from annotators.grade.judge import GradeCase
from annotators.prompting import read_json_reply
from ares.annotation import Cost
from ares.episode import Json
from ares.rubric import (
    ATTRIBUTES,
    VERBS,
    NounPhrase,
    ParsedCaption,
    claims_slot,
    contradicts,
    parse_caption,
    slot_matches,
    unsupported_claims,
)

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
        **{name: _observed_part(getattr(read, name), seconds) for name in _PARTS},
        objects=tuple(_observed_part(form, seconds) for form in read.objects),
    )


def _observed_part(
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


# Verbs that name things, too.
_NAMES = """plug lock screw hammer brush iron clip hook tape saw drill nail cap cover stack pile can pot box bag pack
mop sponge switch button handle wheel ring tie wrap seal stamp staple label light crank slide cut press position hold
set grip reach touch twist push pull turn return"""
_THINGS = frozenset(_NAMES.split())
_ARTICLES = frozenset({"the", "a", "an", "its"})
# No name of a thing opens with one of these: "the from button".
_NO_NAMES = _ARTICLES | frozenset(
    {"on", "onto", "upon", "in", "into", "to", "at", "toward", "towards", "under", "beneath", "over", "from"}
    | {"off", "of", "by", "with", "around", "and", "then", "it"}
)
_AUXILIARIES = frozenset({"is", "are", "was", "were", "be", "been", "being", "gets", "got", "has", "have"})
# After one of these, and before an article, any word may be a verb: "to knock", "stick the".
_BEFORE_VERBS = frozenset({"to", "is", "are", "was", "were", "and", "then", "a"})


def is_out_of_order(caption: ParsedCaption, observed: Collection[ParsedCaption]) -> bool:
    """Whether articles and attributes stand where nothing can follow them, or verbs and names change places.

    Args:
        caption: What the parser makes of the caption.
        observed: What it makes of what was seen, whose nouns may be written as verbs are ("the lock").
    """
    nouns = {word for phrase in observed for word in _noun_words(phrase)}
    words = caption.phrase.replace(",", " , ").split()
    if not words:
        return False
    if words[-1] in _ARTICLES or any(_cannot_follow(word, after) for word, after in pairwise(words)):
        return True
    # "door safe the close"
    if words[-2:-1] == ["the"] and words[-1] in VERBS - nouns - _THINGS:
        return True
    return (
        _is_name(words)
        or _has_name_as_verb(caption, words, nouns)
        or _has_verb_as_name(caption, words, nouns)
    )


def _is_name(words: Sequence[str]) -> bool:
    """Whether nothing but a thing is named: "the red faucet handle"."""
    forms = {word.removesuffix(ending) for word in words for ending in ("", "s", "es", "ed", "ing")}
    return words[0] in _ARTICLES and not forms & (VERBS | _AUXILIARIES)


def _cannot_follow(word: str, after: str) -> bool:
    return (word in _ARTICLES and after in _NO_NAMES | {","}) or (word in ATTRIBUTES and after in _ARTICLES)


def _has_name_as_verb(caption: ParsedCaption, words: Sequence[str], nouns: Collection[str]) -> bool:
    """Whether a name or an attribute is taken for an action, and nothing follows that could be its object."""
    acts = {event.verb for event in caption.events}
    followed = {word for word, after in pairwise(words) if after in _ARTICLES | {"it"}}
    return bool(acts & ATTRIBUTES or (acts & set(nouns)) - VERBS - followed)


def _has_verb_as_name(caption: ParsedCaption, words: Sequence[str], nouns: Collection[str]) -> bool:
    """Whether an action is taken for a name where none can stand."""
    as_verbs = {after for word, after in pairwise(words) if word in _BEFORE_VERBS}
    return any(word in VERBS - set(nouns) - _THINGS - as_verbs for word in _noun_words(caption))


def _noun_words(slots: ParsedCaption) -> Iterator[str]:
    for phrase in _noun_phrases(slots):
        yield phrase.head
        yield from phrase.modifiers


def _noun_phrases(slots: ParsedCaption) -> Iterator[NounPhrase]:
    yield from slots.objects
    yield from slots.sources
    yield from (relation.noun_phrase for relation in slots.destinations)


# A model of texts that is less sure than this of what follows leaves the claim to the frames.
LEAST_ENTAILED = 0.8
NOT_VISIBLE_REASON = "not visible in the observation"
NEUTRAL, OTHERWISE = "the observation leaves it open", "the observation says otherwise"
NO_PART, PERSON = "the observation has no such part", "the observation says that a person acts"
EQUAL, FOLLOWS = "the observation says the same", "follows from the observation"
_cached_parse = lru_cache(maxsize=50_000)(parse_caption)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAgreement:
    """A claim of a caption that the observation bears out.

    Attributes:
        reason: Why.
        part: The part of the observation that it rests on.
        confidence: How sure it is, 0 to 1.
    """

    reason: str
    part: ObservedPart
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationComparison:
    """A caption against an observation.

    Attributes:
        agreed: What is borne out, by id of the criterion.
        contested: Why the others are not, by id of the criterion.
        cost: What the comparison cost, whenever it was paid.
        paid: What was paid for it now.
    """

    agreed: Mapping[str, ObservedAgreement]
    contested: Mapping[str, str]
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)


class _ReadObservation:
    """An observation as phrases that the parser reads as it reads captions."""

    def __init__(self, observation: Observation) -> None:
        self.observation = observation
        action = observation.action.text.strip(" .")
        more = [
            part.text.strip(" .")
            for part in (observation.where_from, observation.where_to)
            if part.is_visible and part.text.strip(" .").lower() not in action.lower()
        ]
        self.sentence = " ".join([action, *more])
        self.things = "move " + " and ".join(
            " ".join(["the", *part.attributes, part.text]) for part in observation.objects if part.is_visible
        )

    @cached_property
    def slots(self) -> ParsedCaption:
        return _cached_parse(self.sentence)

    @cached_property
    def with_manner(self) -> ParsedCaption:
        manner = self.observation.manner
        return _cached_parse(f"{self.sentence} {manner.text}" if manner.is_visible else self.sentence)

    @cached_property
    def actor(self) -> str:
        """Who acts, as the parser names it: "" for the robot."""
        actor = self.observation.actor
        return _cached_parse(f"{actor.text} moves it").actor if actor.is_visible else ""

    def part(self, slot: str) -> ObservedPart:
        """The part of the observation that says something of a slot."""
        observation = self.observation
        parts = {
            "destination": observation.where_to,
            "source": observation.where_from,
            "manner": observation.manner,
            "outcome": observation.outcome,
        }
        if slot == "attributes":
            return _join_parts(observation.objects)
        return parts.get(slot, observation.action)

    def is_readable(self, slot: str) -> bool:
        """Whether the observation says something of a slot that can be compared."""
        action = self.observation.action
        return action.is_visible and not self.slots.is_negated and self.part(slot).is_visible

    def premise(self, slot: str) -> str:
        """What a model of texts is told of a slot."""
        if slot == "manner":
            return f"{self.sentence} {self.observation.manner.text}"
        return self.things if slot == "attributes" else self.sentence

    def equals(self, slot: str, claimed: ParsedCaption) -> bool:
        """Whether the parser finds that every part of the observation which states a slot supports its claims."""
        if slot == "attributes":
            return slot_matches(slot, claimed, _cached_parse(self.things))
        if slot == "manner":
            return slot_matches(slot, claimed, self.with_manner)
        observed = [self.slots]
        if slot in ("destination", "source"):
            end = _cached_parse(f"move it {self.part(slot).text}")
            observed = [end, *([self.slots] if claims_slot(slot, self.slots) else [])]
        return all(slot_matches(slot, claimed, parsed) for parsed in observed)

    def adds_claims(self, claimed: ParsedCaption) -> bool:
        """Whether a caption says something of manner or actor, or says something twice, that was not observed."""
        unsupported = set(unsupported_claims(claimed, self.with_manner)) - {self.actor}
        return bool(unsupported) or len(set(claimed.events)) < len(claimed.events)

    def ends_as(self, claimed: ParsedCaption) -> bool:
        """Whether the action that was seen ends as the caption says of its own."""
        is_completed = self.observation.outcome.text == COMPLETED
        return claimed.outcome != "attempt" and (claimed.outcome == "success") == is_completed


def _join_parts(parts: Sequence[ObservedPart]) -> ObservedPart:
    """Several visible parts as one, as sure as the least sure of them."""
    visible = [part for part in parts if part.is_visible]
    if not visible:
        return ObservedPart(text="not visible")
    return ObservedPart(
        text=", ".join(" ".join([*part.attributes, part.text]) for part in visible),
        seconds=tuple(sorted({second for part in visible for second in part.seconds})),
        confidence=min(part.confidence for part in visible),
    )


def compare_captions_with_observations(
    cases: Sequence[GradeCase], observations: Sequence[Observation], model: EntailmentModel | None
) -> list[ObservationComparison | PaidFailure]:
    """What the observations bear out of the claims of each case; the model is asked about all cases at once.

    Args:
        cases: The captions.
        observations: What was seen in the frames of each.
        model: What rules on claims in other words; None where they are all contested.
    """
    comparisons = [
        _Comparison(case, _ReadObservation(observation))
        for case, observation in zip(cases, observations, strict=True)
    ]
    questions = [question for comparison in comparisons for question in comparison.questions]
    pairs = [(premise, case_text) for premise, case_text, _ in questions]
    answers = iter(model.compare(pairs, [slots for _, _, slots in questions]) if model and questions else ())
    return [
        comparison.result([next(answers) for _ in comparison.questions] if model else [])
        for comparison in comparisons
    ]


class _Comparison:
    """One caption against one observation, criterion by criterion."""

    def __init__(self, case: GradeCase, seen: _ReadObservation) -> None:
        self._case, self._seen = case, seen
        self._agreed: dict[str, ObservedAgreement] = {}
        self._contested: dict[str, str] = {}
        # Ids of the criteria that the model of texts is asked about, by slot.
        self._open: dict[str, list[str]] = {}
        is_heap = is_out_of_order(case.slots, [seen.slots])
        for criterion in case.criteria:
            self._compare(criterion.id, criterion.slot or "", is_heap)

    def _compare(self, name: str, slot: str, is_heap: bool) -> None:
        claimed, seen = self._case.slots, self._seen
        problem = self._problem(slot)
        if problem:
            self._contested[name] = problem
        elif slot == "outcome":
            self._contested[name] = NEUTRAL if seen.ends_as(claimed) else OTHERWISE
        elif slot == "additions" and seen.adds_claims(claimed):
            self._contested[name] = OTHERWISE
        elif seen.equals(slot, claimed):
            self._agree(name, slot, EQUAL, 1.0)
        elif is_heap or claimed.is_negated or contradicts(slot, claimed, seen.slots):
            self._contested[name] = OTHERWISE
        else:
            self._contested[name] = NEUTRAL
            self._open.setdefault(slot, []).append(name)

    def _problem(self, slot: str) -> str:
        """Why the observation cannot be compared with the caption in a slot, or ""."""
        if not slot:
            return NO_PART
        if self._seen.actor == "person":
            return PERSON
        return "" if self._seen.is_readable(slot) else NOT_VISIBLE_REASON

    def _agree(self, name: str, slot: str, reason: str, entailed: float) -> None:
        part = self._seen.part(slot)
        confidence = round(part.confidence * entailed, 4)
        self._agreed[name] = ObservedAgreement(reason=reason, part=part, confidence=confidence)
        self._contested.pop(name, None)

    @cached_property
    def questions(self) -> list[tuple[str, str, list[str]]]:
        """What the model of texts is asked: premise, caption and slots."""
        by_premise: dict[str, list[str]] = {}
        for slot in self._open:
            by_premise.setdefault(self._seen.premise(slot), []).append(slot)
        return [(premise, self._case.text, slots) for premise, slots in by_premise.items()]

    def result(
        self, answers: Sequence[CaptionEntailment | PaidFailure]
    ) -> ObservationComparison | PaidFailure:
        """The comparison, with the answers to its questions."""
        answered = [answer for answer in answers if isinstance(answer, CaptionEntailment)]
        paid = sum((answer.paid for answer in answered), Cost())
        failures = [answer for answer in answers if isinstance(answer, PaidFailure)]
        if failures:
            return PaidFailure(failures[0].error, sum((failure.cost for failure in failures), paid))
        for (_, _, slots), answer in zip(self.questions, answered, strict=False):
            for slot in slots:
                self._add_answer(slot, answer.slot(slot))
        self._compare_outcomes()
        return ObservationComparison(
            agreed=self._agreed,
            contested=self._contested,
            cost=sum((answer.cost for answer in answered), Cost()),
            paid=paid,
        )

    def _add_answer(self, slot: str, entailment: EntailmentProbabilities) -> None:
        for name in self._open[slot]:
            if entailment.entailed >= LEAST_ENTAILED:
                self._agree(name, slot, FOLLOWS, entailment.entailed)
            elif entailment.contradicted > entailment.neutral:
                self._contested[name] = OTHERWISE

    def _compare_outcomes(self) -> None:
        """An outcome is that of the action that was seen: it says nothing of another one."""
        claimed, seen = self._case.slots, self._seen
        agreed = {criterion.slot for criterion in self._case.criteria if criterion.id in self._agreed}
        is_same = all(slot in agreed or seen.equals(slot, claimed) for slot in ("verb", "object"))
        for criterion in self._case.criteria:
            if criterion.slot == "outcome" and self._contested.get(criterion.id) == NEUTRAL and is_same:
                self._agree(criterion.id, "outcome", EQUAL, 1.0)
