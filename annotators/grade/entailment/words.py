"""Two texts as numbers of word pieces, with the pieces whose word the other text has too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Longer texts are cut; a caption of that length is refused as too long by its form.
MOST_PIECES = 56
_LONGEST_WORD = 30
_UNKNOWN = "[UNK]"


@dataclass(frozen=True, slots=True)
class PieceText:
    """A text as word pieces.

    Attributes:
        pieces: Number of each piece, at most MOST_PIECES.
        stems: For each piece the stem of its word; "" for words that say little.
    """

    pieces: tuple[int, ...]
    stems: tuple[str, ...]


@lru_cache(maxsize=50_000)
def split_words(text: str) -> tuple[str, ...]:
    """The words of a text in lower case, with commas, hyphens and apostrophes as words."""
    return tuple(re.findall(r"[^\W_]+|[,'-]", text.lower().replace("\u2019", "'")))


class PieceSplitter:
    """Splits words as BERT does: the longest known piece first, then the longest known rest, marked by "##".

    Args:
        pieces: The known pieces, in order of their numbers.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self._numbers: Mapping[str, int] = {piece: number for number, piece in enumerate(pieces)}
        self._texts: dict[str, PieceText] = {}

    def split(self, text: str) -> PieceText:
        """The pieces of a text."""
        if text not in self._texts:
            if len(self._texts) >= 50_000:
                self._texts.clear()
            pairs = [(piece, stem(word)) for word in split_words(text) for piece in self._pieces(word)]
            pairs = pairs[:MOST_PIECES]
            self._texts[text] = PieceText(
                tuple(piece for piece, _ in pairs), tuple(word for _, word in pairs)
            )
        return self._texts[text]

    def _pieces(self, word: str) -> list[int]:
        if len(word) > _LONGEST_WORD:
            return [self._numbers[_UNKNOWN]]
        numbers: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            end = next(
                (end for end in range(len(word), start, -1) if f"{prefix}{word[start:end]}" in self._numbers),
                0,
            )
            if not end:
                return [self._numbers[_UNKNOWN]]
            numbers.append(self._numbers[f"{prefix}{word[start:end]}"])
            start = end
        return numbers


def shared_stems(first: PieceText, second: PieceText) -> tuple[list[int], list[int]]:
    """For each piece of two texts 1 where the other has the same word in any form, else 0."""
    return (
        [int(word in second.stems) for word in first.stems],
        [int(word in first.stems) for word in second.stems],
    )


def pad(rows: Sequence[Sequence[int]], padding: int) -> NDArray[np.int64]:
    """Rows of any length as an array (N, T), padded at the end; T is at least 1."""
    import numpy as np

    width = max((len(row) for row in rows), default=0) or 1
    table = np.full((len(rows), width), padding, dtype=np.int64)
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return table


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A word without its ending, so that "closes", "closing" and "closed" are the same; no word of the language."""
    for ending in ("ing", "ied", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) >= len(ending) + 3:
            word = word[: -len(ending)]
            break
    word = word.rstrip("ey") or word
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
