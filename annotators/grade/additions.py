"""Words of a caption's sentence that no slot of it bears, and what code says of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from ares.annotation import short_hash
from ares.episode import Json
from ares.rubric import NOT_COMPLETED, OTHER, SlotValues

# Sentences with more words than this beside the slots say more than the slots, whatever a model makes of them.
MOST_WORDS = 4
_LONGEST_WORD = 20
_PACKAGE = "annotators.grade"
# Thai, Lao, Burmese, Khmer, kana, Chinese, Korean: no space between words, or between a word and its particle.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ENDINGS = ("ing", "ies", "ied", "ed", "es", "s", "e", "y", "d")


@cache
def _word_list(name: str) -> frozenset[str]:
    text = files(_PACKAGE).joinpath("words", f"{name}.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return frozenset(word for line in lines for word in line.split())


def is_listed_word(name: str, word: str) -> bool:
    """Whether a word, in lower case, is in a list of words: "function", "address", "failure" or "menu"."""
    return word in _word_list(name)


def word_lists_hash() -> str:
    """Hash of the lists of words."""
    return short_hash([list[Json](sorted(_word_list(name))) for name in ("function", "address", "failure")])


def find_extra_words(sentence: str, slots: SlotValues, verbs: Mapping[str, str]) -> tuple[str, ...]:
    """The words that no slot, no word of the verb's entry in the guide and no function word bears, alphabetically.

    After an article a thing is named: there the guide bears nothing, so that "and the door" of a closed drawer stands.

    Args:
        sentence: The sentence of the caption.
        slots: What it states.
        verbs: The guide of verbs.
    """
    action = slots.get("action", "")
    values = [word for value in slots.values() for word in split_words(value)]
    borne = set(map(stem_word, values))
    meaning = re.sub(r"\bfrom \w+", "", verbs.get(action, ""))
    guide = {stem_word(word) for word in split_words(f"{action} {meaning}")} - {OTHER}
    if slots.get("outcome") == NOT_COMPLETED:
        borne |= {stem_word(word) for word in _word_list("failure")}
    words = [part for word in split_words(sentence) for part in _parts_beside_values(word, values)]
    before = ["", *words][: len(words)]
    extra = {
        word
        for word, previous in zip(words, before, strict=True)
        if word not in _word_list("function")
        and stem_word(word) not in borne
        and (stem_word(word) not in guide or previous in ("the", "a", "an"))
    }
    return tuple(sorted(extra))


def addresses_judge(values: Sequence[str]) -> str:
    """The first word of some values that speaks to a judge and describes no motion of a robot; "" for none."""
    words = [word for value in values for word in split_words(value)]
    address = next((word for word in words if word in _word_list("address")), "")
    unspaced = [word for word in words if _UNSPACED.search(word)]
    return address or next(
        (part for part in _unspaced_words("address") if any(part in word for word in unspaced)), ""
    )


def rule_on_extra_words(words: Sequence[str], slots: SlotValues) -> str:
    """Why words beside the slots leave a caption in doubt, by code; "" where a model of texts is to be asked."""
    stated = [value for slot, value in slots.items() if slot != "outcome"]
    address = addresses_judge([*words, *stated])
    if address:
        return f"it may speak to the judge: {address!r}"
    if len(words) > MOST_WORDS:
        return f"{len(words)} words say what no slot says"
    is_latin = all(_is_latin(value) for value in slots.values())
    if any(len(word) > _LONGEST_WORD or (is_latin and not _is_latin(word)) for word in words):
        return "words of another script, or that are none"
    return ""


def split_words(text: str) -> list[str]:
    """The words of a text in lower case; numbers are words."""
    return re.findall(r"\w+(?:['\u2019]\w+)*", text.lower().replace("\u2019", "'"))


def _parts_beside_values(word: str, values: Sequence[str]) -> list[str]:
    """What values and function words leave of a run without spaces; a word of any other script as it is."""
    if not _UNSPACED.search(word):
        return [word]
    borne = [value for value in values if _UNSPACED.search(value)]
    known = sorted((*borne, *_unspaced_words("function")), key=len, reverse=True)
    return [part for part in re.split("|".join(map(re.escape, known)), word) if part]


@cache
def _unspaced_words(name: str) -> tuple[str, ...]:
    return tuple(sorted(word for word in _word_list(name) if _UNSPACED.search(word)))


def _is_latin(text: str) -> bool:
    return all(ord(letter) < 0x250 for letter in text if letter.isalpha())


def stem_word(word: str) -> str:
    """A word without the ending of its form: "closes", "closing" and "closed" are one word."""
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 3:
            word = stem
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word.removesuffix("e")
