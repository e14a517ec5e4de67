"""Finds clauses that a caption says twice in a row, such as "close the drawer and close the drawer"."""

from __future__ import annotations

import re
from typing import NamedTuple

from ares.rubric import lexicon
from ares.rubric.caption_form import Outcome, base_form, read_form

_JOINTS = re.compile(r"[.!?;:,\n]+|\b(?:and|then|(?:and )?after (?:that|this|which)|afterwards)\b")
_FEWEST_WORDS = 2


class _Clause(NamedTuple):
    """A clause without its wording: what is done, how it ends and who acts."""

    words: tuple[str, ...]
    outcome: Outcome
    is_negated: bool
    actor: str


def repeated_clause(text: str) -> str:
    """The first clause that is said twice in a row, or the first sequence of clauses; "" where there is none.

    Only the same words count, apart from articles, capital letters and the form of the verb. "Again", "another" and
    "the other" say that something else is meant, and so do another outcome and another arm.
    """
    clauses = _clauses(text)
    for start in range(len(clauses)):
        for length in range(1, (len(clauses) - start) // 2 + 1):
            block = clauses[start : start + length]
            if block == clauses[start + length : start + 2 * length] and _is_action(block[0], start):
                return ", ".join(" ".join(clause.words) for clause in block)
    return ""


def _clauses(text: str) -> list[_Clause]:
    forms = [read_form(part.strip(" \"'")) for part in _JOINTS.split(text.lower())]
    return [
        _Clause(
            words=_words(form.sentences[0]),
            outcome=form.outcome,
            is_negated=form.is_negated,
            actor=form.actor,
        )
        for form in forms
        if form.sentences
    ]


def _words(sentence: str) -> tuple[str, ...]:
    words = re.findall(r"\w+(?:[-']\w+)*", sentence)
    return tuple(word for word in words if word not in lexicon.DETERMINERS)


def _is_action(clause: _Clause, position: int) -> bool:
    """Whether a clause says an action, and is no item of a list; the first of an imperative caption does."""
    if len(clause.words) < _FEWEST_WORDS:
        return False
    return position == 0 or clause.outcome != "success" or base_form(clause.words[0]) in lexicon.VERBS
