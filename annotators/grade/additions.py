"""Words of a caption's sentence that no slot of it bears, and what code says of them."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from heapq import nsmallest
from importlib.resources import files
from typing import TYPE_CHECKING

from ares.annotation import short_hash
from ares.episode import Json
from ares.rubric import NOT_COMPLETED, OTHER, VERBS, SlotValues, find_verb_base_form, shipped_names
from ares.store import quote_literal
from ares_annotators.grade.observation import OBSERVATION, read_observation

if TYPE_CHECKING:
    from ares.store import Stores


_PACKAGE = "ares_annotators.grade"
# Thai, Lao, Burmese, Khmer, kana, Chinese, Korean: no space between words, or between a word and its particle.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD = r"\w+(?:['\u2019]\w+)*"
_ENDINGS = ("ing", "ies", "ied", "ed", "es", "s", "e", "y", "d")


@cache
def _word_list(name: str) -> frozenset[str]:
    text = files(_PACKAGE).joinpath("words", f"{name}.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return frozenset(word for line in lines for word in line.split())


def word_lists_hash() -> str:
    """Hash of the lists of words."""
    return short_hash([list[Json](sorted(_word_list(name))) for name in ("function", "failure")])


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


def split_words(text: str) -> list[str]:
    """The words of a text in lower case; numbers are words."""
    return re.findall(_WORD, text.lower().replace("\u2019", "'"))


def _parts_beside_values(word: str, values: Sequence[str]) -> list[str]:
    """What values and function words leave of a run without spaces; a word of any other script as it is."""
    if not _UNSPACED.search(word):
        return [word]
    borne = [value for value in values if _UNSPACED.search(value)]
    glue = [part for part in _word_list("function") if _UNSPACED.search(part)]
    known = sorted((*borne, *glue), key=lambda part: (-len(part), part))
    return [part for part in re.split("|".join(map(re.escape, known)), word) if part]


def stem_word(word: str) -> str:
    """A word without the ending of its form: "closes", "closing" and "closed" are one word."""
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 3:
            word = stem
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word.removesuffix("e")


_SAMPLE = 400


def sample_episodes(stores: Stores, dataset: str, count: int) -> list[str]:
    """The first ids of a dataset, which are hashes: the same ones whatever the order of the table."""
    batches = stores.tables.episodes.id_batches(f"dataset = {quote_literal(dataset)}")
    return nsmallest(count, (episode_id for ids in batches for episode_id in ids))


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
        ids = sample_episodes(self._stores, dataset, _SAMPLE)
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


def may_be_order(text: str, known: Collection[str]) -> bool:
    """Whether a text could be an order to a model: a word alone gives none, except in a script without spaces."""
    unknown = find_unknown_words(text, known)
    return len(unknown) > 1 or any(map(_UNSPACED.search, unknown))
