"""Compares two parsed captions slot by slot: whether one supports the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from ares.rubric.caption_parser import NounPhrase, ParsedCaption, Relation


def slot_matches(slot: str, claimed: ParsedCaption, observed: ParsedCaption) -> bool:
    """Whether the observed action supports the claims in one slot; the same phrase always does."""
    return (claimed.phrase == observed.phrase and not claimed.is_negated) or _MATCHERS[slot](
        claimed, observed
    )


def _same_object(claimed: NounPhrase, observed: NounPhrase) -> bool:
    """Whether both have the same head, and no modifiers that contradict each other."""
    if claimed.head != observed.head:
        return False
    return not claimed.modifiers or not observed.modifiers or bool(claimed.modifiers & observed.modifiers)


def _all_observed(claimed: Collection[NounPhrase], observed: Collection[NounPhrase]) -> bool:
    return all(any(_same_object(claim, candidate) for candidate in observed) for claim in claimed)


def _objects_match(claimed: ParsedCaption, observed: ParsedCaption) -> bool:
    return bool(claimed.objects) and _all_observed(claimed.objects, observed.objects)


def _relation_observed(claim: Relation, observed: Collection[Relation]) -> bool:
    return any(
        claim.relation == candidate.relation and _same_object(claim.noun_phrase, candidate.noun_phrase)
        for candidate in observed
    )


def _destinations_match(claimed: ParsedCaption, observed: ParsedCaption) -> bool:
    return all(_relation_observed(claim, observed.destinations) for claim in claimed.destinations)


def _attributes_match(claimed: ParsedCaption, observed: ParsedCaption) -> bool:
    """Whether every noun phrase with attributes is observed with all of them."""
    return all(
        any(
            _same_object(claim, candidate) and claim.attributes <= candidate.attributes
            for candidate in observed.noun_phrases
        )
        for claim in _with_attributes(claimed)
    )


def _with_attributes(claimed: ParsedCaption) -> list[NounPhrase]:
    return [noun_phrase for noun_phrase in claimed.noun_phrases if noun_phrase.attributes]


def _no_additions(claimed: ParsedCaption, observed: ParsedCaption) -> bool:
    """Whether every claimed action and object was observed; an action that is said twice happens twice."""
    no_more_actions = Counter(claimed.verbs) <= Counter(observed.verbs)
    return (
        no_more_actions
        and _all_observed(claimed.noun_phrases, observed.noun_phrases)
        and not is_reversed(claimed, observed)
        and not is_reversed(observed, claimed)
    )


def is_reversed(claimed: ParsedCaption, observed: ParsedCaption) -> bool:
    """Whether one names as the start what the other names as the end: "out of the goal" and "into the goal"."""
    ends = {relation.noun_phrase.head for relation in observed.destinations}
    starts = {noun_phrase.head for noun_phrase in observed.sources}
    return bool({noun_phrase.head for noun_phrase in claimed.sources} & (ends - starts))


def _is_complete(claimed: ParsedCaption, observed: ParsedCaption) -> bool:
    """Whether every observed action is claimed with its objects, and where something is placed with its place."""
    destinations = observed.destinations if "place" in observed.verbs else ()
    needed = [*observed.objects, *(destination.noun_phrase for destination in destinations)]
    no_action_is_missing = Counter(observed.verbs) <= Counter(claimed.verbs)
    return no_action_is_missing and _all_observed(needed, claimed.noun_phrases)


_MATCHERS: Mapping[str, Callable[[ParsedCaption, ParsedCaption], bool]] = {
    "verb": lambda claimed, observed: claimed.verbs == observed.verbs and not claimed.is_negated,
    "object": _objects_match,
    "destination": _destinations_match,
    "source": lambda claimed, observed: _all_observed(claimed.sources, observed.sources),
    "attributes": _attributes_match,
    "direction": lambda claimed, observed: claimed.directions <= observed.directions,
    "manner": lambda claimed, observed: claimed.manner <= observed.manner,
    "additions": _no_additions,
    "complete": _is_complete,
}
