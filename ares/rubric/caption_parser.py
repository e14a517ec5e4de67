"""Reads a sentence without a model: what is done, and how it ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal, cast, get_args

from ares.rubric.slots import (
    COMPLETED,
    NOT_COMPLETED,
    OTHER,
    SlotName,
    SlotValues,
    is_short_value,
)

Outcome = Literal["success", "attempt", "failure"]
_WORST_LAST: tuple[Outcome, ...] = get_args(Outcome)

_WORD_LINES = [
    line.partition(": ")
    for line in files("ares.rubric").joinpath("verb_words.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
# By word the verb of the shipped guide that it means, and all verbs: further ones stand in lines without ": ".
_VERB_KEY: Mapping[str, str] = {
    word: verb for verb, sign, words in _WORD_LINES if sign for word in words.split()
}
VERBS = frozenset(_VERB_KEY).union(
    *(verb.split()[:1] if sign else verb.split() for verb, sign, _ in _WORD_LINES)
)
DETERMINERS = frozenset(["the", "a", "an", "its", "their", "this", "that", "these", "those", "some", "one"])
# Words that no action begins with.
_NO_ACTIONS = DETERMINERS.union(
    ("on", "onto", "upon", "atop", "in", "into", "inside", "to", "at", "toward", "towards", "under", "of"),
    ("beneath", "below", "underneath", "above", "behind", "before", "beside", "next", "near", "who", "which"),
    ("between", "against", "from", "off", "out", "away", "by", "with", "using", "without", "while", "over"),
    ("around", "through", "across", "along"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizedCaption:
    """A caption without its wording.

    Attributes:
        phrase: What is done, sentence by sentence, in lower case, without final punctuation; in the imperative, if no
            person and no certain arm is named who does it.
        outcome: "failure" for "fail to ...", "do not ..." and the like, "attempt" for "try to ...", else "success".
    """

    phrase: str
    outcome: Outcome


@lru_cache(maxsize=50_000)
def normalize_caption(text: str) -> NormalizedCaption:
    """The form of a caption; of several outcomes the worst counts."""
    plain = re.sub(r"[^\S\n]+", " ", text.replace("\u2019", "'")).strip().lower()
    sentences = [part.strip().strip("\"'").strip() for part in re.split(r"[.!?;:]+(?:\s|$)|\n+", plain)]
    readings = [_read_sentence(sentence) for sentence in sentences if sentence]
    outcomes = [outcome for _, outcome in readings]
    return NormalizedCaption(
        phrase=". ".join(phrase for phrase, _ in readings if phrase),
        outcome=max(outcomes, key=_WORST_LAST.index, default="success"),
    )


def _read_sentence(sentence: str) -> tuple[str, Outcome]:
    """What a sentence says is done, and how it ends."""
    effects: list[str] = []
    for pattern, effect in _ENDS:
        match = pattern.search(sentence)
        if match and match.start() > 0:
            sentence = sentence[: match.start()].strip(" ,")
            effects.append(effect)
    text = _read_openings(sentence, effects)
    if front := _FRONT.match(text):
        return front[1] + _read_openings(front[2], effects), _combine_outcomes(effects)
    begin = _WAYS.match(text).end()  # type: ignore[union-attr]  # it matches nothing, too
    verb, space, more = text[begin:].partition(" ")
    return f"{text[:begin]}{find_verb_base_form(verb)}{space}{more}", _combine_outcomes(effects)


def _read_openings(text: str, effects: list[str]) -> str:
    """A text without the words at its start that say who acts, when or with what outcome; adds what they say."""
    while True:
        matches = ((pattern.match(text), effect) for pattern, effect in _OPENINGS)
        match, effect = next(((match, effect) for match, effect in matches if match), (None, ""))
        if not match or match.end() >= len(text):
            return text
        effects.append(effect)
        text = text[match.end() :].strip()


def _combine_outcomes(effects: Iterable[str]) -> Outcome:
    """The worst outcome by words in their order: "not manage to" is a failure, and "never fail to" is none."""
    outcomes: list[Outcome] = []
    is_negated = False
    for effect in effects:
        if effect == "negation":
            is_negated = not is_negated
        elif effect and is_negated:
            outcomes.append("success" if effect == "failure" else "failure")
            is_negated = False
        elif effect:
            outcomes.append(cast("Outcome", effect))
    return "failure" if is_negated else max(outcomes, key=_WORST_LAST.index, default="success")


# Forms of verbs and what their infinitives have in place of the ending.
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


@lru_cache(maxsize=10_000)
def find_verb_base_form(word: str) -> str:
    """A known verb as its infinitive: "closes", "closing" and "closed" become "close"; another word as it is."""
    if word in VERBS:
        return word
    candidates = [word.removesuffix(ending) + more for ending, more in _ENDINGS if word.endswith(ending)]
    # "putting", "dragged": the last letter of the infinitive is written twice.
    candidates += [stem[:-1] for stem in candidates if len(stem) > 2 and stem[-1] == stem[-2]]
    return next((candidate for candidate in candidates if candidate in VERBS), word)


_ROBOT = r"(?:(?:robot(?:ic|'s)?|manipulator|arm|gripper|end[- ]effector|hand|claw)\s?)+(?<!\s)"
_PERSON = (
    r"(?:(?:the|a|an|this) )?(?:\w+ )?"
    r"(?:person|human|man|woman|girl|boy|operator|worker|user|child|somebody|someone)|he|she|they"
)
_NOT = r"(?:(?:do|does|did|will|would|could|can|should|must|is|was) ?(?:not|n't)|won't|can't)"
# Opening words and what they say, in the order in which they are tried; "" is nothing of the outcome.
_OPENINGS = tuple(
    (re.compile(rf"(?:{words}),?\s+"), effect)
    for words, effect in (
        (
            r"please|now|then|first|next|finally|and|there (?:is|are)|it"
            r"|in (?:the|this) (?:video|clip|episode|image|picture|frame)s?"
            rf"|(?:have|make|let|use|get|tell) (?:the|a|this|its) {_ROBOT}(?: to)?"
            rf"|(?:the|a|an|this|its|one) {_ROBOT}|robot(?: arm| hand| gripper)?",
            "",
        ),
        (r"(?:cannot|can't)|(?:is |are |was |were )?(?:unable|not able) to", "failure"),
        (
            rf"{_NOT}|not|never|avoid|refrain from|refuses? to|(?:forget|neglect|omit)(?:s|ted|ed|ting|ing)? to"
            r"|(?:do|does|did)? ?anything (?:but|except)(?: to)?",
            "negation",
        ),
        (r"fail(?:s|ed|ing)? (?:to|at|in)|(?:have|has|had) failed (?:to|at|in)|unsuccessfully", "failure"),
        (
            r"manag(?:e|es|ed|ing) to|succeed(?:s|ed|ing)? (?:in|at)|(?:(?:is|are|was|were) )?able to|successfully",
            "success",
        ),
        # What is only tried, meant, feigned or weighed has not been done.
        (r"maybe|perhaps|possibly|probably|apparently|either|almost|nearly", "attempt"),
        (r"(?:stops?|pauses?|halts?|gives? up) (?:just |right )?before(?: you| it| the robot)?", "attempt"),
        (
            r"(?:(?:be|is|are|was|were|gets?|getting) )?(?:about|ready|on the (?:verge|point)) (?:to|of)"
            r"|(?:tries|tried|(?:try|attempt|struggle|seek|prepare|pretend|plan|intend|want|hope|wish|aim|decide"
            r"|hesitate|threaten|promise|expect|wait|offer|mean|need)(?:s|es|d|ed|ing)?) (?:to|at)"
            r"|(?:consider|think|wonder)(?:s|ed|ing)?(?: about| of)?(?: whether| if)?(?: to)?",
            "attempt",
        ),
        (
            r"is|are|was|were|been|being|has|have|had|should|must|will|does|do|did|to(?! (?:the|a|an|its) )"
            r"|(?:going|supposed|starts?|begins?) to",
            "",
        ),
    )
)
# What stands before the action and stays: "from the shelf, " of "from the shelf, take the cup", and who acts.
_FRONT = re.compile(
    r"((?:(?:in|on|at|from|inside|near|behind|with|using|without|off|out of|next to|to|by)\s[^,]+,"
    rf"|(?:the|a|an|this|its|one) (?:left|right) {_ROBOT}|{_PERSON})\s+)(.+)",
    re.DOTALL,
)
# How something is done, before its verb: "slowly and very carefully ".
_WAYS = re.compile(r"(?:(?:\w{4,}ly|very|quite|rather|and|then|but|or),?\s+)*")
# What a sentence says at its end.
_ENDS = (
    (
        re.compile(
            r",? (?:(?:but|and|yet) (?:it |then |the robot )?"
            rf"(?:fail(?:s|ed|ing)?|{_NOT} (?:succeed|manage|make it|work|able to))"
            r"|without (?:any )?success|unsuccessfully|in vain)$"
        ),
        "failure",
    ),
    (re.compile(r",? \(?(?:or|and maybe) not\)?$"), "attempt"),
    (re.compile(r",? (?:successfully|with success|please)$"), "success"),
)


def read_action_and_outcome(text: str, verbs: Mapping[str, str]) -> SlotValues:
    """The action that a sentence says first, and how it ends; either is left out where nothing is said.

    Args:
        text: The sentence.
        verbs: The guide of verbs.
    """
    form = normalize_caption(text)
    sentence = form.phrase.partition(". ")[0]
    front = _FRONT.match(sentence)
    words = _WAYS.sub("", (front[2] if front else sentence).replace(",", ""), count=1).split()
    slots: dict[SlotName, str] = {}
    if words and words[0] in _NO_ACTIONS:
        # "who holds a cup opens the drawer": more is said of who acts.
        known = [number for number, word in enumerate(words) if find_verb_base_form(word) not in ("", word)]
        words = words[known[-1] :] if known else []
    if words:
        slots["action"] = name_action(find_verb_base_form(words[0]), " ".join(words[1:]), verbs)
    slots["outcome"] = {"success": COMPLETED, "failure": NOT_COMPLETED}.get(form.outcome, "")
    return {name: value for name, value in slots.items() if is_short_value(value)}


def name_action(verb: str, rest: str, verbs: Mapping[str, str]) -> str:
    """A verb as the guide has it, also "turn on" of "turn the light on"; with OTHER before one that it has not."""
    words = rest.split()
    known = [f"{verb} {word}" for word in (*words[:1], *words[-1:])]
    names = (*known, verb, _VERB_KEY.get(verb, ""))
    return next((name for name in names if name in verbs), f"{OTHER}: {verb}")
