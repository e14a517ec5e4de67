"""The tokenizer of a text tower, without its library."""

from __future__ import annotations

import html
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tokenizers import Tokenizer


Cleaning = Literal["lower", "canonicalize", "whitespace"]

# ftfy and the entities of HTML leave such a text as it is.
_PLAIN = re.compile(r"[\x20-\x25\x27-\x7e]*")

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)

_SUFFIXES = "'s|'t|'re|'ve|'m|'ll|'d"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerConfig:
    """What surrounds the subword model.

    Attributes:
        cleaning: How a text is cleaned first, by the names of open_clip.
        context_length: Number of token ids of every text.
        special_ids: Start and end of a text with their ids, in this order, as open_clip's tokenizer adds them.
            Empty for a tokenizer of the hub, which splits, cuts and pads a text by itself.
        removed_id: Id that is replaced by 0 (open_clip's `strip_sep_token`), or None.
    """

    cleaning: Cleaning
    context_length: int
    special_ids: Mapping[str, int] = field(default_factory=dict)
    removed_id: int | None = None


class TextTokenizer:
    """Texts to token ids.

    Args:
        config: Cleaning, length and special ids.
        document: The tokenizer, as the JSON of the `tokenizers` library.
    """

    def __init__(self, config: TokenizerConfig, document: str) -> None:
        self._config, self._document = config, document

    def token_ids(self, text: str) -> list[int]:
        """Ids of one text, padded or cut to the context length."""
        cleaned = clean(text, self._config.cleaning)
        if self._config.special_ids:
            return self._clip_ids(cleaned)
        ids = self._tokenizer.encode(cleaned).ids
        return [0 if token == self._config.removed_id else token for token in ids]

    def _clip_ids(self, cleaned: str) -> list[int]:
        """As open_clip's tokenizer: words, their subwords, start and end, zeros."""
        length, special_ids = self._config.context_length, self._config.special_ids
        start, end = list(special_ids.values())[:2]
        ids = [start]
        for word in _split_words(cleaned, special_ids):
            ids += [special_ids[word]] if word in special_ids else self._tokenizer.encode(word).ids
        ids = [*ids[: length - 1], end]
        return ids + [0] * (length - len(ids))

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        return Tokenizer.from_str(self._document)


def clean(text: str, cleaning: Cleaning) -> str:
    """A text as open_clip cleans it before it is tokenised."""
    text = _repair_text(text).strip()
    if cleaning == "canonicalize":
        return " ".join(text.replace("_", " ").translate(_WITHOUT_PUNCTUATION).lower().split())
    text = " ".join(text.split())
    return text.lower() if cleaning == "lower" else text


def _repair_text(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    import ftfy

    return html.unescape(html.unescape(ftfy.fix_text(text)))


def _split_words(text: str, special_ids: Mapping[str, int]) -> list[str]:
    specials = "|".join(special_ids)
    if text.isascii():
        pattern = rf"{specials}|{_SUFFIXES}|[a-z]+|[0-9]|[^\sa-z0-9]+"
        return re.findall(pattern, text, re.IGNORECASE)
    import regex

    words: list[str] = regex.findall(
        rf"{specials}|{_SUFFIXES}|[\p{{L}}]+|[\p{{N}}]|[^\s\p{{L}}\p{{N}}]+", text, regex.IGNORECASE
    )
    return words
