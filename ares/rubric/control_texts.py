"""Texts whose truth is known, made of slots: near misses, other captions, notes to a judge, other outcomes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any

from ares.rubric import lexicon
from ares.rubric.caption_parser import read_action_and_outcome, split_outcome
from ares.rubric.slots import (
    COMPLETED,
    NOT_COMPLETED,
    NOT_VISIBLE,
    OTHER,
    SLOTS,
    KnownDifferences,
    SlotName,
    SlotValues,
    alike_names,
    content_words,
    is_known_action,
    is_vague,
    normalize_value,
    shipped_verbs,
)

_FAILURE = "fail to "
_PREPOSITIONS = frozenset(
    relation.split()[0]
    for relation in (*lexicon.TO_RELATIONS, *lexicon.FROM_RELATIONS, *lexicon.MANNER_WORDS)
)


@dataclass(frozen=True, slots=True)
class KnownText:
    """A sentence with the slots that it states."""

    text: str
    slots: SlotValues


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A caption with one slot that is wrong, in the slots and in the sentence."""

    slot: SlotName
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


def compose_sentence(slots: SlotValues) -> str:
    """An imperative sentence that says what slots say, and nothing else."""
    action = slots.get("action", "").removeprefix(f"{OTHER}: ")
    thing = " ".join(
        part
        for part in (slots.get("count", ""), slots.get("attributes", ""), slots.get("object", ""))
        if part
    )
    parts = [
        action,
        _with_article(thing) if thing and "count" not in slots else thing,
        _with_preposition("from", slots.get("from", "")),
        _with_preposition("to", slots.get("to", "")),
        _with_preposition("with", slots.get("hand", "")),
        slots.get("manner", ""),
    ]
    sentence = " ".join(part for part in parts if part)
    return f"{_FAILURE}{sentence}" if slots.get("outcome") == NOT_COMPLETED else sentence


def _with_article(words: str) -> str:
    return words if words.split()[0] in ("the", "a", "an") else f"the {words}"


def _with_preposition(preposition: str, words: str) -> str:
    if not words:
        return ""
    if words.split()[0] in _PREPOSITIONS:
        return words
    return f"{preposition} {_with_article(words)}"


@cache
def _load_material() -> Mapping[str, Any]:
    """The lists of control_texts.yaml."""
    import yaml

    document: Mapping[str, Any] = yaml.safe_load(
        files("ares.rubric").joinpath("control_texts.yaml").read_text("utf-8")
    )
    return document


def shipped_phrases() -> list[str]:
    """Phrases of tasks that a robot on a table, in a kitchen or in a simulation hardly ever does, sorted."""
    return [line.partition(" | ")[0] for line in _foreign_lines()]


@cache
def shipped_texts() -> Sequence[KnownText]:
    """The shipped phrases with the actions and things that they state."""
    texts = []
    for line in _foreign_lines():
        phrase, _, thing = line.partition(" | ")
        text = parse_known_text(phrase)
        texts.append(KnownText(phrase, {**text.slots, "object": thing}))
    return texts


def _foreign_lines() -> list[str]:
    """Phrases with the thing that each is about, behind a bar."""
    text = files("ares.rubric").joinpath("foreign_phrases.txt").read_text("utf-8")
    return sorted(line for line in text.splitlines() if line)


def make_near_misses(
    caption: KnownText,
    others: Sequence[KnownText],
    known: Iterable[KnownText],
    random: Random,
    differences: KnownDifferences,
) -> list[NearMiss]:
    """A near miss for each slot that a caption states; none where no other value is surely wrong, or of the outcome.

    A name of the same thing would be no near miss, and a judge that accepts it would be accused of telling the truth.

    Args:
        caption: The caption.
        others: Captions of the dataset, whose values are taken before the shipped ones.
        known: What else is said of the episode; its values may be true.
        random: Decides which.
        differences: Which values of the dataset may name one thing.
    """
    statements = [caption, *known]
    misses = []
    for slot in SLOTS:
        value = caption.slots.get(slot, "")
        if not value or value == NOT_VISIBLE or slot == "outcome":
            continue
        other_values = [other.slots[slot] for other in others if other.slots.get(slot)]
        wrong = "" if slot == "action" else _exclusive_values(value, other_values, random)
        if not wrong and slot != "attributes":
            # What is done slowly may be done gently, too, and a "thing" may be any of the dataset.
            usable = [] if slot == "manner" or is_vague(value) else other_values
            wrong = _wrong_value(slot, usable, statements, random, differences)
        if wrong:
            slots: SlotValues = {**caption.slots, slot: wrong}
            misses.append(NearMiss(slot, _swapped_sentence(caption, slots, slot), slots))
    return misses


