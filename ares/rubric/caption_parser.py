"""Parses a caption of any wording into actor, outcome, verbs, objects and places."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from ares.annotation import short_hash
from ares.rubric import lexicon

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
    reading.text = " ".join([find_verb_base_form(words[0], guess=reading.has_subject), *words[1:]])
    return reading


def _read_start(reading: _Reading) -> bool:
    """Read the subject, an auxiliary or a word for the outcome at the start; False where there is none any more."""
    for pattern, effect in _opening_patterns():
        match = pattern.match(reading.text)
        if match and match.end() < len(reading.text):
            reading.text = reading.text[match.end() :].strip()
            _note_opening_words(reading, effect, match.group(0))
            return True
    return False


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
    """Note a stated outcome; "not manage to" is a failure, and no action that is not done."""
    if reading.is_negated and effect in ("success", "attempt"):
        reading.is_negated, effect = False, "failure"
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


_ROBOT = r"(?:(?:robot(?:ic|'s)?|manipulator|arm|gripper|end[- ]effector|hand|claw)\s?)+(?<!\s)"
# Opening words and what they say, in the order in which they are tried.
_OPENINGS = (
    (r"please|now|then|first|next|finally|and", "nothing"),
    (r"in (?:the|this) (?:video|clip|episode|image|picture|frame)s?", "nothing"),
    (rf"(?:have|make|let|use|get|tell) (?:the|a|this|its) {_ROBOT}(?: to)?", "nothing"),
    (rf"(?:the|a|an|this|its|one) (?:left |right )?{_ROBOT}|robot(?: arm| hand| gripper)?|it", "robot"),
    (
        r"(?:(?:the|a|an|this) )?(?:\w+ )?(?:person|human|man|woman|operator|user|child|somebody|someone)|he|she|they",
        "person",
    ),
    (
        r"(?:(?:do|does|did|will|would|could|can|should|must) )?not|never|avoid|refrain from|refuses? to"
        r"|(?:do|does|did)? ?anything (?:but|except)(?: to)?",
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
        r"is|are|was|were|been|being|has|have|had|should|must|will|does|do|did|to"
        r"|(?:going|supposed|starts?|begins?) to",
        "auxiliary",
    ),
)


@lru_cache(maxsize=1)
def _opening_patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(rf"(?:{words}),?\s+"), effect) for words, effect in _OPENINGS)


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


_PARSER_VERSION = 5


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun phrase: "the green drawer" is head "drawer", attributes {"green"}.

    "The lid of the green drawer" is head "lid", attributes {"green drawer"}, modifiers {"drawer"}.
    """

    head: str
    attributes: frozenset[str] = frozenset()
    modifiers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Relation:
    """A place relative to an object: "onto the red peg" is relation "on" and noun phrase "peg"."""

    relation: str
    noun_phrase: NounPhrase


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionAction:
    """One action of a caption.

    Attributes:
        verb: Key of its synonym group, or of the state that it ends in.
        object: The object of the action, or None.
        more_objects: Further objects of the same action: "the fork and the knife".
        destinations: Places where the action ends.
        paths: Places that are passed on the way.
        sources: Objects or places where the action starts.
        directions: Stated directions of motion.
        manner: Stated manners, as the words of the caption.
    """

    verb: str
    object: NounPhrase | None = None
    more_objects: frozenset[NounPhrase] = frozenset()
    destinations: frozenset[Relation] = frozenset()
    paths: frozenset[Relation] = frozenset()
    sources: frozenset[NounPhrase] = frozenset()
    directions: frozenset[str] = frozenset()
    manner: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCaption:
    """The claims of a caption.

    Attributes:
        phrase: The action without its outcome, in lower case ("push the green drawer closed").
        outcome: "failure" for "fail to ...", "attempt" for "try to ...", else "success".
        events: Actions in stated order.
        is_negated: It says what is not done.
        actor: Who acts, where it is not just the robot: "person", "left" or "right" for one arm; else "".
    """

    phrase: str
    outcome: Outcome
    events: tuple[CaptionAction, ...]
    is_negated: bool = False
    actor: str = ""

    @property
    def verbs(self) -> tuple[str, ...]:
        """Verb keys of the actions, in order."""
        return tuple(event.verb for event in self.events)

    @property
    def objects(self) -> frozenset[NounPhrase]:
        """The objects of all actions."""
        first = {event.object for event in self.events if event.object}
        return frozenset(first).union(*(event.more_objects for event in self.events))

    @property
    def destinations(self) -> frozenset[Relation]:
        """The destinations of all actions."""
        return frozenset().union(*(event.destinations for event in self.events))

    @property
    def sources(self) -> frozenset[NounPhrase]:
        """The sources of all actions."""
        return frozenset().union(*(event.sources for event in self.events))

    @property
    def directions(self) -> frozenset[str]:
        """The directions of all actions."""
        return frozenset().union(*(event.directions for event in self.events))

    @property
    def manner(self) -> frozenset[str]:
        """The manners of all actions, and the places passed on the way."""
        paths = {f"{path.relation} {path.noun_phrase.head}" for event in self.events for path in event.paths}
        return frozenset(paths).union(*(event.manner for event in self.events))

    @property
    def noun_phrases(self) -> frozenset[NounPhrase]:
        """Every noun phrase of the caption."""
        relations = [relation for event in self.events for relation in (*event.destinations, *event.paths)]
        return self.objects | self.sources | {relation.noun_phrase for relation in relations}


