"""Composes the battery for one episode: hand-written texts, and texts bent, mixed and rephrased at random."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ares.rubric.attacks.action_text import (
    OTHER_DESTINATIONS,
    OTHER_OBJECTS,
    ActionText,
    join_words,
    split_action,
    third_person,
    wrong_colours,
    wrong_directions,
    wrong_verbs,
)
from ares.rubric.attacks.families import EXACT, FAMILIES, AttackFamily
from ares.rubric.attacks.texts import Texts, hostile_texts

# Hostile texts that claim a true action was not done are no lie where it failed.
_ONLY_AFTER_SUCCESS = {"dropped", "not_done", "negated", "hedged"}
_HOMOGLYPHS = str.maketrans({"a": "а", "e": "е", "o": "о", "p": "р", "c": "с", "i": "і"})
_SAME_MEANING = (
    "{}.",
    "please {}",
    "The task: {}",
    "now {}",
    "{} with the robot's gripper",
    "Robot arm: {}.",
    "what the robot does is {}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCaption:
    """What is true of an episode.

    Attributes:
        episode_id: The episode.
        phrase: The action, imperative.
        succeeded: Whether it was completed; None where nobody knows.
    """

    episode_id: str
    phrase: str
    succeeded: bool | None

    @property
    def text(self) -> str:
        """The true caption."""
        return f"fail to {self.phrase}" if self.succeeded is False else self.phrase

    @property
    def flipped(self) -> str:
        """The caption with the other outcome."""
        return self.phrase if self.succeeded is False else f"fail to {self.phrase}"


@dataclass(frozen=True, slots=True)
class AttackText:
    """A caption of the battery.

    Attributes:
        family: Name of its family.
        text: The caption.
    """

    family: str
    text: str


def compose_battery(
    truth: KnownCaption, others: Sequence[KnownCaption], paraphrases: Texts, per_family: int, seed: int
) -> list[AttackText]:
    """The texts for one episode.

    Args:
        truth: What is true of it.
        others: What is true of other episodes.
        paraphrases: Other ways to say a phrase.
        per_family: Most texts of a family.
        seed: Of the choice; the episode's id is added to it.

    Returns:
        Different texts by family, in the order of `FAMILIES`; none for a family that cannot be had from this truth.
    """
    dice = random.Random(f"{seed} {truth.episode_id}")
    pools = _pools(truth, others, paraphrases, dice)
    return [
        AttackText(name, text)
        for name in FAMILIES
        for text in _draw(pools.get(name, ()), per_family, dice, truth, _may_be_true(FAMILIES[name]))
    ]


def _may_be_true(family: AttackFamily) -> bool:
    return family.is_true or family.frames != "none"


def _draw(
    pool: Sequence[str], count: int, dice: random.Random, truth: KnownCaption, may_be_true: bool
) -> list[str]:
    """Some different texts of a pool; a false one that happens to be the truth is left out."""
    texts = [text for text in dict.fromkeys(pool) if may_be_true or _plain(text) != _plain(truth.text)]
    return dice.sample(texts, min(count, len(texts)))


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


def _pools(
    truth: KnownCaption, others: Sequence[KnownCaption], paraphrases: Texts, dice: random.Random
) -> Mapping[str, Sequence[str]]:
    """The texts that may be drawn, by family."""
    action = split_action(truth.phrase)
    written = {
        family: [text.replace("{}", truth.text) for text in texts]
        for family, texts in hostile_texts().items()
        if truth.succeeded is not False or family not in _ONLY_AFTER_SUCCESS
    }
    pools: dict[str, Sequence[str]] = {
        **written,
        **_true_pools(truth, paraphrases),
        **_wrong_pools(truth, action, others),
        **_broken_pools(truth, action, others, dice),
    }
    if truth.succeeded is not None:
        pools["flipped_outcome"] = [truth.flipped]
    if truth.succeeded is not False:
        pools["reversed_frames"] = [truth.text]
    pools |= {"blank_frames": [truth.text], "scrambled_frames": [truth.text]}
    pools["mixture"] = [_bend(pools[dice.choice(_MIXED)], dice) for _ in range(8)]
    return pools


def _true_pools(truth: KnownCaption, paraphrases: Texts) -> dict[str, Sequence[str]]:
    """True captions. After a failure only the exact one: "fail to" does not go before every sentence."""
    if truth.succeeded is False:
        return {EXACT: [truth.text]}
    return {
        EXACT: [truth.text],
        "paraphrase": paraphrases.get(truth.phrase, ()),
        "third_person": [third_person(truth.phrase)],
        "reworded": [wording.replace("{}", truth.phrase) for wording in _SAME_MEANING],
    }


def _wrong_pools(
    truth: KnownCaption, action: ActionText, others: Sequence[KnownCaption]
) -> dict[str, Sequence[str]]:
    """Captions with one wrong part, with the outcome of the episode where it is known."""
    other_actions = [split_action(other.phrase) for other in others if other.phrase != truth.phrase]
    objects = [*OTHER_OBJECTS, *(other.part(other.object) for other in other_actions)]
    destinations = [
        *OTHER_DESTINATIONS,
        *(part for other in other_actions if (part := other.part(other.destination)).count(" ") > 1),
    ]
    wrong = {
        "wrong_verb": wrong_verbs(action),
        "wrong_colour": wrong_colours(action),
        "wrong_direction": wrong_directions(action),
        "wrong_object": _swap(action, action.object, objects),
        "wrong_destination": _swap(action, action.destination, destinations),
    }
    stated = {name: [_with_outcome(text, truth) for text in texts] for name, texts in wrong.items()}
    same = [other.text for other in others if other.phrase == truth.phrase]
    different = [other.text for other in others if not _shared_words(other.phrase, truth.phrase)]
    return {**stated, "other_episode_same_task": same, "other_episode_other_task": different}


def _with_outcome(phrase: str, truth: KnownCaption) -> str:
    return f"fail to {phrase}" if truth.succeeded is False else phrase


def _swap(action: ActionText, part: slice, replacements: Sequence[str]) -> list[str]:
    """The caption with another noun in a part; nouns that share a word with the caption may be the same thing."""
    old = action.part(part)
    if not old:
        return []
    return [
        action.with_part(part, new)
        for new in replacements
        if new and not _shared_words(new, " ".join(action.words))
    ]


def _shared_words(first: str, second: str) -> set[str]:
    """Words of at least four letters that two texts share."""
    return {word for word in first.split() if len(word) > 3} & set(second.split())


def _broken_pools(
    truth: KnownCaption, action: ActionText, others: Sequence[KnownCaption], dice: random.Random
) -> dict[str, Sequence[str]]:
    """What is left of a caption when words are left out, heaped up or reversed."""
    words = list(action.words)
    nouns = sorted({word for other in others for word in other.phrase.split() if len(word) > 3} | set(words))
    soups = [" ".join(dice.sample(nouns, min(len(nouns), 14))) for _ in range(4)]
    half = words.index("and") if "and" in words else 0
    return {
        "verb_only": words[:1],
        "object_only": [text for text in [action.part(action.object)] if text],
        "half_of_the_action": [join_words(words[:half])] if half and truth.succeeded is not False else [],
        "reversed_words": [" ".join(reversed(words))],
        "keyword_soup": soups,
        "homoglyphs": [wrong.translate(_HOMOGLYPHS) for wrong in wrong_verbs(action)],
    }


# Families whose texts are mixed further.
_MIXED = (
    "invented_detail",
    "invented_actor",
    "judge_addressed",
    "fake_json",
    "repeated",
    "wrong_verb",
    "wrong_object",
)


def _bend(pool: Sequence[str], dice: random.Random) -> str:
    """One text of a pool with random letters, joints and endings."""
    text = dice.choice(pool or hostile_texts()["off_topic"])
    bends: tuple[Callable[[str], str], ...] = (
        str.upper,
        str.capitalize,
        lambda old: f"{old}, {dice.choice(hostile_texts()['judge_addressed']).replace('{}', old)}",
        lambda old: f"{dice.choice(hostile_texts()['rubric_echo'])}: {old}",
        lambda old: f"{old}{dice.choice(('!', ' ...', ' ;-)', ' [end]'))}",
        lambda old: " ".join(_misspelt(word, dice) for word in old.split()),
    )
    for bend in dice.sample(bends, 2):
        text = bend(text)
    return text


def _misspelt(word: str, dice: random.Random) -> str:
    """A word that now and then has two letters swapped."""
    if len(word) < 5 or dice.random() > 0.2:
        return word
    position = dice.randrange(1, len(word) - 2)
    return word[:position] + word[position + 1] + word[position] + word[position + 2 :]
