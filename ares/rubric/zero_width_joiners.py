"""Which joiners (U+200C, U+200D) of a text are its ordinary spelling, and hide nothing."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"
# The combining class of marks that take the vowel off a letter of an Indic script.
_VIRAMA = 9
# Categories: letters and marks on them; digits; emoji and tones of skin.
_LETTERS, _DIGITS, _EMOJI = ("L", "M"), "Nd", ("So", "Sk")
# Scripts whose spelling has no joiners.
_PLAIN_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC")
# Shows the character before it as an emoji.
_EMOJI_STYLE = "\ufe0f"


def drop_spelling_joiners(text: str) -> str:
    """A text without the joiners of its spelling: in Persian and Indic words, and in emoji of several parts.

    Those that stay hide something, as one between Latin letters or beside a space does, or one after another.
    """
    if not any(joiner in text for joiner in _JOINERS):
        return text
    befores, afters = " " + text, text[1:] + " "
    return "".join(
        char
        for before, char, after in zip(befores, text, afters, strict=False)
        if not (char in _JOINERS and _is_spelling(before, after))
    )


def _is_spelling(before: str, after: str) -> bool:
    """Whether a joiner between two characters is spelling."""
    if unicodedata.combining(before) == _VIRAMA:
        return True
    if _is_emoji(before) and _is_emoji(after):
        return True
    return _may_be_joined(after) and (_may_be_joined(before) or unicodedata.category(before) == _DIGITS)


def _is_emoji(char: str) -> bool:
    return char == _EMOJI_STYLE or (unicodedata.category(char) in _EMOJI and not char.isascii())


def _may_be_joined(char: str) -> bool:
    """Whether it is a letter, or a mark on one, of a script whose spelling has joiners."""
    is_letter = unicodedata.category(char).startswith(_LETTERS)
    return is_letter and not unicodedata.name(char, "").startswith(_PLAIN_SCRIPTS)