@dataclass(slots=True)
class _EventDraft:
    """An event whose words are still being parsed."""

    verb: str
    object: NounPhrase | None = None
    more_objects: set[NounPhrase] = field(default_factory=set)
    destinations: set[Relation] = field(default_factory=set)
    paths: set[Relation] = field(default_factory=set)
    sources: set[NounPhrase] = field(default_factory=set)
    directions: set[str] = field(default_factory=set)
    manner: set[str] = field(default_factory=set)

    def event(self) -> CaptionAction:
        return CaptionAction(
            verb=self.verb,
            object=self.object,
            more_objects=frozenset(self.more_objects),
            destinations=frozenset(self.destinations),
            paths=frozenset(self.paths),
            sources=frozenset(self.sources),
            directions=frozenset(self.directions),
            manner=frozenset(self.manner),
        )


def parser_hash() -> str:
    """Hash of the parser version and of the constants of the lexicon, by name: both can change a comparison."""
    tables = {
        name: repr(sorted(value) if isinstance(value, frozenset) else value)
        for name, value in vars(lexicon).items()
        if name.isupper() and name not in ("VERB_KEY", "VERBS")
    }
    # Sets within mappings have no fixed order in repr().
    silent_particles = {verb: sorted(parts) for verb, parts in lexicon.SILENT_PARTICLES.items()}
    return short_hash([_PARSER_VERSION, {**tables, "SILENT_PARTICLES": repr(silent_particles)}])


def parse_caption(text: str) -> ParsedCaption:
    """Parse a caption; every text has slots, and an empty text has no events."""
    form = normalize_caption(text)
    events: list[CaptionAction] = []
    for clause in (
        clause for sentence in form.sentences for clause in _split_clauses(_split_tokens(sentence))
    ):
        events.append(_parse_event(clause, events[-1].object if events else None))
    return ParsedCaption(
        phrase=". ".join(form.sentences),
        outcome=form.outcome,
        events=tuple(events),
        is_negated=form.is_negated,
        actor=form.actor,
    )


def split_outcome(text: str) -> tuple[Outcome, str]:
    """The stated outcome, and the action phrase in the imperative, in lower case without final punctuation."""
    form = normalize_caption(text)
    return form.outcome, ". ".join(form.sentences)


def _split_tokens(phrase: str) -> list[str]:
    for preposition, word in lexicon.PHRASES.items():
        phrase = re.sub(rf"\b{preposition}\b", word, phrase)
    return re.findall(r"\w+(?:[-']\w+)*|,", phrase)


def _split_clauses(tokens: list[str]) -> list[list[str]]:
    """Split at conjunctions and commas before a verb; "red and blue cube" stays in one clause."""
    clauses: list[list[str]] = [[]]
    for index, token in enumerate(tokens):
        rest = tokens[index + 1 :]
        if _is_joint(token) and (_starts_action(rest) or (rest and _is_joint(rest[0]))):
            clauses.append([])
        else:
            clauses[-1].append(token)
    stripped = [_strip_joints(clause) for clause in clauses]
    return [clause for clause in stripped if clause]


def _is_joint(token: str) -> bool:
    return token in lexicon.CONJUNCTIONS or token == ","


def _starts_action(tokens: list[str]) -> bool:
    """Whether words begin with a verb in any form, and not with a noun that is spelt alike ("the lock and key")."""
    return bool(tokens) and find_verb_base_form(tokens[0]) in lexicon.VERBS


def _strip_joints(clause: list[str]) -> list[str]:
    """A clause without joints at its ends."""
    content = [index for index, token in enumerate(clause) if not _is_joint(token)]
    return clause[content[0] : content[-1] + 1] if content else []


def _parse_event(tokens: list[str], previous: NounPhrase | None) -> CaptionAction:
    """Parse a clause; pronouns refer to `previous`, the object of the clause before."""
    verb = find_verb_base_form(tokens[0])
    draft = _EventDraft(lexicon.VERB_KEY.get(verb, verb))
    adverbs = [token for token in tokens[1:] if _is_adverb(token)]
    draft.manner.update(adverbs)
    content = [token for token in tokens[1:] if not _is_adverb(token)]
    for opener, phrase in _split_phrases(content, lexicon.SILENT_PARTICLES.get(draft.verb, frozenset())):
        _add_phrase(draft, opener, phrase, previous)
    return draft.event()


