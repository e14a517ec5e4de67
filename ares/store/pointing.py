"""Pointing: where in a filter its fault stands, found by planning pieces of it when its message does not tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain, islice

_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`")
_FOUND = re.compile(r"found: (.*)$", re.DOTALL)
_JOINTS = re.compile(r"\b(?:AND|OR|NOT)\b|[()]", re.IGNORECASE)
_WORD_BEFORE = re.compile(r"(\w+)\s*$")
# What fails only when values are met, and how it stands in a filter.
_RUNNING = (
    ("Divide by zero", r"[/%]"),
    ("Overflow", r"[-+*]"),
    ("ast", r"\b(?:TRY_)?CAST\b|::|\barray_\w+"),
)
# Pieces that are planned to find a fault; a filter of thousands of conditions has to be answered soon too.
_MOST_PIECES = 50

# Plans a piece of a filter and gives what is wrong with it, in the same words as of the whole, or "".
Try = Callable[[str], str]


def bare(where: str) -> str:
    """The filter with what is quoted as spaces; names in backticks stay."""
    return _QUOTED.sub(lambda found: found[0] if found[0][0] == "`" else " " * len(found[0]), where)


def quoted(where: str) -> Iterator[re.Match[str]]:
    """What stands in quotes of any kind."""
    return _QUOTED.finditer(where)


def only(where: str, pattern: str) -> int | None:
    """Where the pattern stands outside quotes, when it stands there once."""
    found = [match.start() for match in re.finditer(pattern, bare(where), re.IGNORECASE)]
    return found[0] if len(found) == 1 else None


def unterminated(where: str) -> int | None:
    """Where a quote opens that nothing closes."""
    rest = _QUOTED.sub(lambda found: " " * len(found[0]), where)
    return next((place for place, sign in enumerate(rest) if sign in "'\"`"), None)


def place(where: str, cause: str, wrong: Try) -> int:
    """Where a fault most likely stands: at a word that no filter can go on with, or at the condition that has it too.

    Args:
        where: The filter.
        cause: What is wrong with it.
        wrong: Says what is wrong with a piece of it.
    """
    found = _FOUND.search(cause)
    if found:
        return _unexpected(where, cause, found[1].strip(), wrong)
    for words, pattern in _RUNNING:
        met = re.search(pattern, bare(where), re.IGNORECASE) if words in cause else None
        if met:
            return met.start()
    for start, piece in _pieces(where):
        if wrong(piece) == cause:
            return start
    return len(where) - len(where.lstrip())


def _unexpected(where: str, cause: str, word: str, wrong: Try) -> int:
    """The first such word up to which the filter fails in the same way: it is read from the left."""
    end = len(where.rstrip())
    if word in ("EOF", ""):
        return end
    pattern = re.escape(word) if word[0] in "'\"" else rf"(?<!\w){re.escape(word)}"
    text = where if word[0] in "'\"" else bare(where)
    places = [match.start() for match in re.finditer(pattern, text)]
    for start in places[:_MOST_PIECES]:
        if wrong(where[: start + len(word)]) == cause:
            return start
    # The parenthesis that closes the whole filter is none of its own.
    return end if word == ")" or not places else places[0]


def _pieces(where: str) -> Iterator[tuple[int, str]]:
    """The conditions that AND, OR, NOT and parentheses join, each with its place; functions and lists stay whole."""
    text, start = bare(where), 0
    for stop, following in islice(chain(_cuts(text), [(len(where), len(where))]), _MOST_PIECES):
        piece = where[start:stop]
        if piece.strip():
            yield start + len(piece) - len(piece.lstrip()), piece
        start = following


def _cuts(text: str) -> Iterator[tuple[int, int]]:
    inside: list[bool] = []  # of each open parenthesis, whether it belongs to a function or a list
    for joint in _JOINTS.finditer(text):
        if joint[0] == "(":
            word = _WORD_BEFORE.search(text, max(0, joint.start() - 80), joint.start())
            inside.append(word is not None and word[1].upper() not in ("AND", "OR", "NOT"))
        held = any(inside)
        if joint[0] == ")" and inside:
            inside.pop()
        if not held:
            yield joint.start(), joint.end()
