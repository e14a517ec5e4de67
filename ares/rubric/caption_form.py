"""Brings a caption into the imperative: who acts, whether it succeeds, and what is done, whatever the wording."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ares.rubric import lexicon

Outcome = Literal["success", "failure", "attempt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionForm:
    """A caption without its wording.

    Attributes:
        sentences: What is done, sentence by sentence, in the imperative and in lower case, without final punctuation.
        outcome: "failure" for "fail to ..." and the like, "attempt" for "try to ...", else "success".
        is_negated: It says what is not done ("do not close the drawer").
        actor: Who does it, where that is somebody else than the robot ("person"); else "".
    """

    sentences: tuple[str, ...]
    outcome: Outcome
    is_negated: bool
    actor: str


@dataclass(slots=True)
class _Reading:
    """A sentence whose opening words are still being read."""

    text: str
    outcome: Outcome = "success"
    is_negated: bool = False
    actor: str = ""
    has_subject: bool = False


@lru_cache(maxsize=50_000)
def read_form(text: str) -> CaptionForm:
    """The form of a caption; of several outcomes the worst counts."""
    sentences = [
        part.strip().strip("\"'").strip() for part in re.split(r"[.!?;:]+(?:\s|$)|\n+", _plain(text))
    ]
    readings = [_read_sentence(sentence) for sentence in sentences if sentence]
    outcomes = [reading.outcome for reading in readings]
    return CaptionForm(
        sentences=tuple(reading.text for reading in readings if reading.text),
        outcome=next((name for name in ("failure", "attempt") if name in outcomes), "success"),
        is_negated=any(reading.is_negated for reading in readings),
        actor=next((reading.actor for reading in readings if reading.actor), ""),
    )


def _plain(text: str) -> str:
    """Lower case with single spaces, and with the short forms of "not" written out."""
    plain = re.sub(r"[^\S\n]+", " ", text.replace("\u2019", "'")).strip().lower()
    for short, long in lexicon.CONTRACTIONS.items():
        plain = re.sub(rf"\b{short}\b", long, plain)
    return plain


def _read_sentence(sentence: str) -> _Reading:
    reading = _Reading(text=sentence)
    _read_end(reading)
    while _read_start(reading):
        pass
    words = reading.text.split(" ")
    reading.text = " ".join([base_form(words[0], guess=reading.has_subject), *words[1:]])
    return reading


def _read_start(reading: _Reading) -> bool:
    """Read the subject, an auxiliary or a word for the outcome at the start; False where there is none any more."""
    for pattern, effect in _STARTS:
        match = pattern.match(reading.text)
        if match and match.end() < len(reading.text):
            reading.text = reading.text[match.end() :].strip()
            _note(reading, effect, match.group(0))
            return True
    return False


def _note(reading: _Reading, effect: str, words: str) -> None:
    """Note what opening words say."""
    reading.has_subject |= effect in ("robot", "person", "auxiliary")
    if effect == "negation":
        reading.is_negated = not reading.is_negated
    elif effect == "person":
        reading.actor = reading.actor or "person"
    elif effect == "robot":
        sides = [side for side in ("left", "right") if side in words.split()]
        reading.actor = reading.actor or "".join(sides[:1])
    else:
        _take_outcome(reading, effect)


def _read_end(reading: _Reading) -> None:
    """Read what a sentence says of the outcome at its end: "..., but fail", "... without success"."""
    for pattern, effect in _ENDS:
        match = pattern.search(reading.text)
        if match and match.start() > 0:
            reading.text = reading.text[: match.start()].strip(" ,")
            _take_outcome(reading, effect)


def _take_outcome(reading: _Reading, effect: str) -> None:
    """Note a stated outcome; "not manage to" is a failure, and no action that is not done."""
    if reading.is_negated and effect in ("success", "attempt"):
        reading.is_negated, effect = False, "failure"
    if effect == "failure":
        reading.outcome = "failure"
    elif effect == "attempt" and reading.outcome == "success":
        reading.outcome = "attempt"


@lru_cache(maxsize=10_000)
def base_form(word: str, *, guess: bool = False) -> str:
    """A verb in the form of its infinitive: "closes", "closing" and "closed" become "close".

    Args:
        word: The word; one that is no known verb in another form stays what it is.
        guess: It follows a subject, so that "-s" and "-ing" are endings also where the verb is not known.
    """
    if word in lexicon.VERBS:
        return word
    candidates = [word.removesuffix(ending) + more for ending, more in _ENDINGS if word.endswith(ending)]
    # "putting", "dragged": the last letter of the infinitive is written twice.
    candidates += [stem[:-1] for stem in candidates if len(stem) > 2 and stem[-1] == stem[-2]]
    known = [candidate for candidate in candidates if candidate in lexicon.VERBS]
    if known:
        return known[0]
    return candidates[-1] if guess and candidates and word.endswith(("s", "ing")) and len(word) > 4 else word


_ENDINGS = (
    ("ies", "y"),
    ("es", "e"),
    ("es", ""),
    ("ing", "e"),
    ("ing", ""),
    ("ied", "y"),
    ("ed", "e"),
    ("ed", ""),
    ("s", ""),
)


def _start(patterns: str, effect: str) -> tuple[re.Pattern[str], str]:
    return re.compile(rf"(?:{patterns}),?\s+"), effect


_ROBOT = r"(?:(?:robot(?:ic|'s)?|manipulator|arm|gripper|end[- ]effector|hand|claw)\s?)+(?<!\s)"
# Opening words and what they say, in the order in which they are tried.
_STARTS = (
    _start(r"please|now|then|first|next|finally|and", "nothing"),
    _start(r"in (?:the|this) (?:video|clip|episode|image|picture|frame)s?", "nothing"),
    _start(rf"(?:have|make|let|use|get|tell) (?:the|a|this|its) {_ROBOT}(?: to)?", "nothing"),
    _start(rf"(?:the|a|an|this|its|one) (?:left |right )?{_ROBOT}|robot(?: arm| hand| gripper)?|it", "robot"),
    _start(
        r"(?:(?:the|a|an|this) )?(?:\w+ )?(?:person|human|man|woman|operator|user|child|somebody|someone)|he|she|they",
        "person",
    ),
    _start(
        r"(?:(?:do|does|did|will|would|could|can|should|must) )?not|never|avoid|refrain from|refuses? to"
        r"|(?:do|does|did)? ?anything (?:but|except)(?: to)?",
        "negation",
    ),
    _start(r"maybe|perhaps|possibly|probably|apparently|either", "attempt"),
    _start(
        r"(?:stops?|pauses?|halts?|gives? up) (?:just |right |shortly )?before(?: you| it| the robot)?",
        "attempt",
    ),
    _start(r"cannot|(?:is |are |was |were )?(?:unable|not able) to", "failure"),
    _start(r"fail(?:s|ed|ing)? (?:to|at|in)|(?:have|has|had) failed (?:to|at|in)|unsuccessfully", "failure"),
    _start(
        r"manag(?:e|es|ed|ing) to|succeed(?:s|ed|ing)? (?:in|at)|(?:(?:is|are|was|were) )?able to|successfully",
        "success",
    ),
    _start(r"(?:try|tries|tried|trying|(?:attempt|struggle|seek)(?:s|d|ed|ing)?) (?:to|at)", "attempt"),
    _start(
        r"(?:(?:be|is|are|was|were) )?(?:about|ready) to|(?:gets?|getting) ready to"
        r"|(?:(?:be|is|are|was|were) )?on the (?:verge|point) of|almost|nearly",
        "attempt",
    ),
    # What is only meant, feigned or weighed has not been done.
    _start(
        r"(?:prepare|pretend|plan|intend|want|hope|wish|aim|decide|hesitate|threaten|promise|expect|wait|offer|mean"
        r"|need|consider|think|wonder)(?:s|es|d|ed|ing)?(?: about| of)?(?: whether| if)? to"
        r"|(?:consider|think|wonder)(?:s|ed|ing)?(?: about| of| whether| if)?",
        "attempt",
    ),
    _start(
        r"is|are|was|were|been|being|has|have|had|should|must|will|does|do|did|to"
        r"|(?:going|supposed|starts?|begins?) to",
        "auxiliary",
    ),
)
_NOT_DONE = r"(?:does|do|did|is|was|can|could) ?not (?:succeed|manage|make it|work|able to)"
# What a sentence says at its end.
_ENDS = (
    (
        re.compile(rf",? (?:but|and|yet) (?:it |then |the robot )?(?:fail(?:s|ed|ing)?|{_NOT_DONE})$"),
        "failure",
    ),
    (re.compile(r",? \(?(?:or|and maybe) not\)?$"), "attempt"),
    (re.compile(r",? (?:without (?:any )?success|unsuccessfully|in vain)$"), "failure"),
    (re.compile(r",? (?:successfully|with success|please)$"), "success"),
)
