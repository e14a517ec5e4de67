"""Parses imperative captions into verbs, objects, places and outcomes, so that code can compare two captions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from ares.annotation import short_hash
from ares.rubric import lexicon

_PARSER_VERSION = 1
Outcome = Literal["success", "failure", "attempt"]


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun phrase: "the green drawer" is head "drawer", attributes {"green"}."""

    head: str
    attributes: frozenset[str] = frozenset()
    modifiers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Relation:
    """A place relative to an object: "onto the red peg" is relation "on" and noun phrase "peg"."""

    relation: str
    noun_phrase: NounPhrase


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionEvent:
    """One action of a caption.

    Attributes:
        verb: Key of its synonym group, or of the state that it ends in.
        object: The object of the action, or None.
        destinations: Places where the action ends.
        paths: Places that are passed on the way.
        sources: Objects or places where the action starts.
        directions: Stated directions of motion.
        manner: Stated manners, as the words of the caption.
    """

    verb: str
    object: NounPhrase | None = None
    destinations: frozenset[Relation] = frozenset()
    paths: frozenset[Relation] = frozenset()
    sources: frozenset[NounPhrase] = frozenset()
    directions: frozenset[str] = frozenset()
    manner: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionSlots:
    """The claims of a caption.

    Attributes:
        phrase: The action without its outcome, in lower case ("push the green drawer closed").
        outcome: "failure" for "fail to ...", "attempt" for "try to ...", else "success".
        events: Actions in stated order.
    """

    phrase: str
    outcome: Outcome
    events: tuple[CaptionEvent, ...]

    @property
    def verbs(self) -> tuple[str, ...]:
        """Verb keys of the actions, in order."""
        return tuple(event.verb for event in self.events)

    @property
    def objects(self) -> frozenset[NounPhrase]:
        """The objects of all actions."""
        return frozenset(event.object for event in self.events if event.object)

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
    destinations: set[Relation] = field(default_factory=set)
    paths: set[Relation] = field(default_factory=set)
    sources: set[NounPhrase] = field(default_factory=set)
    directions: set[str] = field(default_factory=set)
    manner: set[str] = field(default_factory=set)

    def event(self) -> CaptionEvent:
        return CaptionEvent(
            verb=self.verb,
            object=self.object,
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
        if name.isupper() and name != "VERB_KEY"
    }
    # Sets within mappings have no fixed order in repr().
    silent_particles = {verb: sorted(parts) for verb, parts in lexicon.SILENT_PARTICLES.items()}
    return short_hash([_PARSER_VERSION, {**tables, "SILENT_PARTICLES": repr(silent_particles)}])


def parse_caption(text: str) -> CaptionSlots:
    """Parse a caption; every text has slots, and an empty text has no events."""
    outcome, phrase = split_outcome(text)
    events: list[CaptionEvent] = []
    for clause in _clauses(_tokens(phrase)):
        events.append(_parse_event(clause, events[-1].object if events else None))
    return CaptionSlots(phrase=phrase, outcome=outcome, events=tuple(events))


def split_outcome(text: str) -> tuple[Outcome, str]:
    """The stated outcome, and the action phrase in lower case without final punctuation."""
    phrase = re.sub(r"\s+", " ", text).strip().strip("\"'.!").strip().lower()
    for prefixes, outcome in ((lexicon.FAILURE_STARTS, "failure"), (lexicon.ATTEMPT_STARTS, "attempt")):
        for prefix in prefixes:
            if phrase.startswith(prefix):
                return outcome, phrase.removeprefix(prefix)  # type: ignore[return-value]
    return "success", phrase


def _tokens(phrase: str) -> list[str]:
    for preposition, word in lexicon.PHRASES.items():
        phrase = re.sub(rf"\b{preposition}\b", word, phrase)
    return re.findall(r"\w+(?:[-']\w+)*|,", phrase)


def _clauses(tokens: list[str]) -> list[list[str]]:
    """Split at conjunctions and commas before a verb; "red and blue cube" stays in one clause."""
    clauses: list[list[str]] = [[]]
    for index, token in enumerate(tokens):
        next_token = tokens[index + 1] if index + 1 < len(tokens) else ""
        is_joint = token in lexicon.CONJUNCTIONS or token == ","
        if is_joint and (next_token in lexicon.VERB_KEY or next_token in lexicon.CONJUNCTIONS):
            clauses.append([])
        elif token != ",":
            clauses[-1].append(token)
    return [clause for clause in clauses if any(token not in lexicon.CONJUNCTIONS for token in clause)]


def _parse_event(tokens: list[str], previous: NounPhrase | None) -> CaptionEvent:
    """Parse a clause; pronouns refer to `previous`, the object of the clause before."""
    content = [token for token in tokens if token not in lexicon.CONJUNCTIONS]
    verb = content[0]
    draft = _EventDraft(lexicon.VERB_KEY.get(verb, verb))
    for opener, phrase in _split_phrases(content[1:], lexicon.SILENT_PARTICLES.get(draft.verb, frozenset())):
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
    if opener in lexicon.RESULTS:
        draft.verb = lexicon.RESULTS[opener]
    elif opener in lexicon.DIRECTIONS and draft.verb != "pick":
        draft.directions.add(lexicon.DIRECTIONS[opener])  # picking is upwards, whether stated or not
    content = _without_determiners(phrase)
    if opener in lexicon.MANNER_WORDS or (opener == "from" and lexicon.APPROACHES.issuperset(content)):
        draft.manner.add(" ".join((opener, *content)))
        return
    noun_phrase = _parse_noun_phrase(phrase, draft.object or previous)
    if noun_phrase is None:
        return
    if opener in lexicon.FROM_RELATIONS:
        draft.sources.add(noun_phrase)
    elif opener in lexicon.PATH_RELATIONS:
        draft.paths.add(Relation(lexicon.TO_RELATIONS[opener], noun_phrase))
    elif opener in lexicon.TO_RELATIONS:
        draft.destinations.add(Relation(lexicon.TO_RELATIONS[opener], noun_phrase))
    elif draft.object is None:
        draft.object = noun_phrase


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
    attributes = {
        lexicon.ATTRIBUTE_KEY.get(token, token) for token in nouns[:-1] if token in lexicon.ATTRIBUTES
    }
    modifiers = {token for token in nouns[:-1] if token not in lexicon.ATTRIBUTES} | set(owner)
    head = lexicon.NOUN_KEY.get(nouns[-1], nouns[-1])
    return NounPhrase(head, frozenset(attributes), frozenset(modifiers))
