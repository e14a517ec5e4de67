"""Compares a caption with what was observed: by equality first, then by a model of texts; what is left is contested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from annotators.base import PaidFailure
from annotators.grade.entailment import Entailment, EntailmentModel, PairEntailment
from annotators.grade.judge import Case
from annotators.grade.observation.form import COMPLETED, Observation, ObservedPart
from annotators.grade.word_order import is_out_of_order
from ares.annotation import Cost
from ares.rubric import CaptionSlots, contradicts, is_stated, parse_caption, slot_matches, unsupported_claims

# A model of texts that is less sure than this of what follows leaves the claim to the frames.
LEAST_ENTAILED = 0.8
NOT_VISIBLE_REASON = "not visible in the observation"
NEUTRAL, OTHERWISE = "the observation leaves it open", "the observation says otherwise"
NO_PART, PERSON = "the observation has no such part", "the observation says that a person acts"
EQUAL, FOLLOWS = "the observation says the same", "follows from the observation"
_cached_parse = lru_cache(maxsize=50_000)(parse_caption)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
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

    agreed: Mapping[str, Agreement]
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
    def slots(self) -> CaptionSlots:
        return _cached_parse(self.sentence)

    @cached_property
    def with_manner(self) -> CaptionSlots:
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
            return _joint(observation.objects)
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

    def equals(self, slot: str, claimed: CaptionSlots) -> bool:
        """Whether the parser finds that every part of the observation which states a slot supports its claims."""
        if slot == "attributes":
            return slot_matches(slot, claimed, _cached_parse(self.things))
        if slot == "manner":
            return slot_matches(slot, claimed, self.with_manner)
        observed = [self.slots]
        if slot in ("destination", "source"):
            end = _cached_parse(f"move it {self.part(slot).text}")
            observed = [end, *([self.slots] if is_stated(slot, self.slots) else [])]
        return all(slot_matches(slot, claimed, parsed) for parsed in observed)

    def adds_claims(self, claimed: CaptionSlots) -> bool:
        """Whether a caption says something of manner or actor, or says something twice, that was not observed."""
        unsupported = set(unsupported_claims(claimed, self.with_manner)) - {self.actor}
        return bool(unsupported) or len(set(claimed.events)) < len(claimed.events)

    def ends_as(self, claimed: CaptionSlots) -> bool:
        """Whether the action that was seen ends as the caption says of its own."""
        is_completed = self.observation.outcome.text == COMPLETED
        return claimed.outcome != "attempt" and (claimed.outcome == "success") == is_completed


def _joint(parts: Sequence[ObservedPart]) -> ObservedPart:
    """Several visible parts as one, as sure as the least sure of them."""
    visible = [part for part in parts if part.is_visible]
    if not visible:
        return ObservedPart(text="not visible")
    return ObservedPart(
        text=", ".join(" ".join([*part.attributes, part.text]) for part in visible),
        seconds=tuple(sorted({second for part in visible for second in part.seconds})),
        confidence=min(part.confidence for part in visible),
    )


def compare_with_observations(
    cases: Sequence[Case], observations: Sequence[Observation], model: EntailmentModel | None
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

    def __init__(self, case: Case, seen: _ReadObservation) -> None:
        self._case, self._seen = case, seen
        self._agreed: dict[str, Agreement] = {}
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
        self._agreed[name] = Agreement(reason=reason, part=part, confidence=confidence)
        self._contested.pop(name, None)

    @cached_property
    def questions(self) -> list[tuple[str, str, list[str]]]:
        """What the model of texts is asked: premise, caption and slots."""
        by_premise: dict[str, list[str]] = {}
        for slot in self._open:
            by_premise.setdefault(self._seen.premise(slot), []).append(slot)
        return [(premise, self._case.text, slots) for premise, slots in by_premise.items()]

    def result(self, answers: Sequence[PairEntailment | PaidFailure]) -> ObservationComparison | PaidFailure:
        """The comparison, with the answers to its questions."""
        answered = [answer for answer in answers if isinstance(answer, PairEntailment)]
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

    def _add_answer(self, slot: str, entailment: Entailment) -> None:
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
