"""Words of two texts as numbers: known words by their number, unknown ones by whether the other text has them too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PADDING, UNKNOWN = 0, 1
# Longer texts are cut; a caption of that length is refused as too long by its form.
MOST_WORDS = 40
# How much more the most similar word of the other text counts than the others.
SHARPNESS = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class WordArrays:
    """Pairs of texts as numbers, each array (N, T) int64, padded at the end.

    Attributes:
        words: Numbers of the words, `PADDING` and `UNKNOWN` included.
        sides: 0 for a word of the first text, 1 for one of the second.
        positions: Position of the word in its text.
        matches: 1 where the other text has the same word in any form.
    """

    words: NDArray[np.int64]
    sides: NDArray[np.int64]
    positions: NDArray[np.int64]
    matches: NDArray[np.int64]


@lru_cache(maxsize=50_000)
def split_words(text: str) -> tuple[str, ...]:
    """The words of a text in lower case, and its commas; at most MOST_WORDS."""
    return tuple(re.findall(r"\w+(?:[-']\w+)*|,", text.lower().replace("\u2019", "'"))[:MOST_WORDS])


def encode_pairs(pairs: Sequence[tuple[str, str]], vocabulary: Mapping[str, int]) -> WordArrays:
    """Pairs of texts as numbers."""
    import numpy as np

    rows = [_encode_pair(split_words(first), split_words(second), vocabulary) for first, second in pairs]
    width = max((len(row) for row in rows), default=1) or 1
    padded: NDArray[Any] = np.zeros((len(rows), width, 4), dtype=np.int64)
    for index, row in enumerate(rows):
        if row:
            padded[index, : len(row)] = row
    return WordArrays(padded[..., 0], padded[..., 1], padded[..., 2], padded[..., 3])


def _encode_pair(
    first: Sequence[str], second: Sequence[str], vocabulary: Mapping[str, int]
) -> list[tuple[int, int, int, int]]:
    stems = {stem(word) for word in first}, {stem(word) for word in second}
    return [
        (vocabulary.get(word, UNKNOWN), side, position, int(stem(word) in stems[1 - side]))
        for side, words in enumerate((first, second))
        for position, word in enumerate(words)
    ]


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A word without its ending, so that "closes", "closing" and "closed" are the same; no word of the language."""
    for ending in ("ing", "ied", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) >= len(ending) + 3:
            word = word[: -len(ending)]
            break
    word = word.rstrip("ey") or word
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
