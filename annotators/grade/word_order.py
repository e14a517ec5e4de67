"""Whether words of a caption stand where they can: a model of texts overlooks their order, and would accept a heap."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from ares.rubric import ATTRIBUTES, VERBS, CaptionSlots, NounPhrase

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


def is_out_of_order(caption: CaptionSlots, observed: Collection[CaptionSlots]) -> bool:
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


def _has_name_as_verb(caption: CaptionSlots, words: Sequence[str], nouns: Collection[str]) -> bool:
    """Whether a name or an attribute is taken for an action, and nothing follows that could be its object."""
    acts = {event.verb for event in caption.events}
    followed = {word for word, after in pairwise(words) if after in _ARTICLES | {"it"}}
    return bool(acts & ATTRIBUTES or (acts & set(nouns)) - VERBS - followed)


def _has_verb_as_name(caption: CaptionSlots, words: Sequence[str], nouns: Collection[str]) -> bool:
    """Whether an action is taken for a name where none can stand."""
    as_verbs = {after for word, after in pairwise(words) if word in _BEFORE_VERBS}
    return any(word in VERBS - set(nouns) - _THINGS - as_verbs for word in _noun_words(caption))


def _noun_words(slots: CaptionSlots) -> Iterator[str]:
    for phrase in _noun_phrases(slots):
        yield phrase.head
        yield from phrase.modifiers


def _noun_phrases(slots: CaptionSlots) -> Iterator[NounPhrase]:
    yield from slots.objects
    yield from slots.sources
    yield from (relation.noun_phrase for relation in slots.destinations)
