"""Fails captions that are certainly wrong, or that repeat a clause, by code and without a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ares.console import count_of
from ares.rubric.caption_parser import (
    DETERMINERS,
    VERBS,
    normalize_caption,
)
from ares.rubric.slots import COMPLETED, SlotValues, drop_spelling_joiners
from ares.rubric.verdict import Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Trajectory


_CLAUSE_SEPARATORS = re.compile(r"[.!?;:,\n]+|\b(?:and|then|(?:and )?after (?:that|this|which)|afterwards)\b")
_FEWEST_WORDS = 2


def repeated_clause(text: str) -> str:
    """The first clause that is said twice in a row, or the first sequence of clauses; "" where there is none.

    Only the same words count, apart from articles, capital letters and the form of the verb. "Again", "another" and
    "the other" say that something else is meant, and so do another outcome and another arm.
    """
    forms = [normalize_caption(part.strip(" \"'")) for part in _CLAUSE_SEPARATORS.split(text.lower())]
    clauses = [(_words_without_determiners(form.phrase), form.outcome) for form in forms if form.phrase]
    for start in range(len(clauses)):
        for length in range(1, (len(clauses) - start) // 2 + 1):
            block = clauses[start : start + length]
            if block == clauses[start + length : start + 2 * length] and _is_action(block[0][0], start):
                return ", ".join(" ".join(words) for words, _ in block)
    return ""


def _words_without_determiners(sentence: str) -> tuple[str, ...]:
    words = re.findall(r"\w+(?:[-']\w+)*", sentence)
    return tuple(word for word in words if word not in DETERMINERS)


def _is_action(words: Sequence[str], position: int) -> bool:
    """Whether a clause says an action, and is no item of a list; the first of an imperative caption does."""
    return len(words) >= _FEWEST_WORDS and (position == 0 or words[0] in VERBS)


_MAX_WORD_COUNT = 30
# A signal with a smaller range than this share of its size, or than this in its unit, has not moved.
_STILL_RANGE = 1e-3
# Verbs of the shipped guide that need a gripper which closes; a hook or a scoop lifts without.
_GRASPS = frozenset({"pick up", "grasp"})


class CheckResult(NamedTuple):
    """The result of a check; `verdict` is None where the check does not apply."""

    verdict: Verdict | None
    reason: str = ""
    observed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInput:
    """The sentence of a caption, what it states, and the signals of its episode."""

    text: str
    slots: SlotValues
    trajectory: Trajectory | None


INAPPLICABLE = CheckResult(None)

# What no description of a video holds.
_PITFALLS: tuple[tuple[str, str], ...] = (
    ("markup or a delimiter", r"[<>{}\[\]`|\\]|\"\"\"|'''|&[a-z#0-9]+;|https?:|^\s*#|\*\*|---|:\s*[\"']"),
    (
        "control or invisible character",
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]",
    ),
    ("no words", r"^[\W_]*$"),
)


def check_markup_and_hidden_text(caption: CheckInput) -> CheckResult:
    """Words, without markup, delimiters and invisible characters."""
    text = drop_spelling_joiners(caption.text)
    for reason, pattern in _PITFALLS:
        match = re.search(pattern, text, re.IGNORECASE)
        if match:
            return CheckResult(Verdict.UNMET, reason, repr(match.group(0)))
    return CheckResult(Verdict.MET)


# A period that no space follows is part of a number or of a name; quotes may stand between.
_SENTENCE_END = re.compile(r"""[!?;\n]\s*\S|\.["'\u2019\u201d)]*\s+(\w+)""")


def _begins_sentence(word: str | None) -> bool:
    """Whether a word behind a period begins a sentence, and the period is that of no abbreviation ("2 oz. of")."""
    return word is None or word[0].isupper() or word in VERBS


def check_imperative_form(caption: CheckInput) -> CheckResult:
    """One imperative sentence of at most 30 words."""
    text = caption.text.strip()
    first_word = text.split(maxsplit=1)[0].lower() if text else ""
    if any(_begins_sentence(match[1]) for match in _SENTENCE_END.finditer(text)):
        return CheckResult(Verdict.UNMET, "more than one sentence", text[:80])
    if len(text.split()) > _MAX_WORD_COUNT:
        return CheckResult(Verdict.UNMET, "too long", f"{count_of(len(text.split()), 'word')}")
    if (
        first_word in DETERMINERS
        or first_word in {"robot", "arm", "gripper", "it", "there"}
        or _is_gerund(first_word)
    ):
        return CheckResult(Verdict.UNMET, "not imperative", first_word)
    return CheckResult(Verdict.MET)


def _is_gerund(word: str) -> bool:
    """Whether "-ing" is an ending, as in "picking", and no part of the verb, as in "bring" and "restring"."""
    return word.endswith("ing") and not re.fullmatch(r"[^aeiouy]+ing|\w*string", word)


def check_repeated(caption: CheckInput) -> CheckResult:
    """A caption says each clause once."""
    clause = repeated_clause(caption.text)
    return CheckResult(Verdict.UNMET, "says the same twice", clause) if clause else INAPPLICABLE


def check_no_action(caption: CheckInput) -> CheckResult:
    """A caption says what is done."""
    return INAPPLICABLE if caption.slots.get("action") else CheckResult(Verdict.UNMET, "no action is named")


def check_grasp_without_close(caption: CheckInput) -> CheckResult:
    """The caption claims a completed grasp, but the gripper never moves."""
    signals = [signal for signal in _gripper_signals(caption.trajectory) if signal.shape[0] > 1]
    action = caption.slots.get("action", "")
    if action not in _GRASPS or caption.slots.get("outcome") != COMPLETED or not signals:
        return INAPPLICABLE
    if all(_is_still(signal) for signal in signals):
        return CheckResult(Verdict.UNMET, "gripper never moves", f"claimed: {action}")
    return INAPPLICABLE


def check_success_without_motion(caption: CheckInput) -> CheckResult:
    """The caption claims success, but the robot never moves."""
    trajectory = caption.trajectory
    if trajectory is None or trajectory.state is None or len(trajectory.timestamps) < 2:
        return INAPPLICABLE
    if caption.slots.get("outcome") == COMPLETED and _is_still(trajectory.state.values):
        return CheckResult(
            Verdict.UNMET, "robot never moves", f"over {count_of(len(trajectory.timestamps), 'step')}"
        )
    return INAPPLICABLE


def _gripper_signals(trajectory: Trajectory | None) -> list[NDArray[np.float32]]:
    """Columns (T,) of state and action whose name contains "grip"."""
    if trajectory is None:
        return []
    signals = [signal for signal in (trajectory.state, trajectory.action) if signal]
    return [
        signal.values[:, index]
        for signal in signals
        for index, name in enumerate(signal.names)
        if "grip" in name.lower()
    ]


def _is_still(values: NDArray[np.float32]) -> bool:
    import numpy as np

    if not np.isfinite(values).all():
        return False
    ranges = np.ptp(values, axis=0)
    return bool(np.all(ranges <= _STILL_RANGE * np.maximum(1.0, np.abs(values).max(axis=0))))


CHECKS: Mapping[str, Callable[[CheckInput], CheckResult]] = {
    "form": check_imperative_form,
    "pitfalls": check_markup_and_hidden_text,
    "repeated": check_repeated,
    "no_action": check_no_action,
    "grasp_without_close": check_grasp_without_close,
    "still_arm": check_success_without_motion,
}
