"""Compares two parsed captions slot by slot: whether one supports or contradicts the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from ares.rubric import lexicon
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


def unsupported_claims(claimed: ParsedCaption, observed: ParsedCaption) -> list[str]:
    """What a caption says of the manner and of who acts that the words of an observation do not say."""
    words = {word for manner in observed.manner for word in manner.split()}
    words |= set(observed.phrase.replace(",", " ").split()) | {noun.head for noun in observed.noun_phrases}
    manners = [
        manner
        for event in claimed.events
        for manner in sorted(event.manner)
        if not set(manner.split()) - lexicon.MANNER_WORDS <= words
    ]
    actors = [claimed.actor] if claimed.actor not in ("", observed.actor) else []
    return [*actors, *manners]


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


_OPPOSITE_ACTIONS = (("open", "close"), ("push", "pull"), ("lock", "unlock"), ("insert", "unplug"))
_OPPOSITE_DIRECTIONS = (
    ("up", "down"),
    ("left", "right"),
    ("forward", "back"),
    ("clockwise", "counterclockwise"),
)


# Who puts a thing somewhere has picked it up, whether that is said or not.
_IMPLY_PICKING = frozenset({"place", "insert", "stack", "hang"})


def contradicts(slot: str, claimed: ParsedCaption, observed: ParsedCaption) -> bool:
    """Whether the claims in a slot cannot be true of what was observed, whatever other words may mean.

    Args:
        slot: Name of the slot; those of which code knows nothing contradict never.
        claimed: A caption.
        observed: An observed action.
    """
    if slot == "verb":
        return _are_opposite(claimed.verbs, observed.verbs, _OPPOSITE_ACTIONS)
    if slot == "direction":
        return _are_opposite(claimed.directions, observed.directions, _OPPOSITE_DIRECTIONS)
    if slot in ("destination", "source", "additions"):
        return is_reversed(claimed, observed) or is_reversed(observed, claimed)
    return slot == "complete" and _is_part(claimed, observed)


def _are_opposite(
    claimed: Collection[str], observed: Collection[str], opposites: Collection[tuple[str, str]]
) -> bool:
    """Whether one says what is the opposite of what the other says, and what that does not say as well."""
    return any(
        ours in claimed and theirs in observed and ours not in observed and theirs not in claimed
        for pair in opposites
        for ours, theirs in (pair, pair[::-1])
    )


def _is_part(claimed: ParsedCaption, observed: ParsedCaption) -> bool:
    """Whether a caption says some of the observed actions in the same words, and leaves out others."""
    stated, seen = Counter(claimed.verbs), Counter(observed.verbs)
    if _IMPLY_PICKING & stated.keys():
        seen["pick"] = stated["pick"]
    return bool(stated) and stated < seen and slot_matches("additions", claimed, observed)
