"""Which values and sentences may be asked about beside those of other captions: those of plain, common words.

A model may obey what it reads. Asked about alone, a value can only spoil the answer about itself, which controls
measure; in one request with others it could spoil theirs. So a request holds several only where code finds no way to
speak in them: few words, letters alone, none of a list of words that judge, order, or speak of several things, and at
most one that only one episode of the dataset has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING
from unicodedata import combining, normalize

from annotators.grade.additions import is_listed_word, split_words, stem_word
from ares.store import quote_literal

if TYPE_CHECKING:
    from ares.store import Stores


_MOST_WORDS, _MOST_SENTENCE_WORDS = 4, 20
_LONGEST_WORD = 16
_SAMPLE = 400
_FEWEST_EPISODES = 2
# A word alone gives no order.
_MOST_UNKNOWN = 1
# Words that texts of several episodes of a dataset have.
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
        len(word) <= _LONGEST_WORD
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
    """Words that texts of several episodes of a dataset have, as `stem_word` makes them.

    Args:
        stores: Stores of the workspace.
        verbs: The guide of verbs, whose words are known everywhere.
        captions: The annotator of the captions.
    """

    def __init__(self, stores: Stores, verbs: Mapping[str, str], captions: str = "caption") -> None:
        self._stores, self._captions = stores, captions
        self._guide = {
            stem_word(word) for entry in verbs.items() for text in entry for word in split_words(text)
        }
        self._known: dict[str, frozenset[str]] = {}

    def known_words(self, dataset: str) -> frozenset[str]:
        """Words of the guide, and those that captions or instructions of at least two episodes have."""
        if dataset not in self._known:
            self._known[dataset] = frozenset(self._guide | self._read_common(dataset))
        return self._known[dataset]

    def _read_common(self, dataset: str) -> set[str]:
        batches = self._stores.tables.episodes.id_batches(f"dataset = {quote_literal(dataset)}")
        # Those with the first ids, which are hashes: the same ones whatever the order of the table.
        ids = nsmallest(_SAMPLE, (episode_id for ids in batches for episode_id in ids))
        episodes = self._stores.tables.episodes.get(ids)
        texts = {episode.episode_id: " ".join(episode.instructions) for episode in episodes}
        for caption in self._stores.annotations.find_annotations(list(texts), [self._captions]):
            texts[caption.episode_id] += f" {caption.value.get('text', '')} {_slot_text(caption.value)}"
        counts = Counter(word for text in texts.values() for word in set(map(stem_word, split_words(text))))
        return {word for word, count in counts.items() if count >= _FEWEST_EPISODES}


def _slot_text(value: Mapping[str, object]) -> str:
    slots = value.get("slots")
    return " ".join(map(str, slots.values())) if isinstance(slots, dict) else ""
