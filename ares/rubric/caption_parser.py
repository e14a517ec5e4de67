"""Takes the wording off a caption, and fills its slots from word tables where no model reads it."""

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
    SLOTS,
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


# 8: the period of an abbreviation ends no sentence.
_PARSER_VERSION = 8
_TOKENS = re.compile(r"next to|on top of|in front of|out of|\w+(?:[-']\w+)*|,")
# What a word at the start of a phrase says of it: the slot, or "result" for the state that an action ends in.
_Opener = Literal["to", "from", "manner", "result"]


def parser_hash() -> str:
    """Hash of the parser version and of the constants of the lexicon, by name."""
    tables = {
        name: sorted(value.items()) if isinstance(value, Mapping) else sorted(value)
        for name, value in vars(lexicon).items()
        if name.isupper()
    }
    return short_hash([_PARSER_VERSION, repr(sorted(tables.items()))])


# Words of place that mean the same, and slots by which wordings of one task are told.
_POSITION_WORDS = {"onto": "on", "into": "in", "inside": "in"}
_TASK_SLOTS: tuple[SlotName, ...] = ("action", "object", "from", "to", "count", "manner", "hand")


def group_wordings(texts: Iterable[str]) -> list[tuple[tuple[str, ...], bool]]:
    """Texts that are wordings of one task, groups of several alone, and whether they differ in case and marks alone."""
    verbs = shipped_verbs()
    groups: dict[object, dict[str, str]] = {}
    for text in texts:
        words = re.sub(r"[^\w\s]+", " ", text.casefold().replace("_", " ")).split()
        form = " ".join(_POSITION_WORDS.get(word, word) for word in words if word not in ("a", "an", "the"))
        slots = read_slots_by_tables(form, verbs)
        meaning = tuple(slots.get(name, "") for name in _TASK_SLOTS)
        groups.setdefault(meaning if meaning[0] and meaning[1] else form, {})[text] = form
    return [(tuple(forms), len({*forms.values()}) == 1) for forms in groups.values() if len(forms) > 1]


def read_slots_by_tables(text: str, verbs: Mapping[str, str]) -> SlotValues:
    """The slots that word tables find in a sentence, each value in its words; of several actions the one that places.

    Args:
        text: The sentence.
        verbs: The guide of verbs.
    """
    form = normalize_caption(text)
    clauses: list[dict[SlotName, str]] = []
    for tokens in _split_actions(form):
        clauses.append(_read_clause(tokens, verbs, clauses[-1] if clauses else {}))
    if not clauses:
        return {}
    # Who puts a thing somewhere has picked it up before.
    main = next((clause for clause in reversed(clauses) if clause.get("action") == "place"), clauses[0])
    sources = [clause["from"] for clause in clauses if "from" in clause]
    manner = [word for clause in clauses for word in (clause.get("manner"),) if word]
    slots: dict[SlotName, str] = {**main, "manner": " ".join(manner), "from": "".join(sources[:1])}
    slots["hand"] = next((clause["hand"] for clause in clauses if "hand" in clause), form.actor)
    slots["outcome"] = (
        NOT_COMPLETED
        if form.is_negated
        else {"success": COMPLETED, "failure": NOT_COMPLETED}.get(form.outcome, "")
    )
    return {name: slots[name] for name in SLOTS if is_short_value(slots.get(name, ""))}


def count_actions(text: str) -> int:
    """How many actions a sentence says, one after another."""
    return len(_split_actions(normalize_caption(text)))


def _split_actions(form: NormalizedCaption) -> list[list[str]]:
    """The words of each action of a caption."""
    return [clause for sentence in form.sentences for clause in _split_clauses(_TOKENS.findall(sentence))]


def _split_clauses(tokens: Sequence[str]) -> list[list[str]]:
    """Split at conjunctions and commas before a verb; "red and blue cube" stays in one clause."""
    clauses: list[list[str]] = [[]]
    has_front = bool(tokens) and _says_how_or_where(tokens) and "," in tokens
    front_end = tokens.index(",") if has_front else -1
    for index, token in enumerate(tokens):
        rest = tokens[index + 1 :]
        is_end = index == front_end or _starts_action(rest) or (rest and _is_joint(rest[0]))
        if _is_joint(token) and is_end:
            clauses.append([])
        else:
            clauses[-1].append(token)
    return _join_fronts([clause for clause in map(_strip_joints, clauses) if clause])


def _join_fronts(clauses: Sequence[list[str]]) -> list[list[str]]:
    """Put what stands before a verb and says how or where behind it: "with the left hand, open the door"."""
    joined, front = list[list[str]](), list[str]()
    for clause in clauses:
        if _says_how_or_where(clause):
            front += clause
        else:
            joined.append([*clause, *front])
            front = []
    if front and joined:
        joined[-1] += front
    return joined or ([front] if front else [])


def _says_how_or_where(tokens: Sequence[str]) -> bool:
    """Whether words begin with a preposition, or are adverbs alone."""
    if all(map(_leads_to_verb, tokens)):
        return True
    is_verb = _is_adverb(tokens[0]) or tokens[0] in lexicon.VERBS
    return not is_verb and _find_opener(tokens[0], tokens[1:]) is not None


def _is_joint(token: str) -> bool:
    return token in lexicon.CONJUNCTIONS or token == ","


def _starts_action(tokens: Sequence[str]) -> bool:
    """Whether words begin with a verb in any form, and not with a noun that is spelt alike ("the lock and key")."""
    verb = next((token for token in tokens if not _is_adverb(token)), "")
    return find_verb_base_form(verb) in lexicon.VERBS


