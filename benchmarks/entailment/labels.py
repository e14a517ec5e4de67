"""What each slot of a caption is against what is observed: contradicted, neutral, entailed or not stated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.entailment.lexicon import CONTRADICTED, ENTAILED, NEUTRAL, Lexicon, Reading
from benchmarks.entailment.meanings import Caption, Event, Noun

SLOTS = (
    "verb",
    "object",
    "destination",
    "source",
    "attributes",
    "direction",
    "manner",
    "additions",
    "complete",
)
NOT_STATED = 3


def label(lexicon: Lexicon, observed: Sequence[Event], caption: Caption) -> tuple[int, ...]:
    """The labels of a caption per slot of SLOTS; those of additions and of what is missing follow from the rest."""
    matches = [_match(lexicon, observed, event) for event in caption.events]
    nouns = [noun for event in observed for noun in event.nouns]
    labels: dict[str, int] = {
        "verb": min(_verb(lexicon, seen, claim) for seen, claim in matches),
        "object": _worst(
            _best(lexicon, claim.thing, [seen.thing, seen.more]) for seen, claim in matches if claim.thing
        ),
        "destination": _worst(_end(lexicon, seen.goal, claim.goal) for seen, claim in matches if claim.goal),
        "source": _worst(_source(lexicon, seen, claim) for seen, claim in matches if claim.source),
        "attributes": _worst(
            _attributes(lexicon, nouns, noun)
            for _, claim in matches
            for noun in claim.nouns
            if noun.attributes
        ),
        "direction": _worst(
            lexicon.direction_relation(_direction(lexicon, seen), claim.direction)
            for seen, claim in matches
            if claim.direction
        ),
        "manner": NEUTRAL
        if caption.manners
        else _worst(_ways(lexicon, seen, claim) for seen, claim in matches),
    }
    more = [_best(lexicon, claim.more, [seen.thing, seen.more]) for seen, claim in matches if claim.more]
    labels["object"] = min(labels["object"], *more) if more else labels["object"]
    labels["additions"] = _additions(lexicon, nouns, caption, labels)
    labels["complete"] = _complete(lexicon, observed, caption)
    return tuple(labels[slot] for slot in SLOTS)


def _worst(labels: Iterable[int]) -> int:
    return min(labels, default=NOT_STATED)


def _ways(lexicon: Lexicon, seen: Event, claim: Event) -> int:
    """How the way past a thing, the tool and the side that a claimed action comes from stand to the observed ones."""
    found = [NOT_STATED]
    if claim.path:
        same = seen.path and min(
            lexicon.path_relation(seen.path[0], claim.path[0]), _noun(lexicon, seen.path[1], claim.path[1])
        )
        found.append(NEUTRAL if same is None else same)
    if claim.tool:
        found.append(_noun(lexicon, seen.tool, claim.tool) if seen.tool else NEUTRAL)
    if claim.approach:
        found.append(
            ENTAILED if seen.approach == claim.approach else CONTRADICTED if seen.approach else NEUTRAL
        )
    return min(found)


def _match(lexicon: Lexicon, observed: Sequence[Event], claim: Event) -> tuple[Event, Event]:
    """The observed event that fits a claimed one best."""

    def fit(seen: Event) -> tuple[int, int]:
        return _verb(lexicon, seen, claim), _best(
            lexicon, claim.thing, [seen.thing]
        ) if claim.thing else NEUTRAL

    return max(observed, key=fit), claim


def _verb(lexicon: Lexicon, seen: Event, claim: Event) -> int:
    if claim.wrong_verb:
        return CONTRADICTED
    if seen.is_unknown or claim.is_unknown:
        return ENTAILED if seen.verb == claim.verb else NEUTRAL
    thing = seen.thing.key if seen.thing else ""
    return lexicon.wording_relation(
        Reading(seen.action, seen.verb), Reading(claim.action, claim.verb), thing, bool(seen.goal)
    )


def _best(lexicon: Lexicon, claim: Noun | None, observed: Sequence[Noun | None]) -> int:
    return max((_noun(lexicon, seen, claim) for seen in observed if seen and claim), default=NEUTRAL)


def _noun(lexicon: Lexicon, seen: Noun, claim: Noun) -> int:
    if seen.name == claim.name:
        relation = ENTAILED
    elif seen.is_unknown or claim.is_unknown:
        return NEUTRAL
    else:
        relation = lexicon.thing_relation(seen.key, claim.key)
    if relation == ENTAILED and claim.owner and claim.owner != seen.owner:
        return min(lexicon.thing_relation(seen.owner, claim.owner), NEUTRAL) if seen.owner else NEUTRAL
    if relation == ENTAILED and claim.modifier and claim.modifier != seen.modifier:
        return NEUTRAL if not seen.modifier else CONTRADICTED
    return relation


def _end(lexicon: Lexicon, seen: tuple[str, Noun] | None, claim: tuple[str, Noun] | None) -> int:
    if not seen or not claim:
        return NEUTRAL
    relation = lexicon.relation_relation(seen[0], claim[0], seen[1].key)
    return min(relation, _noun(lexicon, seen[1], claim[1]))


def _source(lexicon: Lexicon, seen: Event, claim: Event) -> int:
    if not claim.source:
        return NOT_STATED
    if not seen.source:
        is_turned = seen.goal and _noun(lexicon, seen.goal[1], claim.source[1]) == ENTAILED
        return CONTRADICTED if is_turned else NEUTRAL
    return _noun(lexicon, seen.source[1], claim.source[1])


def _attributes(lexicon: Lexicon, observed: Sequence[Noun], claim: Noun) -> int:
    fits = [(_noun(lexicon, seen, claim), seen) for seen in observed]
    best = max((fit for fit, _ in fits), default=CONTRADICTED)
    if best != ENTAILED:
        return NEUTRAL
    return max(
        min(
            lexicon.attribute_relation(seen.attributes, kind, value)
            for kind, value in claim.attributes.items()
        )
        for fit, seen in fits
        if fit == best
    )


def _direction(lexicon: Lexicon, seen: Event) -> str:
    action = lexicon.actions.get(seen.action)
    return seen.direction or (action.direction if action else "")


def _additions(lexicon: Lexicon, nouns: Sequence[Noun], caption: Caption, labels: Mapping[str, int]) -> int:
    things = [_best(lexicon, noun, nouns) for event in caption.events for noun in event.nouns]
    worst = min([labels["verb"], *things])
    if labels["manner"] in (CONTRADICTED, NEUTRAL):
        worst = min(worst, labels["manner"])
    if caption.is_repeated or labels["source"] == CONTRADICTED:
        return CONTRADICTED
    return min(worst, NEUTRAL) if caption.manners or caption.actor != "robot" else worst


def _complete(lexicon: Lexicon, observed: Sequence[Event], caption: Caption) -> int:
    return min(max(_covers(lexicon, seen, claim) for claim in caption.events) for seen in observed)


def _covers(lexicon: Lexicon, seen: Event, claim: Event) -> int:
    """Whether a claimed event says all of an observed one: its action, its thing and where it is put."""
    verb = _verb(lexicon, seen, claim)
    is_part = claim.action == "vague" or claim.action in lexicon.actions[seen.action].part
    if verb == CONTRADICTED or (is_part and not claim.is_unknown and not seen.is_unknown):
        return CONTRADICTED
    action = lexicon.actions[seen.action]
    if (
        (seen.thing and not claim.thing)
        or (seen.more and not claim.more)
        or ("D" in action.args and not claim.goal)
    ):
        return CONTRADICTED
    thing = _best(lexicon, seen.thing, [claim.thing, claim.more]) if seen.thing and claim.thing else ENTAILED
    back = _best(lexicon, claim.thing, [seen.thing, seen.more]) if seen.thing and claim.thing else ENTAILED
    # A caption may leave out what an action is done with, but then it says less.
    tool = NEUTRAL if seen.tool and not claim.tool else ENTAILED
    return min(verb, tool, max(thing, back))


ESSENTIAL = ("verb", "object", "destination", "attributes", "direction", "additions", "complete")


def whole(caption: Caption, labels: Sequence[int]) -> int:
    """What the caption is as a whole: as its worst essential slot; negated, it is contradicted."""
    stated = [
        label for slot, label in zip(SLOTS, labels, strict=True) if slot in ESSENTIAL and label != NOT_STATED
    ]
    return CONTRADICTED if caption.is_negated else min(stated)
