"""Words of a caption's sentence that no slot of it bears, and what code says of them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from heapq import nsmallest
from importlib.resources import files
from typing import TYPE_CHECKING
from unicodedata import combining, normalize

from annotators.grade.observation import OBSERVATION, read_observation
from ares.annotation import short_hash
from ares.console import count_of
from ares.episode import Json
from ares.rubric import NOT_COMPLETED, OTHER, VERBS, SlotValues, find_verb_base_form, shipped_names
from ares.store import quote_literal

if TYPE_CHECKING:
    from ares.store import Stores


# Sentences with more words than this beside the slots say more than the slots, whatever a model makes of them.
MOST_WORDS = 4
_LONGEST_WORD = 20
_PACKAGE = "annotators.grade"
# Thai, Lao, Burmese, Khmer, kana, Chinese, Korean: no space between words, or between a word and its particle.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD = r"\w+(?:['\u2019]\w+)*"
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
        return f"{count_of(len(words), 'word')} {'says' if len(words) == 1 else 'say'} what no slot says"
    is_latin = all(_is_latin(value) for value in slots.values())
    if any(len(word) > _LONGEST_WORD or (is_latin and not _is_latin(word)) for word in words):
        return "words of another script, or that are none"
    return ""


def split_words(text: str) -> list[str]:
    """The words of a text in lower case; numbers are words."""
    return re.findall(_WORD, text.lower().replace("\u2019", "'"))


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


_MOST_WORDS, _MOST_SENTENCE_WORDS = 4, 20
_LONGEST_PLAIN_WORD = 16
_SAMPLE = 400
# A word alone gives no order.
_MOST_UNKNOWN = 1
# Words that a caption of a dataset may use, see `DatasetWords`.
WordReader = Callable[[str], frozenset[str]]
# Of the words that may speak to a judge one is in most sentences about a failure.
_HARMLESS = ("without",)


def is_plain_value(value: str) -> bool:
    """Whether a value is up to four words of letters, of which none speaks to a model."""
    words = value.split()
    return 0 < len(words) <= _MOST_WORDS and _are_plain(words)


def are_common_values(values: Sequence[str], known: frozenset[str]) -> bool:
    """Whether values are plain, and no more than one word of them all is unknown: several could be an order.

    Args:
        values: What one caption states.
        known: Common words of its dataset, see `DatasetWords`.
    """
    # No value ends in a comma, so that words of two values stay two.
    return all(map(is_plain_value, values)) and _count_unknown(" , ".join(values), known) <= _MOST_UNKNOWN


def is_common_sentence(sentence: str, known: frozenset[str]) -> bool:
    """Whether a text is one short sentence of plain words, of which no more than one is unknown."""
    words = sentence.strip().removesuffix(".").split()
    if not 0 < len(words) <= _MOST_SENTENCE_WORDS:
        return False
    return _are_plain(words) and _count_unknown(sentence, known) <= _MOST_UNKNOWN


def _count_unknown(text: str, known: frozenset[str]) -> int:
    words = set(split_words(text)) - {*_HARMLESS}
    return sum(stem_word(word) not in known and not is_listed_word("function", word) for word in words)


def _are_plain(words: Iterable[str]) -> bool:
    return all(
        len(word) <= _LONGEST_PLAIN_WORD
        and re.fullmatch(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*,?", word)
        and all(ord(letter) < 0x250 or letter == "\u2019" for letter in word)
        and not any(map(_speaks_to_model, split_words(word)))
        for word in words
    )


def _speaks_to_model(word: str) -> bool:
    letters = "".join(letter for letter in normalize("NFKD", word) if not combining(letter))
    return word not in _HARMLESS and any(
        is_listed_word(name, form) for name in ("address", "menu") for form in (word, letters)
    )


class DatasetWords:
    """Words that a caption of a dataset may use in its slots: others may be a note to the judge.

    They are those of shipped names of things and qualities, for an action those of verbs, and of instructions and of
    what the judge itself observed. Captions do not count: a captioner repeats its notes.

    Args:
        stores: Stores of the workspace.
        verbs: The guide of verbs.
    """

    def __init__(self, stores: Stores, verbs: Mapping[str, str]) -> None:
        self._stores = stores
        self._verbs, self._names = _stem_words([*verbs, *VERBS]), _stem_words(shipped_names())
        # What the guide explains is in words of which an order can be made.
        self._shipped = self._verbs | self._names | _stem_words(verbs.values())
        self._stated: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def known_words(self, dataset: str, slot: str = "") -> frozenset[str]:
        """The words of a dataset so far, as `stem_word` makes them.

        Args:
            dataset: The dataset.
            slot: The slot that has to say them; "" for any sentence.
        """
        shipped = self._verbs if slot == "action" else self._names if slot else self._shipped
        with self._lock:
            return frozenset(shipped | self._words_of(dataset))

    def learn(self, dataset: str, texts: Iterable[str]) -> None:
        """Add the words of what was observed in a dataset."""
        with self._lock:
            self._words_of(dataset).update(_stem_words(texts))

    def _words_of(self, dataset: str) -> set[str]:
        """The words of instructions and observations."""
        if dataset not in self._stated:
            self._stated[dataset] = self._read_words(dataset)
        return self._stated[dataset]

    def _read_words(self, dataset: str) -> set[str]:
        """The words of instructions, and of what was observed in earlier runs."""
        batches = self._stores.tables.episodes.id_batches(f"dataset = {quote_literal(dataset)}")
        # Those with the first ids, which are hashes: the same ones whatever the order of the table.
        ids = nsmallest(_SAMPLE, (episode_id for ids in batches for episode_id in ids))
        episodes = self._stores.tables.episodes.get(ids)
        texts = [text for episode in episodes for text in episode.instructions]
        stored = self._stores.annotations.find_annotations(ids, [OBSERVATION])
        seen = [observed for item in stored if (observed := read_observation(item.value))]
        return _stem_words([*texts, *(value for observation in seen for value in observation.visible_values)])


def _stem_words(texts: Iterable[str]) -> set[str]:
    return {stem_word(word) for text in texts for word in split_words(text)}


def find_unknown_words(value: str, known: Collection[str]) -> list[str]:
    """The words of a value that are not known and no function words, and signs that no value needs, in order."""
    return [
        word
        for word in re.findall(
            rf"{_WORD}|[^\w\s,.;'\u2019()/&%\u00b0-]", value.lower().replace("\u2019", "'")
        )
        if stem_word(word) not in known
        and stem_word(find_verb_base_form(word)) not in known
        and word not in _word_list("function")
    ]
