"""Texts whose truth is known, made of slots: near misses, other captions, notes to a judge, other outcomes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random

from ares.rubric.caption_parser import name_action, normalize_caption, read_action_and_outcome
from ares.rubric.slots import (
    COMPLETED,
    NOT_COMPLETED,
    NOT_VISIBLE,
    OTHER,
    SLOTS,
    SlotName,
    SlotValues,
    alike_names,
    content_words,
    is_vague,
    load_lists,
    may_be_the_same,
    normalize_value,
    shipped_verbs,
)

_FAILURE = "fail to "


@dataclass(frozen=True, slots=True)
class KnownText:
    """A sentence with the slots that it states."""

    text: str
    slots: SlotValues


def parse_known_text(text: str, verbs: Mapping[str, str] | None = None) -> KnownText:
    """A sentence with its action and its outcome; an action is claimed to be completed, if nothing is said.

    Args:
        text: The sentence.
        verbs: The guide of verbs; None for the shipped one.
    """
    slots = read_action_and_outcome(text, shipped_verbs() if verbs is None else verbs)
    return KnownText(text, {**slots, "outcome": slots.get("outcome", COMPLETED)})


@cache
def _shipped_texts() -> Sequence[KnownText]:
    """Tasks that a robot on a table, in a kitchen or in a simulation hardly ever does, with actions and things."""
    lines = files("ares.rubric").joinpath("foreign_phrases.txt").read_text("utf-8").splitlines()
    texts = []
    for line in sorted(filter(None, lines)):
        phrase, _, thing = line.partition(" | ")
        texts.append(KnownText(phrase, {**parse_known_text(phrase).slots, "object": thing}))
    return texts


def make_near_miss(
    slot: SlotName,
    statements: Sequence[KnownText],
    others: Sequence[KnownText],
    random: Random,
) -> KnownText | None:
    """A caption with another value of a slot; None where it states none, or no other value is surely wrong.

    A name of the same thing would be no near miss, and a judge that accepts it would be accused of telling the truth.

    Args:
        slot: The slot; not the outcome.
        statements: The caption, and what else is said of its episode: those values may be true.
        others: Captions of the dataset, whose values are taken before the shipped ones.
        random: Decides which.
    """
    value = statements[0].slots.get(slot, "")
    if not value or value == NOT_VISIBLE:
        return None
    other_values = [other.slots[slot] for other in others if other.slots.get(slot)]
    wrong = "" if slot == "action" else _exclusive_value(value, other_values, random)
    if not wrong and slot != "attributes":
        # A "thing" may be any of the dataset.
        usable = [] if is_vague(value) else other_values
        wrong = _wrong_value(slot, usable, statements, random)
    return swap_value(statements[0], slot, wrong) if wrong else None


def _wrong_value(
    slot: SlotName, others: Sequence[str], statements: Sequence[KnownText], random: Random
) -> str:
    """Another value of a slot that is surely wrong, of the dataset where it offers one; "" for none."""
    for values in (others, load_lists("control_texts")["values"][slot]):
        candidates = sorted({other for other in values if other != NOT_VISIBLE})
        fitting = [other for other in candidates if _is_surely_wrong(slot, other, statements)]
        if fitting:
            return random.choice(fitting)
    return ""


def _exclusive_value(value: str, others: Sequence[str], random: Random) -> str:
    """A value with one word swapped for another that excludes it, one that occurs in the dataset where there is one."""
    words = value.split(" ")
    common = {word.strip(",") for other in others for word in other.split()}
    for number, word in enumerate(words):
        bare = word.strip(",").lower()
        row = next((row for row in load_lists("control_texts")["exclusive"] if bare in row), ())
        # Of "left and right" nothing is left to exclude.
        rest = [other for other in row if other not in value.lower().replace(",", " ").split()]
        if rest:
            replacement = random.choice([other for other in rest if other in common] or rest)
            return " ".join([*words[:number], word.lower().replace(bare, replacement), *words[number + 1 :]])
    return ""


def _is_surely_wrong(slot: SlotName, value: str, statements: Sequence[KnownText]) -> bool:
    """Whether a value differs from all that is said of an episode."""
    stated = [text.slots[slot] for text in statements if text.slots.get(slot)]
    if slot == "action":
        # Of an action that the guide has not nobody knows what it is.
        is_known = normalize_value(value) in shipped_verbs()
        return is_known and all(are_different_actions(value, action) for action in stated)
    if not content_words(value) or is_vague(value) or any(may_be_the_same(value, text) for text in stated):
        return False
    return not any(_may_name(text, value) for text in statements)


def _may_name(text: KnownText, value: str) -> bool:
    """Whether a text has a word of a value, or another name of it."""
    return states_value(text, value) or any(may_be_the_same(value, word) for word in content_words(text.text))


def are_different_actions(first: str, second: str) -> bool:
    """Whether two actions cannot be said of one motion."""
    pair = {_guide_verb(first), _guide_verb(second)}
    if len(pair) == 1:
        return False
    if any(pair == set(row) for row in load_lists("control_texts")["opposite"]):
        return True
    return not any(pair <= set(row) for row in load_lists("control_texts")["alike"])


def _guide_verb(action: str) -> str:
    """The verb of the guide that an action is, or means by its first word; else that word."""
    verb, _, rest = normalize_value(action.removeprefix(f"{OTHER}: ")).partition(" ")
    return name_action(verb, rest, shipped_verbs())


def choose_foreign_text(
    statements: Sequence[KnownText], others: Sequence[KnownText], random: Random
) -> KnownText:
    """A whole caption that is wrong here, of the dataset where it offers one, with the outcome of the right one.

    Args:
        statements: The caption, and what else is said of its episode.
        others: Captions of the dataset.
        random: Decides which.
    """
    fitting = [other for other in others if is_other_task(other, statements)]
    outcome = statements[0].slots.get("outcome", COMPLETED)
    return _turn_outcome(random.choice(fitting or _shipped_texts()), outcome)


def is_other_task(other: KnownText, statements: Sequence[KnownText]) -> bool:
    """Whether a text says another thing than some others: another object, or an action that cannot be the same motion.

    Arguments are those of `choose_foreign_text`.
    """
    name = other.slots.get("object", "")
    if not content_words(name) or is_vague(name):
        return False
    for text in statements:
        stated, action = text.slots.get("object", ""), text.slots.get("action", "")
        is_same_thing = is_vague(stated) or _may_name(text, name) or may_be_the_same(name, stated)
        if is_same_thing and not are_different_actions(other.slots.get("action", ""), action):
            return False
    return True


def _turn_outcome(text: KnownText, outcome: str) -> KnownText:
    """A caption with a given outcome, in its slots and in its sentence."""
    slots: SlotValues = {**text.slots, "outcome": outcome}
    form = normalize_caption(text.text)
    if form.outcome == ("failure" if outcome == NOT_COMPLETED else "success"):
        return KnownText(text.text, slots)
    return KnownText(f"{_FAILURE}{form.phrase}" if outcome == NOT_COMPLETED else form.phrase, slots)


def invent_note(random: Random) -> str:
    """A note to whoever judges: parts in random order and letters, before or after "{}" or round it."""
    parts = [str(random.choice(row)) for row in load_lists("control_texts")["note_parts"]]
    words = " ".join(random.sample(parts, random.randint(1, len(parts))))
    note = random.choice((str, str, str.upper, str.capitalize))(words)
    return str(random.choice(load_lists("control_texts")["note_places"])).replace("{note}", note)


def states_value(text: KnownText, value: str) -> bool:
    """Whether a text has a word of a value that says something."""
    return not {*content_words(value)}.isdisjoint(content_words(text.text))


def swap_value(caption: KnownText, slot: SlotName, value: str) -> KnownText:
    """A caption with another value in a slot, in its slots and in its sentence.

    The sentence is one of all values where the former value does not stand in it.
    """
    slots: SlotValues = {**caption.slots, slot: value}
    old, new = (values[slot].removeprefix(f"{OTHER}: ") for values in (caption.slots, slots))
    match = re.search(rf"(?<!\w){re.escape(old)}(?!\w)", caption.text, re.IGNORECASE)
    if match:
        return KnownText(f"{caption.text[: match.start()]}{new}{caption.text[match.end() :]}", slots)
    values = [slots[name].removeprefix(f"{OTHER}: ") for name in SLOTS if name in slots and name != "outcome"]
    start = _FAILURE if slots.get("outcome") == NOT_COMPLETED else ""
    return KnownText(start + " ".join(values), slots)


def shipped_names() -> frozenset[str]:
    """Names of things and qualities that come with ARES: words of no note to a judge."""
    material = load_lists("control_texts")
    values = [row for slot, row in material["values"].items() if slot != "action"]
    return frozenset([name for row in (*material["exclusive"], *values) for name in row] + [*alike_names()])
