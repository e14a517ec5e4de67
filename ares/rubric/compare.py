"""Compare: does one action phrase bear out what another claims, slot by slot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ares.rubric.slots import Place, Slots, Thing


def fits(slot: str, claimed: Slots, seen: Slots) -> bool:
    """Whether what was seen bears out what is claimed in that slot; the same words always do."""
    return claimed.phrase == seen.phrase or _FITS[slot](claimed, seen)


def stated(slot: str, claimed: Slots) -> bool:
    """Whether the caption says anything in that slot."""
    return bool(_STATED[slot](claimed))


def _same_thing(claimed: Thing, seen: Thing) -> bool:
    """Same head, and neither names a part or kind that contradicts the other's."""
    if claimed.head != seen.head:
        return False
    return not claimed.modifiers or not seen.modifiers or bool(claimed.modifiers & seen.modifiers)


def _all_among(claimed: Collection[Thing], seen: Collection[Thing]) -> bool:
    return all(any(_same_thing(one, other) for other in seen) for one in claimed)


def _objects(claimed: Slots, seen: Slots) -> bool:
    return bool(claimed.objects) and _all_among(claimed.objects, seen.objects)


def _place_among(place: Place, seen: Collection[Place]) -> bool:
    return any(place.relation == other.relation and _same_thing(place.thing, other.thing) for other in seen)


def _destinations(claimed: Slots, seen: Slots) -> bool:
    return all(_place_among(place, seen.destinations) for place in claimed.destinations)


def _attributes(claimed: Slots, seen: Slots) -> bool:
    """Every attributed thing has a thing of that name that does not carry other attributes."""
    attributed = [thing for thing in claimed.things if thing.attributes]
    return all(
        any(_same_thing(thing, other) and thing.attributes <= other.attributes for other in seen.things)
        for thing in attributed
    )


def _additions(claimed: Slots, seen: Slots) -> bool:
    """Nothing is named and nothing done that was not seen."""
    return set(claimed.verbs) <= set(seen.verbs) and _all_among(claimed.things, seen.things)


_FITS: Mapping[str, Callable[[Slots, Slots], bool]] = {
    "verb": lambda claimed, seen: claimed.verbs == seen.verbs,
    "object": _objects,
    "destination": _destinations,
    "source": lambda claimed, seen: _all_among(claimed.sources, seen.sources),
    "attributes": _attributes,
    "direction": lambda claimed, seen: claimed.directions <= seen.directions,
    "manner": lambda claimed, seen: claimed.manner <= seen.manner,
    "additions": _additions,
}
_STATED: Mapping[str, Callable[[Slots], object]] = {
    "verb": lambda claimed: claimed.events,
    "object": lambda claimed: claimed.objects,
    "destination": lambda claimed: claimed.destinations,
    "source": lambda claimed: claimed.sources,
    "attributes": lambda claimed: [thing for thing in claimed.things if thing.attributes],
    "direction": lambda claimed: claimed.directions,
    "manner": lambda claimed: claimed.manner,
    "additions": lambda claimed: claimed.phrase,
    "outcome": lambda claimed: claimed.phrase,
}
