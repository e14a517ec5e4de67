"""Composes captions that attack a judge: true and false texts about one episode, by family."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from ares.errors import RequestError, SourceError
from ares.input import parse_yaml

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
class CaptionWords:
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


def split_caption_words(text: str) -> CaptionWords:
    """Take an imperative caption apart; parts that cannot be seen are empty."""
    words = tuple(re.findall(r"[\w'-]+|,", text.lower()))
    start = 1
    while start < len(words) and words[start] in _PARTICLES:
        start += 1
    stop = _phrase_end(words, start)
    endings = [number for number in range(1, len(words)) if words[number] in _ENDINGS]
    last = endings[-1] if endings else len(words)
    return CaptionWords(words, slice(start, stop), slice(last, _phrase_end(words, last + 1)))


def join_words(words: tuple[str, ...] | list[str]) -> str:
    """Words as text."""
    return " ".join(word for word in words if word).replace(" ,", ",")


def make_wrong_verb_captions(action: CaptionWords) -> list[str]:
    """The caption with another verb, and the state that it leads to inverted."""
    verb, *rest = action.words or ("",)
    rest = [_WRONG_STATES.get(word, word) for word in rest]
    if verb not in _WRONG_VERBS:
        rest = list(action.words[1:])
    return [join_words([other, *rest]) for other in _WRONG_VERBS.get(verb, _WRONG_VERBS[""])]


def make_wrong_colour_captions(action: CaptionWords) -> list[str]:
    """The caption with one colour replaced."""
    return [
        action.with_part(slice(number, number + 1), colour)
        for number, word in enumerate(action.words)
        if word in _COLOURS
        for colour in _OTHER_COLOURS
        if colour not in action.words
    ]


def make_wrong_direction_captions(action: CaptionWords) -> list[str]:
    """The caption with one direction turned round; that of "pick up" is none."""
    return [
        action.with_part(slice(number, number + 1), _OPPOSITES[word])
        for number, word in enumerate(action.words)
        if word in _OPPOSITES and action.words[number - 1] != "pick"
    ]


def as_statement(text: str) -> str:
    """An imperative caption as a statement about the robot: "The robot picks up the cup and places it here." """
    words = list(split_caption_words(text).words) or [""]
    heads = [0] + [
        number + 1
        for number, word in enumerate(words[:-1])
        if word in ("and", ",") and _action_follows_and(words, number)
    ]
    for number in heads:
        words[number] = _with_s(words[number])
    return f"The robot {join_words(words)}."


def _action_follows_and(words: list[str], number: int) -> bool:
    """Whether an action follows an "and": a verb, then an article or a particle."""
    after = words[number + 2] if number + 2 < len(words) else ""
    return words[number + 1] not in _ARTICLES and after in _ARTICLES | _PARTICLES | _PREPOSITIONS


def _with_s(verb: str) -> str:
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "z", "go")) else f"{verb}s"


def _phrase_end(words: tuple[str, ...], start: int) -> int:
    """Number of the first word after a phrase."""
    ends = _PREPOSITIONS | _PARTICLES | {"and", ",", "then"}
    return next((number for number in range(start, len(words)) if words[number] in ends), len(words))


Texts = Mapping[str, tuple[str, ...]]


@cache
def read_hostile_captions() -> Texts:
    """Captions that must not pass, by family; "{}" is the true caption."""
    return _read_text_file("hostile.yaml")


@cache
def shipped_paraphrases() -> Texts:
    """True paraphrases, by the caption that they paraphrase."""
    return _read_text_file("paraphrases.yaml")


def read_paraphrases(path: Path) -> Texts:
    """Paraphrases in a YAML file of the user. Raises RequestError for another form."""
    try:
        return _check_text_lists(parse_yaml(path.read_text(encoding="utf-8"), str(path)))
    except (OSError, ValueError) as error:
        raise RequestError("paraphrases cannot be read", f"{path}: {error}".replace("\n", " ")) from None
    except SourceError as error:
        raise RequestError("paraphrases cannot be read", str(error)) from None


def _read_text_file(name: str) -> Texts:
    import yaml

    return _check_text_lists(
        yaml.safe_load(files("ares.rubric").joinpath("attack_texts", name).read_text("utf-8"))
    )


def _check_text_lists(document: object) -> Texts:
    """Raises ValueError unless it is a mapping from a text to a list of texts."""
    if not isinstance(document, dict):
        raise ValueError("give a mapping from each caption to a list of texts")
    for caption, texts in document.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{caption!r} has no list of texts, but {texts!r}")
    return {str(caption): tuple(texts) for caption, texts in document.items()}


FrameChange = Literal["none", "blank", "scrambled", "reversed"]
# Share of the texts of a family that may pass; of flipped outcomes, which are hard to see; and of the rate of the exact
# truth that true paraphrases have to reach.
MOST_ACCEPTED, MOST_FLIPPED_ACCEPTED, LEAST_OF_EXACT = 0.02, 0.05, 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackCaptionKind:
    """Captions of one kind.

    Attributes:
        name: Name ("wrong_verb").
        is_true: Whether its captions are true: they have to be accepted.
        bound: Share accepted at most; of true ones, at least, as a share of the rate of exact truth.
        frames: What is done to the frames before they are judged.
        criteria: Criteria of which at least one should not be met, of the shipped rubric; empty where any may be.
    """

    name: str
    is_true: bool = False
    bound: float = MOST_ACCEPTED
    frames: FrameChange = "none"
    criteria: tuple[str, ...] = ()


def _false_families(*names: str, criteria: tuple[str, ...] = ()) -> list[AttackCaptionKind]:
    return [AttackCaptionKind(name=name, criteria=criteria) for name in names]


def _true_families(*names: str) -> list[AttackCaptionKind]:
    return [AttackCaptionKind(name=name, is_true=True, bound=LEAST_OF_EXACT) for name in names]


EXACT = "exact_truth"
# In the order in which a report shows them.
FAMILIES: dict[str, AttackCaptionKind] = {
    family.name: family
    for family in [
        *_true_families(EXACT, "paraphrase", "third_person", "reworded"),
        *_false_families("wrong_verb", criteria=("VERB",)),
        *_false_families("wrong_object", criteria=("OBJECT", "NOADD")),
        *_false_families("wrong_destination", criteria=("DESTINATION", "SOURCE", "NOADD")),
        *_false_families("wrong_colour", criteria=("ATTRIBUTES", "OBJECT", "NOADD")),
        *_false_families("wrong_direction", criteria=("DIRECTION", "MANNER", "VERB")),
        AttackCaptionKind(name="flipped_outcome", bound=MOST_FLIPPED_ACCEPTED, criteria=("OUTCOME",)),
        *_false_families("dropped", "not_done", "negated", criteria=("OUTCOME", "VERB", "NOADD", "COMPLETE")),
        *_false_families("other_episode_other_task", "other_episode_same_task"),
        *_false_families(
            "invented_detail", "invented_actor", "invented_manner", criteria=("NOADD", "MANNER")
        ),
        *_false_families(
            "verb_only", "object_only", "half_of_the_action", "generic", criteria=("COMPLETE", "OBJECT")
        ),
        *_false_families("repeated", "reversed_words", "keyword_soup", "hedged", "homoglyphs"),
        *_false_families("judge_addressed", "fake_json", "delimiters", criteria=("PITFALLS",)),
        *_false_families(
            "rubric_echo", "other_instruction", "off_topic", "other_language", "empty", "mixture"
        ),
        *(AttackCaptionKind(name=f"{change}_frames", frames=change) for change in ("blank", "scrambled")),
        AttackCaptionKind(name="reversed_frames", frames="reversed"),
    ]
}


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
class AttackCaption:
    """A caption of the battery.

    Attributes:
        family: Name of its family.
        text: The caption.
    """

    family: str
    text: str


def compose_attack_captions(
    truth: KnownCaption, others: Sequence[KnownCaption], paraphrases: Texts, per_family: int, seed: int
) -> list[AttackCaption]:
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
    pools = _text_pools(truth, others, paraphrases, dice)
    return [
        AttackCaption(name, text)
        for name in FAMILIES
        for text in _draw_texts(pools.get(name, ()), per_family, dice, truth, _may_be_true(FAMILIES[name]))
    ]


def _may_be_true(family: AttackCaptionKind) -> bool:
    return family.is_true or family.frames != "none"


def _draw_texts(
    pool: Sequence[str], count: int, dice: random.Random, truth: KnownCaption, may_be_true: bool
) -> list[str]:
    """Some different texts of a pool; a false one that happens to be the truth is left out."""
    texts = [
        text
        for text in dict.fromkeys(pool)
        if may_be_true or _normalise_text(text) != _normalise_text(truth.text)
    ]
    return dice.sample(texts, min(count, len(texts)))


def _normalise_text(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


def _text_pools(
    truth: KnownCaption, others: Sequence[KnownCaption], paraphrases: Texts, dice: random.Random
) -> Mapping[str, Sequence[str]]:
    """The texts that may be drawn, by family."""
    action = split_caption_words(truth.phrase)
    written = {
        family: [text.replace("{}", truth.text) for text in texts]
        for family, texts in read_hostile_captions().items()
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
    pools["mixture"] = [_distort_random_text(pools[dice.choice(_MIXED)], dice) for _ in range(8)]
    return pools


def _true_pools(truth: KnownCaption, paraphrases: Texts) -> dict[str, Sequence[str]]:
    """True captions. After a failure only the exact one: "fail to" does not go before every sentence."""
    if truth.succeeded is False:
        return {EXACT: [truth.text]}
    return {
        EXACT: [truth.text],
        "paraphrase": paraphrases.get(truth.phrase, ()),
        "third_person": [as_statement(truth.phrase)],
        "reworded": [wording.replace("{}", truth.phrase) for wording in _SAME_MEANING],
    }


def _wrong_pools(
    truth: KnownCaption, action: CaptionWords, others: Sequence[KnownCaption]
) -> dict[str, Sequence[str]]:
    """Captions with one wrong part, with the outcome of the episode where it is known."""
    other_actions = [split_caption_words(other.phrase) for other in others if other.phrase != truth.phrase]
    objects = [*OTHER_OBJECTS, *(other.part(other.object) for other in other_actions)]
    destinations = [
        *OTHER_DESTINATIONS,
        *(part for other in other_actions if (part := other.part(other.destination)).count(" ") > 1),
    ]
    wrong = {
        "wrong_verb": make_wrong_verb_captions(action),
        "wrong_colour": make_wrong_colour_captions(action),
        "wrong_direction": make_wrong_direction_captions(action),
        "wrong_object": _replace_noun(action, action.object, objects),
        "wrong_destination": _replace_noun(action, action.destination, destinations),
    }
    stated = {name: [_with_outcome(text, truth) for text in texts] for name, texts in wrong.items()}
    same = [other.text for other in others if other.phrase == truth.phrase]
    different = [other.text for other in others if not _shared_words(other.phrase, truth.phrase)]
    return {**stated, "other_episode_same_task": same, "other_episode_other_task": different}


def _with_outcome(phrase: str, truth: KnownCaption) -> str:
    return f"fail to {phrase}" if truth.succeeded is False else phrase


def _replace_noun(action: CaptionWords, part: slice, replacements: Sequence[str]) -> list[str]:
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
    truth: KnownCaption, action: CaptionWords, others: Sequence[KnownCaption], dice: random.Random
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
        "homoglyphs": [wrong.translate(_HOMOGLYPHS) for wrong in make_wrong_verb_captions(action)],
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


def _distort_random_text(pool: Sequence[str], dice: random.Random) -> str:
    """One text of a pool with random letters, joints and endings."""
    text = dice.choice(pool or read_hostile_captions()["off_topic"])
    bends: tuple[Callable[[str], str], ...] = (
        str.upper,
        str.capitalize,
        lambda old: f"{old}, {dice.choice(read_hostile_captions()['judge_addressed']).replace('{}', old)}",
        lambda old: f"{dice.choice(read_hostile_captions()['rubric_echo'])}: {old}",
        lambda old: f"{old}{dice.choice(('!', ' ...', ' ;-)', ' [end]'))}",
        lambda old: " ".join(_misspell_word(word, dice) for word in old.split()),
    )
    for bend in dice.sample(bends, 2):
        text = bend(text)
    return text


def _misspell_word(word: str, dice: random.Random) -> str:
    """A word that now and then has two letters swapped."""
    if len(word) < 5 or dice.random() > 0.2:
        return word
    position = dice.randrange(1, len(word) - 2)
    return word[:position] + word[position + 1] + word[position] + word[position + 2 :]
