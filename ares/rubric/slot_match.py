"""Compares two parsed captions slot by slot: whether one supports the claims of the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ares.rubric.caption_parser import CaptionSlots, NounPhrase, Relation


def slot_matches(slot: str, claimed: CaptionSlots, observed: CaptionSlots) -> bool:
    """Whether the observed action supports the claims in one slot; the same phrase always does."""
    return claimed.phrase == observed.phrase or _MATCHERS[slot](claimed, observed)


def is_stated(slot: str, claimed: CaptionSlots) -> bool:
    """Whether the caption makes any claim in that slot."""
    return bool(_CLAIMS[slot](claimed))


def _same_object(claimed: NounPhrase, observed: NounPhrase) -> bool:
    """Whether both have the same head, and no modifiers that contradict each other."""
    if claimed.head != observed.head:
        return False
    return not claimed.modifiers or not observed.modifiers or bool(claimed.modifiers & observed.modifiers)


def _all_observed(claimed: Collection[NounPhrase], observed: Collection[NounPhrase]) -> bool:
    return all(any(_same_object(claim, candidate) for candidate in observed) for claim in claimed)


def _objects_match(claimed: CaptionSlots, observed: CaptionSlots) -> bool:
    return bool(claimed.objects) and _all_observed(claimed.objects, observed.objects)


def _relation_observed(claim: Relation, observed: Collection[Relation]) -> bool:
    return any(
        claim.relation == candidate.relation and _same_object(claim.noun_phrase, candidate.noun_phrase)
        for candidate in observed
    )


def _destinations_match(claimed: CaptionSlots, observed: CaptionSlots) -> bool:
    return all(_relation_observed(claim, observed.destinations) for claim in claimed.destinations)


def _attributes_match(claimed: CaptionSlots, observed: CaptionSlots) -> bool:
    """Whether every noun phrase with attributes is observed with all of them."""
    return all(
        any(
            _same_object(claim, candidate) and claim.attributes <= candidate.attributes
            for candidate in observed.noun_phrases
        )
        for claim in _with_attributes(claimed)
    )


def _with_attributes(claimed: CaptionSlots) -> list[NounPhrase]:
    return [noun_phrase for noun_phrase in claimed.noun_phrases if noun_phrase.attributes]


def _no_additions(claimed: CaptionSlots, observed: CaptionSlots) -> bool:
    """Whether every claimed action and object was observed."""
    same_verbs = set(claimed.verbs) <= set(observed.verbs)
    return same_verbs and _all_observed(claimed.noun_phrases, observed.noun_phrases)


_MATCHERS: Mapping[str, Callable[[CaptionSlots, CaptionSlots], bool]] = {
    "verb": lambda claimed, observed: claimed.verbs == observed.verbs,
    "object": _objects_match,
    "destination": _destinations_match,
    "source": lambda claimed, observed: _all_observed(claimed.sources, observed.sources),
    "attributes": _attributes_match,
    "direction": lambda claimed, observed: claimed.directions <= observed.directions,
    "manner": lambda claimed, observed: claimed.manner <= observed.manner,
    "additions": _no_additions,
}
_CLAIMS: Mapping[str, Callable[[CaptionSlots], object]] = {
    "verb": lambda claimed: claimed.events,
    "object": lambda claimed: claimed.objects,
    "destination": lambda claimed: claimed.destinations,
    "source": lambda claimed: claimed.sources,
    "attributes": _with_attributes,
    "direction": lambda claimed: claimed.directions,
    "manner": lambda claimed: claimed.manner,
    "additions": lambda claimed: claimed.phrase,
    "outcome": lambda claimed: claimed.phrase,
}