def _strip_joints(clause: list[str]) -> list[str]:
    """A clause without joints at its ends."""
    content = [index for index, token in enumerate(clause) if not _is_joint(token)]
    return clause[content[0] : content[-1] + 1] if content else []


def _read_clause(
    tokens: list[str], verbs: Mapping[str, str], before: Mapping[SlotName, str]
) -> dict[SlotName, str]:
    """The slots of one action; "it" is the object of the action before."""
    action, rest = _read_action(tokens, verbs)
    slots: dict[SlotName, str] = {"action": action}
    for opener, words in _split_phrases(rest):
        if opener == "result":
            if tokens[0] not in lexicon.VERBS_WITHOUT_RESULT:
                slots["action"] = _name_action(lexicon.RESULTS[words[0]], verbs)
        elif opener == "manner":
            name: SlotName = "hand" if words[-1] in ("hand", "arm", "gripper") else "manner"
            words = words[1:] if name == "hand" and words[0] == "with" else words
            slots[name] = " ".join(filter(None, (slots.get(name), _join_words(words))))
        elif opener:
            slots.setdefault(opener, _join_words(_strip_joints(words)))
        elif not (words := _strip_joints(words)):
            continue
        elif words[0] in lexicon.PRONOUNS:
            slots |= {name: value for name, value in before.items() if name in ("object", "attributes")}
        elif "object" not in slots:
            slots |= _read_thing(words)
    return {name: value for name, value in slots.items() if value}


def _read_action(tokens: Sequence[str], verbs: Mapping[str, str]) -> tuple[str, list[str]]:
    """The action by the guide of verbs, and the words after it: also "turn on" of "turn the light on"."""
    start = next(
        (index for index, token in enumerate(tokens) if not _leads_to_verb(token) and token != ","), 0
    )
    adverbs = [token for token in tokens[:start] if _is_adverb(token)]
    verb, rest = find_verb_base_form(tokens[start]), list(tokens[start + 1 :])
    for index in dict.fromkeys((0, len(rest) - 1)):
        if rest and f"{verb} {rest[index]}" in verbs:
            return f"{verb} {rest[index]}", rest[:index] + rest[index + 1 :] + adverbs
    if verb not in lexicon.VERBS and _is_function_word(verb):
        return "", [*([] if verb in lexicon.DETERMINERS else [verb]), *rest, *adverbs]
    return _name_action(verb, verbs), rest + adverbs


def _name_action(verb: str, verbs: Mapping[str, str]) -> str:
    names = (verb, lexicon.VERB_KEY.get(verb, ""))
    return next((name for name in names if name in verbs), f"{OTHER}: {verb}")


def _split_phrases(tokens: Sequence[str]) -> list[tuple[_Opener | None, list[str]]]:
    """Split what follows a verb before every preposition, particle, adverb and state; things have no opener."""
    phrases: list[tuple[_Opener | None, list[str]]] = [(None, [])]
    for index, token in enumerate(tokens):
        opener, (last, words) = _find_opener(token, tokens[index + 1 :]), phrases[-1]
        is_empty = last in ("to", "from") and lexicon.DETERMINERS.issuperset(words[1:])
        if is_empty and token in lexicon.APPROACHES | lexicon.DIRECTIONS and opener != "result":
            # "From above" and "to the left" say how; "to the left of the box" goes on.
            phrases[-1] = ("manner" if index + 1 == len(tokens) or opener else last, [*words, token])
        elif opener:
            phrases.append((opener, [token]))
            if _is_adverb(token) or token in lexicon.DIRECTIONS or opener == "result":
                phrases.append((None, []))
        else:
            words.append(token)
    return [phrase for phrase in phrases if phrase[1]]


def _find_opener(token: str, rest: Sequence[str]) -> _Opener | None:
    # In "the left drawer" the direction is an attribute: it precedes a noun, and no article starts a new phrase.
    if token in lexicon.RESULTS or token in lexicon.DIRECTIONS:
        is_attribute = bool(rest) and not _is_function_word(rest[0])
        return None if is_attribute else "result" if token in lexicon.RESULTS else "manner"
    if token in lexicon.MANNER_WORDS or _is_adverb(token):
        return "manner"
    if token in lexicon.FROM_RELATIONS:
        return "from"
    return "to" if token in lexicon.TO_RELATIONS else None


def _is_function_word(token: str) -> bool:
    tables: Iterable[Iterable[str]] = (
        lexicon.TO_RELATIONS,
        lexicon.FROM_RELATIONS,
        lexicon.MANNER_WORDS,
        lexicon.DIRECTIONS,
        lexicon.RESULTS,
        lexicon.DETERMINERS,
        lexicon.PRONOUNS,
        lexicon.CONJUNCTIONS,
        (",",),
    )
    return _is_adverb(token) or any(token in table for table in tables)


def _is_adverb(token: str) -> bool:
    is_formed = token.endswith("ly") and len(token) > 4 and token not in lexicon.NO_ADVERBS
    return is_formed or token in lexicon.INTENSIFIERS


def _read_thing(words: Sequence[str]) -> dict[SlotName, str]:
    """Object and attributes of a noun phrase: "the red and blue cube" is a cube with two colours."""
    start, attributes = 0, list[str]()
    while start < len(words) - 1 and (
        words[start] in lexicon.DETERMINERS | lexicon.ATTRIBUTES or (attributes and _is_joint(words[start]))
    ):
        attributes += [words[start]] if words[start] in lexicon.ATTRIBUTES else []
        start += 1
    return {"object": _join_words(words[start:]), "attributes": ", ".join(sorted(attributes))}


def _join_words(words: Sequence[str]) -> str:
    return " ".join(words).replace(" ,", ",")
