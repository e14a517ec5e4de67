"""Which values of a slot are known to differ: words that may name one thing make no near miss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import combinations
from typing import Any

from ares.rubric.slots import SlotName, SlotValues, normalize_value, shipped_verbs

# Slots whose values name things: what two of them are called is compared whichever slot they stand in.
_THINGS: tuple[SlotName, ...] = ("object", "from", "to")
# fmt: off
_SMALL_WORDS = frozenset(
    [
        "a", "an", "the", "its", "of", "on", "onto", "in", "into", "inside", "to", "at", "from", "off", "out", "and",
        "with", "by", "up", "down", "under", "over", "behind", "beside", "next",
    ]
)
# fmt: on
# The values of a dataset are compared with one another again and again.
_KEPT_VALUES = 10_000


@lru_cache(_KEPT_VALUES)
def content_words(text: str) -> tuple[str, ...]:
    """The words of a value that say something, in order."""
    return tuple(word for word in normalize_value(text).split() if word not in _SMALL_WORDS)


class KnownDifferences:
    """What the texts of a dataset say about which of their values are the same.

    Two names that two texts give to one slot of one episode may be two names of one thing: nobody knows which of the
    texts is wrong, if one is. Two names in two slots of one sentence are names of two things.

    Args:
        statements: What instructions and captions state of each episode, each as slots.
    """

    def __init__(self, statements: Iterable[Sequence[SlotValues]] = ()) -> None:
        self._alike: set[frozenset[str]] = set()
        self._different: set[frozenset[str]] = set()
        for texts in statements:
            for text in texts:
                self._add_sentence(text)
            for first, second in combinations(texts, 2):
                self._add_pair(first, second)

    def may_be_the_same(self, slot: SlotName, first: str, second: str) -> bool:
        """Whether two values of a slot may both be true of one episode, as far as anybody knows."""
        pairs = _name_pairs(first, second)
        if any(len(pair) == 1 or pair in _alike_pairs() for pair in pairs):
            return True
        return slot in _THINGS and any(pair in self._alike for pair in pairs)

    def are_different(self, slot: SlotName, first: str, second: str) -> bool:
        """Whether two values are known to name two things."""
        if self.may_be_the_same(slot, first, second):
            return False
        pairs = _name_pairs(first, second)
        are_known = all(
            any(name in _known_names() for name in _value_names(value)) for value in (first, second)
        )
        return are_known or any(pair in self._different for pair in pairs)

    def _add_sentence(self, slots: SlotValues) -> None:
        stated = [slots[slot] for slot in _THINGS if slots.get(slot)]
        for first, second in combinations(stated, 2):
            self._different |= _name_pairs(first, second)

    def _add_pair(self, slots: SlotValues, others: SlotValues) -> None:
        for slot in _THINGS:
            if slots.get(slot) and others.get(slot):
                self._alike |= _name_pairs(slots[slot], others[slot])


def is_vague(value: str) -> bool:
    """Whether a value is a word that fits many things."""
    words = content_words(value)
    return bool(words) and words[-1] in _load_lists()["vague"]


def is_known_action(action: str) -> bool:
    """Whether an action is a verb of the shipped guide, whose meaning is known."""
    return normalize_value(action) in shipped_verbs()


def _value_names(value: str) -> set[str]:
    """A value without its relation, and its last word, which says what it is."""
    words = content_words(value)
    return {" ".join(words), words[-1]} if words else set()


@lru_cache(_KEPT_VALUES)
def _name_pairs(first: str, second: str) -> frozenset[frozenset[str]]:
    return frozenset(
        frozenset((name, other)) for name in _value_names(first) for other in _value_names(second)
    )


@cache
def _load_lists() -> Mapping[str, Any]:
    import yaml

    text = files("ares.rubric").joinpath("alike_things.yaml").read_text("utf-8")
    document: Mapping[str, Any] = yaml.safe_load(text)
    return document


@cache
def _alike_pairs() -> frozenset[frozenset[str]]:
    return frozenset(frozenset(pair) for row in _load_lists()["alike"] for pair in combinations(row, 2))


@cache
def _known_names() -> frozenset[str]:
    return frozenset(name for row in _load_lists()["alike"] for name in row)
