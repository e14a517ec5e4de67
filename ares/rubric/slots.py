"""The slots of a typed caption, from action to outcome, and which values of one are known to differ."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, get_args

from ares.annotation import Column
from ares.episode import Json
from ares.errors import RequestError, SourceError
from ares.input import parse_yaml

SlotName = Literal["action", "object", "attributes", "from", "to", "hand", "manner", "count", "outcome"]
SLOTS: tuple[SlotName, ...] = get_args(SlotName)
# The stated slots of one caption or observation, each with its value; what is not stated is left out.
SlotValues = Mapping[SlotName, str]
# Said of a slot that the frames do not show.
NOT_VISIBLE = "not visible"
COMPLETED, NOT_COMPLETED = "completed", "not completed"
OUTCOMES = (COMPLETED, NOT_COMPLETED, NOT_VISIBLE)
# An action that the guide does not have: "other: juggle".
OTHER = "other"
# A value of a slot that reaches a model is one of a few words, never a sentence.
MAX_WORDS = 12
_MAX_VERBS, _MAX_MEANING = 80, 200


@cache
def shipped_verbs() -> Mapping[str, str]:
    """Verbs of manipulation that come with ARES, each with its meaning."""
    return _parse_guide(
        files("ares.rubric").joinpath("manipulation_verbs.yaml").read_text("utf-8"), "shipped verbs"
    )


def read_verbs(path: str) -> Mapping[str, str]:
    """A lab's guide of verbs from YAML, or the shipped one for "".

    Raises:
        RequestError: The file cannot be read, or is not a mapping of at most 80 verbs to meanings.
    """
    if not path:
        return shipped_verbs()
    try:
        return _parse_guide(Path(path).read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError("guide of verbs cannot be read", f"{path}: {error}") from None


def _parse_guide(text: str, name: str) -> Mapping[str, str]:
    try:
        document = parse_yaml(text, name)
    except SourceError as error:
        raise RequestError("guide of verbs cannot be read", str(error)) from None
    if not isinstance(document, dict) or not 1 <= len(document) <= _MAX_VERBS:
        raise RequestError(f"a guide of verbs is a mapping of 1 to {_MAX_VERBS} verbs to meanings", name)
    wrong = [verb for verb, meaning in document.items() if not (_is_verb(verb) and _is_meaning(meaning))]
    if wrong:
        raise RequestError(
            "a verb is one to three words with a meaning of one line",
            f"{name}: {wrong[0]!r}; {OTHER!r} and {NOT_VISIBLE!r} are no verbs",
        )
    return {verb.lower(): meaning for verb, meaning in document.items()}


def _is_verb(verb: object) -> bool:
    return (
        isinstance(verb, str)
        and re.fullmatch(r"[^\W\d_]+(?:[ -][^\W\d_]+){0,2}", verb) is not None
        and verb.lower() not in (OTHER, NOT_VISIBLE)
    )


def _is_meaning(meaning: object) -> bool:
    """Whether it is one line of a prompt."""
    return isinstance(meaning, str) and 0 < len(meaning) <= _MAX_MEANING and meaning.isprintable()


def slots_to_json(slots: SlotValues) -> dict[str, Json]:
    """Slots as they are stored, in the order of `SLOTS`."""
    return {name: slots[name] for name in SLOTS if name in slots}


def slots_from_json(value: Json) -> SlotValues | None:
    """Stored slots; None where the value has none, as captions of earlier versions and of people do."""
    if not isinstance(value, dict) or not value:
        return None
    return {name: str(value[name]) for name in SLOTS if value.get(name)}


def join_attributes(attributes: Sequence[str]) -> str:
    """Several attributes as the value of a slot: each once, in lower case, in alphabetical order."""
    return ", ".join(sorted({attribute.strip().lower() for attribute in attributes if attribute.strip()}))


def normalize_value(value: str) -> str:
    """A value without case, articles, punctuation and outer spaces, so that equal values are equal texts."""
    words = re.findall(r"[^\W_]+(?:['-][^\W_]+)*", value.lower().replace("\u2019", "'"))
    return " ".join(word for word in words if word not in ("the", "a", "an"))


# Relations of a place that say the same. A bare place, or one that a thing merely goes "to", leaves the relation open:
# it is true of every one of them. So does one that it leaves, among the places that it comes from.
_LEAVING = "from"
_RELATIONS: Mapping[str, str] = {
    **dict.fromkeys(("in", "into", "inside", "inside of", "within"), "in"),
    **dict.fromkeys(("on", "onto", "on top of", "upon", "atop"), "on"),
    **dict.fromkeys(("under", "underneath", "below", "beneath"), "under"),
    **dict.fromkeys(("next to", "beside", "by"), "beside"),
    **dict.fromkeys(("to", "at"), ""),
    **dict.fromkeys(("from", "off", "off of", "out of", "from in", "from inside", "from on"), _LEAVING),
}
_LONGEST_RELATION = 3
# Words of a hand that say nothing beside its side, in the singular; "" is what is left of an "s".
_HAND_WORDS = frozenset({"hand", "arm", "gripper", "manipulator", "robot", "robotic", "side", ""})


def is_same_value(slot: SlotName, first: str, second: str) -> bool:
    """Whether two values of a slot are equal in all that matters; attributes in any order."""
    if slot == "attributes":
        return {normalize_value(part) for part in first.split(",")} == {
            normalize_value(part) for part in second.split(",")
        }
    left, right = normalize_value(first), normalize_value(second)
    if slot in ("from", "to"):
        return left == right or _is_same_location(slot, left, right)
    return left == right or (slot == "hand" and bool(_side_of(left)) and _side_of(left) == _side_of(right))


def _is_same_location(slot: SlotName, first: str, second: str) -> bool:
    (relation, location), (other_relation, other_location) = _split_relation(first), _split_relation(second)
    relations = {relation, other_relation}
    if slot == "to" and _LEAVING in relations:
        # "Out of the drawer" is the opposite of every way to it.
        is_fitting = relation == other_relation
    else:
        is_fitting = len(relations - {"", _LEAVING}) < 2
    return location == other_location and is_fitting


def _split_relation(location: str) -> tuple[str, str]:
    """The relation to a place in one word, "" where it is open, and the place."""
    words = location.split()
    for count in range(min(_LONGEST_RELATION, len(words) - 1), 0, -1):
        relation = _RELATIONS.get(" ".join(words[:count]))
        if relation is not None:
            return relation, " ".join(words[count:])
    return "", location


def _side_of(hand: str) -> str:
    words = re.split("[ -]", hand)
    return " ".join(word for word in words if word.removesuffix("s").removesuffix("'") not in _HAND_WORDS)


# Joiners (U+200C, U+200D) between letters of scripts that have them, behind a digit, within an emoji, and behind the
# mark that takes the vowel off an Indic letter.
_NOT_JOINED = r"\u1e00-\u1fff\u2000-\u206f"
_SPELLING_JOINER = re.compile(
    rf"(?<=[^\x00-/:-\u052f{_NOT_JOINED}])[\u200c\u200d](?=[^\x00-\u052f{_NOT_JOINED}])"
    r"|(?<=[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca])[\u200c\u200d]"
)


def drop_spelling_joiners(text: str) -> str:
    """A text without the joiners of its spelling: in Persian and Indic words, and in emoji of several parts.

    Those that stay hide something, as one between Latin letters or beside a space does, or one after another.
    """
    return _SPELLING_JOINER.sub("", text)


def is_short_value(value: str) -> bool:
    """Whether a value may be shown to a model: at most 12 words of at most 30 letters, on one line."""
    words = value.split()
    is_visible = drop_spelling_joiners(value).isprintable()
    return 0 < len(words) <= MAX_WORDS and all(len(word) <= 30 for word in words) and is_visible


# What the slots of one caption fill for filters, and the same of all captions of an episode.
SLOT_COLUMNS = (
    Column(name="verb", type="string", meaning="What the caption says is done, as a verb of the guide."),
    Column(name="object", type="string", meaning="The thing that the caption says is acted on."),
    Column(name="place", type="string", meaning="Where it is moved to, else where it is taken from."),
    Column(
        name="arm", type="string", meaning="Which arm, hand or person acts, by its side where it has one."
    ),
    Column(name="count", type="string", meaning="How many things are acted on, or how often."),
)
SLOT_LIST_COLUMNS = tuple(
    Column(
        name=f"caption_{column.name}s",
        type="list<string>",
        meaning=f"Every {column.name} of the captions, each once.",
    )
    for column in SLOT_COLUMNS
)


def order_slots(named: Mapping[SlotName, str]) -> SlotValues:
    """The slots that state something in at most 12 words, in the order of `SLOTS`."""
    return {name: named[name] for name in SLOTS if is_short_value(named.get(name, ""))}


def make_slot_columns(slots: SlotValues) -> dict[str, Json]:
    """The values of `SLOT_COLUMNS` and `SLOT_LIST_COLUMNS` that slots have, in lower case and without articles.

    A column of one value is left out where nothing is stated, and a list is empty there.
    """
    hand = normalize_value(slots.get("hand", ""))
    locations = [_split_relation(normalize_value(slots.get(name, "")))[1] for name in ("to", "from")]
    stated = {
        "verb": slots.get("action", "").removeprefix(f"{OTHER}: ").lower(),
        "object": normalize_value(slots.get("object", "")),
        "place": locations[0] or locations[1],
        "arm": _side_of(hand) or hand,
        "count": normalize_value(slots.get("count", "")),
    }
    lists = {name: [value] if value else [] for name, value in stated.items()}
    lists["place"] = [location for location in locations if location]
    return {
        **{name: value for name, value in stated.items() if value},
        **{f"caption_{name}s": list[Json](dict.fromkeys(values)) for name, values in lists.items()},
    }


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


def may_be_the_same(first: str, second: str) -> bool:
    """Whether two values may name one thing, by their words and by words of general use."""
    pairs = _name_pairs(first, second)
    return any(len(pair) == 1 or pair in _alike_pairs() for pair in pairs)


def is_vague(value: str) -> bool:
    """Whether a value is a word that fits many things."""
    words = content_words(value)
    return bool(words) and words[-1] in load_lists("alike_things")["vague"]


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
def load_lists(name: str) -> Mapping[str, Any]:
    """The lists of words in a shipped YAML file, "alike_things" or "control_texts"."""
    import yaml

    document: Mapping[str, Any] = yaml.safe_load(
        files("ares.rubric").joinpath(f"{name}.yaml").read_text("utf-8")
    )
    return document


@cache
def _alike_pairs() -> frozenset[frozenset[str]]:
    return frozenset(
        frozenset(pair) for row in load_lists("alike_things")["alike"] for pair in combinations(row, 2)
    )


@cache
def alike_names() -> frozenset[str]:
    return frozenset(name for row in load_lists("alike_things")["alike"] for name in row)
