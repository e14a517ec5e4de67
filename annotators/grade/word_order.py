"""Whether words of a caption stand where they can: a model of texts overlooks their order, and would accept a heap."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ares.rubric import ATTRIBUTES, VERBS, CaptionSlots, NounPhrase

# Verbs that name things, too.
_NAMES = """plug lock screw hammer brush iron clip hook tape saw drill nail cap cover stack pile can pot box bag pack
mop sponge switch button handle wheel ring tie wrap seal stamp staple label light crank slide cut press"""
_THINGS = frozenset(_NAMES.split())


def is_out_of_order(caption: CaptionSlots, menu: Collection[CaptionSlots]) -> bool:
    """Whether the parser finds a verb where a noun belongs, or a noun or an attribute where a verb belongs.

    Args:
        caption: What the parser makes of the caption.
        menu: What it makes of the phrases of a menu, whose nouns may be written as verbs are ("the lock").
    """
    nouns = {word for phrase in menu for word in _noun_words(phrase)}
    acts = {event.verb for event in caption.events}
    if acts & ATTRIBUTES or acts & (nouns - VERBS):
        return True
    return any(word in VERBS - nouns - _THINGS for word in _noun_words(caption))


def _noun_words(slots: CaptionSlots) -> Iterator[str]:
    for phrase in _noun_phrases(slots):
        yield phrase.head
        yield from phrase.modifiers


def _noun_phrases(slots: CaptionSlots) -> Iterator[NounPhrase]:
    yield from slots.objects
    yield from slots.sources
    yield from (relation.noun_phrase for relation in slots.destinations)