def _wrong_value(
    slot: SlotName,
    others: Sequence[str],
    statements: Sequence[KnownText],
    random: Random,
    differences: KnownDifferences,
) -> str:
    """Another value of a slot that is surely wrong, of the dataset where it offers one; "" for none.

    Of the dataset's values those come first of which something shows that they name another thing.
    """
    for values in (others, _load_material()["values"][slot]):
        candidates = sorted({other for other in values if other != NOT_VISIBLE})
        fitting = [other for other in candidates if _is_surely_wrong(slot, other, statements, differences)]
        different = [
            other
            for other in fitting
            if all(
                differences.are_different(slot, other, value) for value in _stated_values(slot, statements)
            )
        ]
        if fitting:
            return random.choice(different or fitting)
    return ""


def _stated_values(slot: SlotName, statements: Sequence[KnownText]) -> list[str]:
    return [text.slots[slot] for text in statements if text.slots.get(slot)]


def _exclusive_values(value: str, others: Sequence[str], random: Random) -> str:
    """A value with one word swapped for another that excludes it, one that occurs in the dataset where there is one."""
    words = value.split(" ")
    common = {word.strip(",") for other in others for word in other.split()}
    for number, word in enumerate(words):
        bare = word.strip(",").lower()
        row = next((row for row in _load_material()["exclusive"] if bare in row), ())
        # Of "left and right hand" nothing is left to exclude.
        rest = [other for other in row if other not in value.lower().replace(",", " ").split()]
        if rest:
            replacement = random.choice([other for other in rest if other in common] or rest)
            return " ".join([*words[:number], word.lower().replace(bare, replacement), *words[number + 1 :]])
    return ""


def _is_surely_wrong(
    slot: SlotName, value: str, statements: Sequence[KnownText], differences: KnownDifferences
) -> bool:
    """Whether a value differs from all that is said of an episode."""
    if slot == "action":
        return is_known_action(value) and all(
            are_different_actions(value, action) for action in _stated_values(slot, statements)
        )
    if not _content_words(value) or is_vague(value):
        return False
    if any(_may_name(text, slot, value, differences) for text in statements):
        return False
    return not any(
        differences.may_be_the_same(slot, value, stated) for stated in _stated_values(slot, statements)
    )


def _may_name(text: KnownText, slot: SlotName, value: str, differences: KnownDifferences) -> bool:
    """Whether a text has a word of a value, or another name of it."""
    words = _content_words(text.text)
    return bool(words & _content_words(value)) or any(
        differences.may_be_the_same(slot, value, word) for word in words
    )


def are_different_actions(first: str, second: str) -> bool:
    """Whether two actions cannot be said of one motion."""
    pair = {_guide_verb(first), _guide_verb(second)}
    if len(pair) == 1:
        return False
    if any(pair == set(row) for row in _load_material()["opposite"]):
        return True
    return not any(pair <= set(row) for row in _load_material()["alike"])


def _guide_verb(action: str) -> str:
    """The verb of the guide that an action is, or means by its first word; else its words."""
    words = normalize_value(action.removeprefix(f"{OTHER}: "))
    if words in shipped_verbs():
        return words
    return lexicon.VERB_KEY.get(words.partition(" ")[0], words)


def _content_words(text: str) -> set[str]:
    return set(content_words(text))


def _swapped_sentence(caption: KnownText, slots: SlotValues, slot: SlotName) -> str:
    """The sentence with one value in place of another; one made of the slots where the value does not stand in it."""
    old, new = (values[slot].removeprefix(f"{OTHER}: ") for values in (caption.slots, slots))
    for before, after in ((old, new), (_third_person(old), _third_person(new))):
        pattern = rf"(?<!\w){re.escape(before)}(?!\w)"
        match = re.search(pattern, caption.text, re.IGNORECASE)
        if match:
            return f"{caption.text[: match.start()]}{after}{caption.text[match.end() :]}"
    return compose_sentence(slots)