def _split_phrases(tokens: list[str], silent_particles: frozenset[str]) -> list[tuple[str, list[str]]]:
    """Split a clause before every preposition, particle and state word, into (that word or "", words after it)."""
    phrases: list[tuple[str, list[str]]] = [("", [])]
    for index, token in enumerate(tokens):
        if index == 0 and token in silent_particles:
            continue
        is_approach = phrases[-1] == ("from", []) and token in lexicon.APPROACHES
        if not is_approach and _opens_phrase(token, tokens[index + 1 :]):
            phrases.append((token, []))
        else:
            phrases[-1][1].append(token)
    return phrases


def _opens_phrase(token: str, rest: list[str]) -> bool:
    if token in lexicon.RESULTS or token in lexicon.DIRECTIONS:
        # In "the left drawer" the direction is an attribute: it precedes a noun, and no article starts a new phrase.
        precedes_noun = rest and not _is_function_word(rest[0])
        return not precedes_noun
    return token in lexicon.TO_RELATIONS or token in lexicon.FROM_RELATIONS or token in lexicon.MANNER_WORDS


def _is_function_word(token: str) -> bool:
    tables = (
        lexicon.TO_RELATIONS,
        lexicon.FROM_RELATIONS,
        lexicon.MANNER_WORDS,
        lexicon.DIRECTIONS,
        lexicon.RESULTS,
    )
    return (
        token in lexicon.DETERMINERS or token in lexicon.PRONOUNS or any(token in table for table in tables)
    )


def _add_phrase(draft: _EventDraft, opener: str, phrase: list[str], previous: NounPhrase | None) -> None:
    if opener in lexicon.RESULTS and draft.verb not in lexicon.VERBS_WITHOUT_RESULT:
        draft.verb = lexicon.RESULTS[opener]
    elif opener in lexicon.DIRECTIONS and draft.verb != "pick":
        draft.directions.add(lexicon.DIRECTIONS[opener])  # picking is upwards, whether stated or not
    content = _without_determiners(phrase)
    if opener in lexicon.MANNER_WORDS or (opener == "from" and lexicon.APPROACHES.issuperset(content)):
        draft.manner.add(" ".join((opener, *content)))
        return
    first, *more = _split_list(phrase)
    noun_phrase = _parse_noun_phrase(first, draft.object or previous)
    if noun_phrase is None:
        return
    listed = [_parse_noun_phrase(item, None) for item in more]
    draft.more_objects.update(item for item in listed if item)
    if opener in lexicon.FROM_RELATIONS:
        draft.sources.add(noun_phrase)
    elif opener in lexicon.PATH_RELATIONS:
        draft.paths.add(Relation(lexicon.TO_RELATIONS[opener], noun_phrase))
    elif opener in lexicon.TO_RELATIONS:
        draft.destinations.add(Relation(lexicon.TO_RELATIONS[opener], noun_phrase))
    elif draft.object is None:
        draft.object = noun_phrase


def _is_adverb(token: str) -> bool:
    return token.endswith("ly") and len(token) > 4 and token not in lexicon.NO_ADVERBS


def _split_list(phrase: list[str]) -> list[list[str]]:
    """The items of a list: at each comma, and at a conjunction before an article ("red and blue cube" is one)."""
    items: list[list[str]] = [[]]
    for index, token in enumerate(phrase):
        next_token = phrase[index + 1] if index + 1 < len(phrase) else ""
        if token == "," or (token in lexicon.CONJUNCTIONS and next_token in lexicon.DETERMINERS):
            items.append([])
        elif token not in lexicon.CONJUNCTIONS:
            items[-1].append(token)
    return [item for item in items if item] or [[]]


def _without_determiners(phrase: list[str]) -> list[str]:
    return [token for token in phrase if token not in lexicon.DETERMINERS]


def _parse_noun_phrase(phrase: list[str], previous: NounPhrase | None) -> NounPhrase | None:
    """The noun phrase of some words: its head is the last word before "of"; a pronoun stands for `previous`."""
    if any(token in lexicon.PRONOUNS for token in phrase):
        return previous
    content = _without_determiners(phrase)
    end = content.index("of") if "of" in content else len(content)
    nouns, owner = content[:end], content[end + 1 :]
    if not nouns:
        return None
    # "the lid of the blue box": the box is blue, and the lid may have any colour.
    attributes = {
        *_attribute_keys(nouns[:-1]),
        *(f"{name} {owner[-1]}" for name in _attribute_keys(owner[:-1])),
    }
    modifiers = {token for token in (*nouns[:-1], *owner) if token not in lexicon.ATTRIBUTES}
    head = lexicon.NOUN_KEY.get(nouns[-1], nouns[-1])
    return NounPhrase(head, frozenset(attributes), frozenset(modifiers))


def _attribute_keys(words: list[str]) -> list[str]:
    return [lexicon.ATTRIBUTE_KEY.get(word, word) for word in words if word in lexicon.ATTRIBUTES]
