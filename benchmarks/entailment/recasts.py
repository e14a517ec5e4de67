"""Says one action in the short forms of notes: "drawer pushed shut", "drawer: push shut", "a push of the drawer"."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.entailment.verb_forms import gerund, participle

# Forms that are no whole sentences: nobody is named in them.
TERSE = ("bare", "topic", "nominal")
_ARTICLES = ("the", "a", "an", "this", "that")
# Words that end the object of a verb.
_ENDS = frozenset(
    [
        *(
            "open",
            "closed",
            "shut",
            "up",
            "down",
            "on",
            "off",
            "in",
            "into",
            "to",
            "onto",
            "from",
            "out",
            "away",
        ),
        *(
            "with",
            "by",
            "using",
            "under",
            "over",
            "behind",
            "beside",
            "next",
            "at",
            "towards",
            "toward",
            "against",
        ),
        *("around", "apart", "upright", "inside", "left", "right", "forward", "back", "sideways", "and", ","),
        *("through", "near", "clockwise", "counterclockwise", "before", "atop", "upon", "within"),
    ]
)
_SIDES_OF_SOURCES = {"out": ("in", "inside"), "off": ("on", "on top of"), "from": ("at", "by")}


@dataclass(frozen=True, slots=True)
class Parts:
    """The words of one action with one verb: its verb, particles beside it, its thing with an article, and the rest."""

    verb: str
    particles: Sequence[str]
    thing: str
    rest: Sequence[str]


def take_apart(words: Sequence[str]) -> Parts | None:
    """The parts of an action; None where it has several verbs, or its thing does not stand beside the verb."""
    verbs = [word for word in words if word.startswith("~")]
    articles = [index for index, word in enumerate(words) if word in _ARTICLES]
    if len(verbs) != 1 or not words[0].startswith("~") or not articles or articles[0] > 2:
        return None
    first = articles[0]
    stop = next((index for index in range(first + 1, len(words)) if words[index] in _ENDS), len(words))
    if stop == first + 1:
        return None
    return Parts(words[0][1:], words[1:first], " ".join(words[first:stop]), words[stop:])


def passive(words: Sequence[str], copula: str) -> str:
    """ "The drawer is pushed closed", or "the cup is picked up and put on the shelf"; "" where it has none."""
    parts = take_apart(words)
    if parts:
        return " ".join([parts.thing, copula, participle(parts.verb), *parts.particles, *parts.rest])
    clauses = _two_clauses(words)
    if clauses is None:
        return ""
    first, second = clauses
    own = take_apart(second)
    start = " ".join([first.thing, copula, participle(first.verb), *first.particles, *first.rest])
    if own:
        return f"{start} , {passive(second, copula)}"
    return " ".join([start, "and", participle(second[0][1:]), *_without_pronoun(second[1:])])


def _two_clauses(words: Sequence[str]) -> tuple[Parts, Sequence[str]] | None:
    """Of "pick up the cup and put it there" the parts of the first clause, and the words of the second."""
    heads = [index for index, word in enumerate(words) if word.startswith("~")]
    if len(heads) != 2:
        return None
    joint = next((index for index in range(heads[1]) if words[index] in ("and", ",")), 0)
    first, second = take_apart(words[:joint]), words[heads[1] :]
    says_it = "it" in second and set(words[joint : heads[1]]) <= {"and", ",", "then"}
    return (first, second) if first and says_it else None


def _without_pronoun(words: Sequence[str]) -> list[str]:
    index = list(words).index("it")
    return [*words[:index], *words[index + 1 :]]


def recast(words: Sequence[str], form: str, dice: random.Random) -> str:
    """An action as "the drawer, push shut" (topic), "get it shut by pushing it" (caused), "push of it" (nominal)."""
    parts, clauses = take_apart(words), _two_clauses(words)
    if form == "topic" and clauses and not take_apart(clauses[1]):
        first, second = clauses
        start = " ".join([first.thing, ",", first.verb, *first.particles, *first.rest])
        return f"{start} {dice.choice((',', 'and', 'then'))} {' '.join([second[0][1:], *_without_pronoun(second[1:])])}"
    if parts is None or (form == "caused" and not parts.rest):
        return ""
    rest, verb = " ".join(parts.rest), " ".join([parts.verb, *parts.particles])
    if form == "topic":
        return f"{parts.thing} , {verb} {rest}"
    doing = " ".join([gerund(parts.verb), *parts.particles])
    if form == "caused":
        start = dice.choice(("get", "bring", "move", "make", "take"))
        motion = "go " if start == "make" else ""
        end = dice.choice(
            (
                f"by {doing} it",
                f"by {doing} it",
                f"with a {gerund(parts.verb)} motion",
                f"with a {parts.verb}",
            )
        )
        return f"{start} {parts.thing} {motion}{rest} {end}"
    return dice.choice(
        (
            f"{doing} of {parts.thing} {rest}",
            f"a {parts.verb} of {parts.thing} {rest}",
            f"{parts.verb} of {parts.thing} {rest}",
            f"the {gerund(parts.verb)} of {parts.thing} {rest}",
        )
    )


def with_relative_source(parts: Mapping[str, str], kind: str, dice: random.Random) -> dict[str, str]:
    """The thing with where it starts: "the cube that is in the bin"."""
    match = re.search(r"\b(?:the|a|an|this|that|its|one)\b.*", parts["S"])
    if match is None or not parts["O"]:
        return dict(parts)
    link = dice.choice(("that is", "that 's", "which is", "which was", "lying"))
    side = dice.choice(_SIDES_OF_SOURCES[kind])
    return {**parts, "O": f"{parts['O']} {link} {side} {match.group()}", "S": ""}


def without_articles(text: str) -> str:
    """A text as in a note."""
    return " ".join(word for word in text.split() if word not in ("the", "a", "an"))