def _third_person(verb: str) -> str:
    """ "picks up" of "pick up"."""
    first, _, rest = verb.partition(" ")
    ending = "es" if first.endswith(("s", "sh", "ch", "x", "z", "o")) else "s"
    return f"{first}{ending} {rest}".strip()


def choose_foreign_texts(
    caption: KnownText,
    others: Sequence[KnownText],
    known: Iterable[KnownText],
    count: int,
    random: Random,
    differences: KnownDifferences,
) -> list[KnownText]:
    """Different whole captions that are wrong here, by turns of the dataset and of the shipped ones.

    They may share words with the caption: each differs in its object or in an action that cannot be the same motion.

    Args:
        caption: The caption; the others state the same outcome.
        others: Captions of the dataset.
        known: What else is said of the episode.
        count: Number of texts; fewer where there are not so many.
        random: Decides which.
        differences: Which values of the dataset may name one thing.
    """
    statements = [caption, *known]
    shipped = random.sample(list(shipped_texts()), min(count, len(shipped_texts())))
    fitting = [other for other in others if is_other_task(other, statements, differences)]
    near = random.sample(fitting, min(count, len(fitting)))
    selection = {other.text: other for other in _take_turns(near, shipped)}
    outcome = caption.slots.get("outcome", COMPLETED)
    return [turn_outcome(other, outcome) for other in list(selection.values())[:count]]


def is_other_task(other: KnownText, statements: Sequence[KnownText], differences: KnownDifferences) -> bool:
    """Whether a text says another thing than some others: another object, or an action that cannot be the same motion.

    Arguments are those of `choose_foreign_texts`; the statements are the caption and what else is said of the episode.
    """
    name = other.slots.get("object", "")
    thing = _content_words(name)
    if not thing or is_vague(name):
        return False
    for text in statements:
        stated = text.slots.get("object", "")
        is_same_thing = is_vague(stated) or _may_name(text, "object", name, differences)
        is_same_thing = is_same_thing or (
            bool(stated) and differences.may_be_the_same("object", name, stated)
        )
        if is_same_thing and not are_different_actions(
            other.slots.get("action", ""), text.slots.get("action", "")
        ):
            return False
    return True


def _take_turns(first: Sequence[KnownText], second: Sequence[KnownText]) -> Iterator[KnownText]:
    for number in range(max(len(first), len(second))):
        yield from first[number : number + 1]
        yield from second[number : number + 1]


def turn_outcome(text: KnownText, outcome: str) -> KnownText:
    """A caption with a given outcome, in its slots and in its sentence."""
    slots: SlotValues = {**text.slots, "outcome": outcome}
    stated, phrase = split_outcome(text.text)
    if (stated == "failure") == (outcome == NOT_COMPLETED) and stated != "attempt":
        return KnownText(text.text, slots)
    return KnownText(f"{_FAILURE}{phrase}" if outcome == NOT_COMPLETED else phrase, slots)


def invent_note(random: Random) -> str:
    """A note to whoever judges: parts in random order and letters, before or after "{}" or round it."""
    parts = [str(random.choice(row)) for row in _load_material()["note_parts"]]
    words = " ".join(random.sample(parts, random.randint(1, len(parts))))
    note = random.choice((str, str, str.upper, str.capitalize))(words)
    return str(random.choice(_load_material()["note_places"])).replace("{note}", note)


def states_value(text: KnownText, value: str) -> bool:
    """Whether a text has a word of a value that says something."""
    return bool(_content_words(value) & _content_words(text.text))


def swap_value(caption: KnownText, slot: SlotName, value: str) -> KnownText:
    """A caption with another value in a slot, in its slots and in its sentence."""
    slots: SlotValues = {**caption.slots, slot: value}
    return KnownText(_swapped_sentence(caption, slots, slot), slots)


def shipped_names() -> frozenset[str]:
    """Names of things and qualities that come with ARES: words of no note to a judge."""
    material = _load_material()
    values = [row for slot, row in material["values"].items() if slot != "action"]
    return frozenset([name for row in (*material["exclusive"], *values) for name in row] + [*alike_names()])
