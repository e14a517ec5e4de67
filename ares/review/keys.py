"""Keys that answer a question, for the page and the terminal, in the words of the guidelines."""

from __future__ import annotations

from typing import NamedTuple

from ares.review.answers import INSTRUCTION, SUCCESS

UNDO_KEY, HELP_KEY = "u", "?"


class AnswerKey(NamedTuple):
    """A key, and the answer that it gives.

    Attributes:
        key: One letter.
        verdict: As in `Answer`.
        label: The answer, as the guideline says it.
    """

    key: str
    verdict: str
    label: str


_UNSURE = AnswerKey("c", "unsure", "cannot tell")
_TRUTH = (AnswerKey("y", "met", "yes"), AnswerKey("n", "unmet", "no"), _UNSURE)
_OUTCOME = (AnswerKey("y", "success", "success"), AnswerKey("n", "failure", "failure"), _UNSURE)
_CRITERION = (AnswerKey("y", "met", "met"), AnswerKey("n", "unmet", "not met"), _UNSURE)


def list_answer_keys(question: str) -> tuple[AnswerKey, ...]:
    """The keys of a question; one that is no question of its own is a criterion."""
    return {"acceptable": _TRUTH, INSTRUCTION: _TRUTH, SUCCESS: _OUTCOME}.get(question, _CRITERION)
