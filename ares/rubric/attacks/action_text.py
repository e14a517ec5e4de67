"""A true caption taken apart by word lists of its own, so that its parts can be replaced by wrong parts.

The caption parser of the judge is not used: an attack that shares its mistakes would not show them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PREPOSITIONS = frozenset(
    (
        *(
            "to",
            "onto",
            "on",
            "into",
            "in",
            "inside",
            "at",
            "from",
            "off",
            "out",
            "under",
            "below",
            "over",
            "above",
        ),
        *(
            "around",
            "round",
            "through",
            "with",
            "by",
            "using",
            "against",
            "towards",
            "toward",
            "behind",
            "beside",
        ),
        *("next", "near", "across", "along", "past", "between", "without"),
    )
)
_PARTICLES = frozenset(
    ["up", "down", "away", "back", "forward", "sideways", "open", "closed", "left", "right"],
)
# Of these a phrase says where something ends or comes from.
_ENDINGS = frozenset(["to", "onto", "on", "into", "in", "inside", "at", "off", "out", "under", "behind"])
_ARTICLES = frozenset(["the", "a", "an", "its", "it"])
_COLOURS = frozenset(
    (
        *("red", "green", "blue", "yellow", "orange", "purple", "pink"),
        *("brown", "black", "white", "grey", "gray", "silver"),
    )
)
_OTHER_COLOURS = ("purple", "white", "cyan", "black", "yellow", "pink")
_OPPOSITES = {
    "up": "down",
    "down": "up",
    "left": "right",
    "right": "left",
    "forward": "backward",
    "backward": "forward",
    "back": "forward",
    "sideways": "straight up",
    "into": "out of",
    "above": "below",
    "front": "back",
    "clockwise": "counterclockwise",
    "side": "top",
}
# Verbs that do something clearly different, by the verb that they replace; "" for all others.
_WRONG_VERBS = {
    "open": ("close", "lock"),
    "close": ("open", "lift"),
    "push": ("pull", "lift", "unscrew"),
    "pull": ("push", "press down", "knock over"),
    "press": ("lift", "unscrew", "pull out"),
    "pick": ("knock", "roll", "wipe"),
    "lift": ("press down", "hammer", "wipe"),
    "turn": ("lift", "pull out", "wipe"),
    "slide": ("lift", "throw", "hammer"),
    "insert": ("wave", "drag", "lift"),
    "sweep": ("lift", "stack", "hang"),
    "": ("wipe", "shake", "cut", "fold", "unscrew", "throw"),
}
_WRONG_STATES = {"open": "closed", "closed": "open", "lock": "unlock", "unlock": "lock"}
# Where no other task has an object or a place to offer.
OTHER_OBJECTS = ("the striped towel", "the yellow teapot", "the wooden spoon", "the banana", "the toy car")
OTHER_DESTINATIONS = ("into the sink", "onto the windowsill", "under the chair", "into the dustbin")


@dataclass(frozen=True, slots=True)
class ActionText:
    """The words of an imperative caption, and where its object and its destination stand in them.

    Attributes:
        words: Its words in lower case, commas as words of their own.
        object: Slice of the words of the first object, or an empty one.
        destination: Slice of the words of the last phrase that says where something ends, or an
            empty one.
    """

    words: tuple[str, ...]
    object: slice
    destination: slice

    def part(self, words: slice) -> str:
        """The words of a slice as text."""
        return join_words(self.words[words])

    def with_part(self, words: slice, text: str) -> str:
        """The caption with other words in a slice."""
        return join_words([*self.words[: words.start], text, *self.words[words.stop :]])


def split_action(text: str) -> ActionText:
    """Take an imperative caption apart; parts that cannot be seen are empty."""
    words = tuple(re.findall(r"[\w'-]+|,", text.lower()))
    start = 1
    while start < len(words) and words[start] in _PARTICLES:
        start += 1
    stop = _phrase_end(words, start)
    endings = [number for number in range(1, len(words)) if words[number] in _ENDINGS]
    last = endings[-1] if endings else len(words)
    return ActionText(words, slice(start, stop), slice(last, _phrase_end(words, last + 1)))


def join_words(words: tuple[str, ...] | list[str]) -> str:
    """Words as text."""
    return " ".join(word for word in words if word).replace(" ,", ",")


def wrong_verbs(action: ActionText) -> list[str]:
    """The caption with another verb, and the state that it leads to inverted."""
    verb, *rest = action.words or ("",)
    rest = [_WRONG_STATES.get(word, word) for word in rest]
    if verb not in _WRONG_VERBS:
        rest = list(action.words[1:])
    return [join_words([other, *rest]) for other in _WRONG_VERBS.get(verb, _WRONG_VERBS[""])]


def wrong_colours(action: ActionText) -> list[str]:
    """The caption with one colour replaced."""
    return [
        action.with_part(slice(number, number + 1), colour)
        for number, word in enumerate(action.words)
        if word in _COLOURS
        for colour in _OTHER_COLOURS
        if colour not in action.words
    ]


def wrong_directions(action: ActionText) -> list[str]:
    """The caption with one direction turned round; that of "pick up" is none."""
    return [
        action.with_part(slice(number, number + 1), _OPPOSITES[word])
        for number, word in enumerate(action.words)
        if word in _OPPOSITES and action.words[number - 1] != "pick"
    ]


def third_person(text: str) -> str:
    """An imperative caption as a statement about the robot: "The robot picks up the cup and places it here." """
    words = list(split_action(text).words) or [""]
    heads = [0] + [
        number + 1 for number, word in enumerate(words[:-1]) if word in ("and", ",") and _opens(words, number)
    ]
    for number in heads:
        words[number] = _with_s(words[number])
    return f"The robot {join_words(words)}."


def _opens(words: list[str], number: int) -> bool:
    """Whether an action follows an "and": a verb, then an article or a particle."""
    after = words[number + 2] if number + 2 < len(words) else ""
    return words[number + 1] not in _ARTICLES and after in _ARTICLES | _PARTICLES | _PREPOSITIONS


def _with_s(verb: str) -> str:
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "z", "go")) else f"{verb}s"


def _phrase_end(words: tuple[str, ...], start: int) -> int:
    """Number of the first word after a phrase."""
    ends = _PREPOSITIONS | _PARTICLES | {"and", ",", "then"}
    return next((number for number in range(start, len(words)) if words[number] in ends), len(words))
