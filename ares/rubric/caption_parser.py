"""Takes the wording off a caption: what is done, how it ends and who acts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from ares.annotation import short_hash
from ares.rubric import lexicon
from ares.rubric.slots import (
    COMPLETED,
    NOT_COMPLETED,
    OTHER,
    SlotName,
    SlotValues,
    is_short_value,
    shipped_verbs,
)

Outcome = Literal["success", "failure", "attempt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizedCaption:
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

    @property
    def phrase(self) -> str:
        """What is done, as one text."""
        return ". ".join(self.sentences)


@dataclass(slots=True)
class _Reading:
    """A sentence whose opening words are still being read."""

    text: str
    outcome: Outcome = "success"
    is_negated: bool = False
    actor: str = ""
    has_subject: bool = False


@lru_cache(maxsize=50_000)
def normalize_caption(text: str) -> NormalizedCaption:
    """The form of a caption; of several outcomes the worst counts."""
    sentences = [
        part.strip().strip("\"'").strip()
        for part in re.split(r"[.!?;:]+(?:\s|$)|\n+", _normalise_caption(text))
    ]
    readings = [_read_sentence(sentence) for sentence in sentences if sentence]
    outcomes = [reading.outcome for reading in readings]
    return NormalizedCaption(
        sentences=tuple(reading.text for reading in readings if reading.text),
        outcome=next((name for name in ("failure", "attempt") if name in outcomes), "success"),
        is_negated=any(reading.is_negated for reading in readings),
        actor=next((reading.actor for reading in readings if reading.actor), ""),
    )


def _normalise_caption(text: str) -> str:
    """Lower case with single spaces, and with the short forms of "not" written out."""
    spaced = re.sub(r"[^\S\n]+", " ", drop_abbreviation_periods(text).replace("\u2019", "'"))
    plain = spaced.strip().lower()
    for short, long in lexicon.CONTRACTIONS.items():
        plain = re.sub(rf"\b{short}\b", long, plain)
    return plain


def drop_abbreviation_periods(text: str) -> str:
    """A text in which a period before a space ends a sentence: "no. 2" and "2 oz. of water" lose theirs."""
    plain = _abbreviation_pattern().sub(r"\1", text)
    return _ending_abbreviation_pattern().sub(_drop_inner_period, plain)


@cache
def _abbreviation_pattern() -> re.Pattern[str]:
    any_word, before_number = map(_join_choices, (lexicon.ABBREVIATIONS, lexicon.ABBREVIATIONS_OF_NUMBERS))
    return re.compile(rf"\b({any_word}(?=\.\s)|{before_number}(?=\.\s*\d))\.", re.IGNORECASE)


@cache
def _ending_abbreviation_pattern() -> re.Pattern[str]:
    """Abbreviations that a sentence may end with, and the word after them."""
    return re.compile(rf"(\d\s*{_join_choices(lexicon.DOTTED_UNITS)}|\betc)\.(?=\s+([a-z]\w*))")


def _join_choices(words: Iterable[str]) -> str:
    """A pattern of any of some words."""
    return f"(?:{'|'.join(map(re.escape, sorted(words)))})"


def _drop_inner_period(match: re.Match[str]) -> str:
    """The abbreviation without its period, unless the word after it begins a sentence."""
    is_end = match[2] in lexicon.CONJUNCTIONS or _starts_action([match[2]])
    return match[0] if is_end else match[1]


def _read_sentence(sentence: str) -> _Reading:
    reading = _Reading(text=sentence)
    _read_end(reading)
    front = ""
    while _read_start(reading):
        pass
    if not reading.has_subject and (match := _FRONT.match(reading.text)):
        front, reading.text = match.group(1), match.group(2)
        while _read_start(reading):
            pass
    words = reading.text.split(" ")
    verb = next((index for index, word in enumerate(words) if not _leads_to_verb(word)), 0)
    words[verb] = find_verb_base_form(words[verb], guess=reading.has_subject)
    reading.text = front + " ".join(words)
    return reading


def _leads_to_verb(word: str) -> bool:
    """Whether a word may stand before a verb and say how: "slowly and very carefully pour"."""
    return _is_adverb(word.rstrip(",")) or word in lexicon.CONJUNCTIONS


def _read_start(reading: _Reading) -> bool:
    """Read the subject, an auxiliary or a word for the outcome at the start; False where there is none any more."""
    for pattern, effect in _opening_patterns():
        match = pattern.match(reading.text)
        if match and match.end() < len(reading.text):
            opening, reading.text = match.group(0), reading.text[match.end() :].strip()
            if effect in ("robot", "person"):
                opening += _take_modifier(reading)
            _note_opening_words(reading, effect, opening)
            return True
    return False


def _take_modifier(reading: _Reading) -> str:
    """Take off what says more of a subject, up to its verb: "in the kitchen" of "in the kitchen carries a tray".

    Returns:
        The side where the words end with it ("on the left"), else "".
    """
    words = reading.text.split(" ")
    is_relative = words[0] in lexicon.RELATIVE_PRONOUNS
    if not is_relative and words[0] not in _MODIFIER_STARTS:
        return ""
    # The first verb of a relative clause belongs to the clause: "who holds a cup opens the drawer".
    start = 1 + is_relative * (1 + (words[1:2] in (["is"], ["was"], ["has"], ["had"])))
    verb = _find_verb(words, start)
    if verb is None:
        reading.text = " ".join(words[is_relative:])
        return ""
    reading.text = " ".join(words[verb:])
    return words[verb - 1] if words[verb - 1] in ("left", "right") else ""


def _find_verb(words: Sequence[str], start: int) -> int | None:
    """Where the words have the verb of a subject before them, or what says how or whether it is done; None: nowhere."""
    indices = [
        index
        for index in range(start, len(words) - 1)
        if words[index - 1] not in _NO_VERB_FOLLOWS and words[index] != "to"
    ]
    text = [" ".join(words[index:]) for index in indices]
    patterns = [pattern for pattern, effect in _opening_patterns() if effect not in _NO_VERBS]
    known = (
        index
        for index, rest in zip(indices, text, strict=True)
        if _is_known_form(words[index]) or any(pattern.match(rest) for pattern in patterns)
    )
    unknown = (
        index for index in indices if len(words[index]) > 4 and re.search(r"[^s]s$|[^e]ed$", words[index])
    )
    verb = next(known, next(unknown, None))
    while verb is not None and verb - 1 in indices and _leads_to_verb(words[verb - 1]):
        verb -= 1
    return verb


def _is_known_form(word: str) -> bool:
    """Whether a word is a verb of the tables with a subject before it, or in the past."""
    return word.endswith(("s", "ed")) and word not in lexicon.VERBS and find_verb_base_form(word) != word


def _note_opening_words(reading: _Reading, effect: str, words: str) -> None:
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
    """Note a stated outcome; "not manage to" is a failure, "never fail to" is none, and both say what is done."""
    if reading.is_negated and effect in ("success", "attempt", "failure"):
        reading.is_negated, effect = False, "success" if effect == "failure" else "failure"
    if effect == "failure":
        reading.outcome = "failure"
    elif effect == "attempt" and reading.outcome == "success":
        reading.outcome = "attempt"


@lru_cache(maxsize=10_000)
def find_verb_base_form(word: str, *, guess: bool = False) -> str:
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
    return known[0] if known else _guess_base_form(word) if guess and len(word) > 4 else word


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


def _guess_base_form(word: str) -> str:
    """The infinitive of a verb that no table has, by the rules of spelling: "polishes", "juggling", "tidied"."""
    for pattern, more in _SPELLINGS:
        if match := re.fullmatch(pattern, word):
            return match.group(1) + more
    return word


# How forms of verbs are spelt, and what their stems lack; the first that fits counts.
_SPELLINGS = (
    # "Press", "need", "restring" and "fling" are infinitives: a stem before an ending has a vowel.
    (r"(\w*(?:ss|eed|string)|[^aeiouy]+ing)", ""),
    (r"(\w{2,})i(?:es|ed)", "y"),
    (r"(\w+(?:sh|ch|ss|x|zz|o))es", ""),
    (r"(\w+)s", ""),
    # "hugging": a letter is doubled; "crossing", "buzzed", "pulling" and "sniffed" are so in the infinitive.
    (r"(\w*[aeiouy]([^aeioulszfwxy]))\2(?:ing|ed)", ""),
    # "juggling", "weaving", "rinsing", "decorating", "arranging", "measuring": hardly an infinitive ends so.
    (
        r"(\w*(?:[^aeiourlw]l|[vcu]|[^s]s|[^z]z|[^aeiou]ast?|[^aeiou]at|[^aeioun]g|[^ao]ur|[^aeo]in))(?:ing|ed)",
        "e",
    ),
    (r"(\w*(?:(?:cha|rra|lu|lle|spo)ng|[aeo]th))(?:ing|ed)", "e"),
    # "baking", "scraped": of one short syllable the last letter would be doubled.
    (r"([^aeiou]*[aeiouy][^aeiouwxy])(?:ing|ed)", "e"),
    (r"(\w*[aeiouy]\w*)(?:ing|ed)", ""),
)


_ROBOT = r"(?:(?:robot(?:ic|'s)?|manipulator|arm|gripper|end[- ]effector|hand|claw)\s?)+(?<!\s)"
# Opening words and what they say, in the order in which they are tried.
_OPENINGS = (
    (r"please|now|then|first|next|finally|and|there (?:is|are)", "nothing"),
    (r"in (?:the|this) (?:video|clip|episode|image|picture|frame)s?", "nothing"),
    (rf"(?:have|make|let|use|get|tell) (?:the|a|this|its) {_ROBOT}(?: to)?", "nothing"),
    (rf"(?:the|a|an|this|its|one) (?:left |right )?{_ROBOT}|robot(?: arm| hand| gripper)?|it", "robot"),
    (
        r"(?:(?:the|a|an|this) )?(?:\w+ )?"
        r"(?:person|human|man|woman|girl|boy|operator|worker|user|child|somebody|someone)|he|she|they",
        "person",
    ),
    (
        r"(?:(?:do|does|did|will|would|could|can|should|must) )?not|never|avoid|refrain from|refuses? to"
        r"|(?:forget|neglect|omit)(?:s|ted|ed|ting|ing)? to|(?:do|does|did)? ?anything (?:but|except)(?: to)?",
        "negation",
    ),
    (r"maybe|perhaps|possibly|probably|apparently|either", "attempt"),
    (
        r"(?:stops?|pauses?|halts?|gives? up) (?:just |right |shortly )?before(?: you| it| the robot)?",
        "attempt",
    ),
    (r"cannot|(?:is |are |was |were )?(?:unable|not able) to", "failure"),
    (r"fail(?:s|ed|ing)? (?:to|at|in)|(?:have|has|had) failed (?:to|at|in)|unsuccessfully", "failure"),
    (
        r"manag(?:e|es|ed|ing) to|succeed(?:s|ed|ing)? (?:in|at)|(?:(?:is|are|was|were) )?able to|successfully",
        "success",
    ),
    (r"(?:try|tries|tried|trying|(?:attempt|struggle|seek)(?:s|d|ed|ing)?) (?:to|at)", "attempt"),
    (
        r"(?:(?:be|is|are|was|were) )?(?:about|ready) to|(?:gets?|getting) ready to"
        r"|(?:(?:be|is|are|was|were) )?on the (?:verge|point) of|almost|nearly",
        "attempt",
    ),
    # What is only meant, feigned or weighed has not been done.
    (
        r"(?:prepare|pretend|plan|intend|want|hope|wish|aim|decide|hesitate|threaten|promise|expect|wait|offer|mean"
        r"|need|consider|think|wonder)(?:s|es|d|ed|ing)?(?: about| of)?(?: whether| if)? to"
        r"|(?:consider|think|wonder)(?:s|ed|ing)?(?: about| of| whether| if)?",
        "attempt",
    ),
    (
        r"is|are|was|were|been|being|has|have|had|should|must|will|does|do|did|to(?! (?:the|a|an|its) )"
        r"|(?:going|supposed|starts?|begins?) to",
        "auxiliary",
    ),
)


@lru_cache(maxsize=1)
def _opening_patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(rf"(?:{words}),?\s+"), effect) for words, effect in _OPENINGS)


# What is said before the sentence itself: "from the shelf, " of "from the shelf, take the cup".
_FRONT = re.compile(
    r"((?:in|on|at|from|inside|near|behind|with|using|without|off|out of|next to|to|by)\s[^,]+,\s+)(.+)",
    re.DOTALL,
)
# What says more of a subject, and after which words stands no verb.
_MODIFIER_STARTS = (
    lexicon.TO_RELATIONS
    | lexicon.FROM_RELATIONS
    | lexicon.MANNER_WORDS
    | {"of", "next", "wearing", "standing", "sitting", "seated", "dressed", "kneeling", "leaning"}
)
_NO_VERB_FOLLOWS = _MODIFIER_STARTS | lexicon.DETERMINERS | lexicon.ATTRIBUTES | {"his", "her", "two", "both"}
_NO_VERBS = ("nothing", "robot", "person")
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


def split_outcome(text: str) -> tuple[Outcome, str]:
    """The stated outcome, and the action phrase in the imperative, in lower case without final punctuation."""
    form = normalize_caption(text)
    return form.outcome, form.phrase


# 9: of a sentence without slots the action and the outcome are read.
_PARSER_VERSION = 9


def parser_hash() -> str:
    """Hash of the parser version and of the constants of the lexicon, by name."""
    tables = {
        name: sorted(value.items()) if isinstance(value, Mapping) else sorted(value)
        for name, value in vars(lexicon).items()
        if name.isupper()
    }
    return short_hash([_PARSER_VERSION, repr(sorted(tables.items()))])


# Words of place that mean the same.
_POSITION_WORDS = {"onto": "on", "into": "in", "inside": "in"}


def group_wordings(texts: Iterable[str]) -> list[tuple[tuple[str, ...], bool]]:
    """Texts that are wordings of one task, groups of several alone, and whether they differ in case and marks alone."""
    groups: dict[object, dict[str, str]] = {}
    for text in texts:
        words = re.sub(r"[^\w\s]+", " ", text.casefold().replace("_", " ")).split()
        form = " ".join(_POSITION_WORDS.get(word, word) for word in words if word not in ("a", "an", "the"))
        groups.setdefault(_name_verb(normalize_caption(form)), {})[text] = form
    return [(tuple(forms), len({*forms.values()}) == 1) for forms in groups.values() if len(forms) > 1]


def _name_verb(form: NormalizedCaption) -> tuple[str, ...]:
    """What is done and how it ends, with the verb of the guide at its start in place of another for the same action."""
    verb, _, rest = form.phrase.partition(" ")
    action, words = name_action(verb, rest, shipped_verbs()), rest.split()
    if action.startswith(f"{verb} ") and (particle := action.removeprefix(f"{verb} ")) in words:
        words.remove(particle)
    return action, " ".join(words), form.outcome, form.actor, str(form.is_negated)


def read_action_and_outcome(text: str, verbs: Mapping[str, str]) -> SlotValues:
    """The action that a sentence says first, and how it ends; either is left out where nothing is said.

    Args:
        text: The sentence.
        verbs: The guide of verbs.
    """
    form = normalize_caption(text)
    sentence = form.sentences[0] if form.sentences else ""
    front = _FRONT.match(sentence)
    clause = (front.group(2) if front else sentence).replace(",", "")
    words = [word for word in clause.split() if not _leads_to_verb(word)]
    slots: dict[SlotName, str] = {}
    if words and words[0] not in _NO_VERB_FOLLOWS:
        slots["action"] = name_action(words[0], " ".join(words[1:]), verbs)
    outcome = {"success": COMPLETED, "failure": NOT_COMPLETED}.get(form.outcome, "")
    slots["outcome"] = NOT_COMPLETED if form.is_negated else outcome
    return {name: value for name, value in slots.items() if is_short_value(value)}


def name_action(verb: str, rest: str, verbs: Mapping[str, str]) -> str:
    """A verb as the guide has it, also "turn on" of "turn the light on"; with OTHER before one that it has not."""
    words = rest.split()
    known = [f"{verb} {word}" for word in (*words[:1], *words[-1:])]
    names = (*known, verb, lexicon.VERB_KEY.get(verb, ""))
    return next((name for name in names if name in verbs), f"{OTHER}: {verb}")


def _starts_action(tokens: Sequence[str]) -> bool:
    """Whether words begin with a verb in any form, and not with a noun that is spelt alike ("the lock and key")."""
    verb = next((token for token in tokens if not _is_adverb(token)), "")
    return find_verb_base_form(verb) in lexicon.VERBS


def _is_adverb(token: str) -> bool:
    is_formed = token.endswith("ly") and len(token) > 4 and token not in lexicon.NO_ADVERBS
    return is_formed or token in lexicon.INTENSIFIERS
