"""Slots: what an imperative caption claims, taken apart so that code can compare two of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from ares.annotation import short_hash
from ares.rubric import words

_PARSER_VERSION = 1
Outcome = Literal["success", "failure", "attempt"]


@dataclass(frozen=True, slots=True)
class Thing:
    """A noun phrase: "the green drawer" is head "drawer", attributes {"green"}."""

    head: str
    attributes: frozenset[str] = frozenset()
    modifiers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
    """A relation to a thing: "onto the red peg" is on a peg."""

    relation: str
    thing: Thing


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One action of a caption.

    Attributes:
        verb: Key of its synonym group, or of the state that it ends in.
        object: What is acted on, or None.
        destinations: Where it ends.
        paths: What is passed on the way.
        sources: Where it comes from.
        directions: Stated directions of motion.
        manner: How, as plain words.
    """

    verb: str
    object: Thing | None = None
    destinations: frozenset[Place] = frozenset()
    paths: frozenset[Place] = frozenset()
    sources: frozenset[Thing] = frozenset()
    directions: frozenset[str] = frozenset()
    manner: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """What a caption claims.

    Attributes:
        phrase: The action without its outcome, in lower case ("push the green drawer closed").
        outcome: "failure" for "fail to ...", "attempt" where it says only that it was tried, else "success".
        events: Actions in stated order.
    """

    phrase: str
    outcome: Outcome
    events: tuple[Event, ...]

    @property
    def verbs(self) -> tuple[str, ...]:
        """Keys of the actions, in order."""
        return tuple(event.verb for event in self.events)

    @property
    def objects(self) -> frozenset[Thing]:
        """Everything that is acted on."""
        return frozenset(event.object for event in self.events if event.object)

    @property
    def destinations(self) -> frozenset[Place]:
        """Every stated place where something ends."""
        return frozenset().union(*(event.destinations for event in self.events))

    @property
    def sources(self) -> frozenset[Thing]:
        """Every stated place where something comes from."""
        return frozenset().union(*(event.sources for event in self.events))

    @property
    def directions(self) -> frozenset[str]:
        """Every stated direction."""
        return frozenset().union(*(event.directions for event in self.events))

    @property
    def manner(self) -> frozenset[str]:
        """Every stated manner, and what is passed on the way."""
        paths = {f"{place.relation} {place.thing.head}" for event in self.events for place in event.paths}
        return frozenset(paths).union(*(event.manner for event in self.events))

    @property
    def things(self) -> frozenset[Thing]:
        """Everything that is mentioned."""
        places = [place.thing for event in self.events for place in (*event.destinations, *event.paths)]
        return self.objects | self.sources | frozenset(places)


@dataclass(slots=True)
class _Draft:
    """An event while its words are read."""

    verb: str
    object: Thing | None = None
    destinations: set[Place] = field(default_factory=set)
    paths: set[Place] = field(default_factory=set)
    sources: set[Thing] = field(default_factory=set)
    directions: set[str] = field(default_factory=set)
    manner: set[str] = field(default_factory=set)

    def event(self) -> Event:
        return Event(
            verb=self.verb,
            object=self.object,
            destinations=frozenset(self.destinations),
            paths=frozenset(self.paths),
            sources=frozenset(self.sources),
            directions=frozenset(self.directions),
            manner=frozenset(self.manner),
        )


def parser_hash() -> str:
    """Hash of the parser's version and word tables: another table may compare two captions otherwise."""
    tables = {
        name: repr(sorted(value) if isinstance(value, frozenset) else value)
        for name, value in vars(words).items()
        if name.isupper() and name != "VERB_KEY"
    }
    # Sets inside mappings have no fixed order of printing.
    silent = {verb: sorted(parts) for verb, parts in words.SILENT_PARTICLES.items()}
    return short_hash([_PARSER_VERSION, {**tables, "SILENT_PARTICLES": repr(silent)}])


def parse(text: str) -> Slots:
    """Take a caption apart; any text has slots, an empty one has no event."""
    outcome, phrase = split_outcome(text)
    events: list[Event] = []
    for clause in _clauses(_tokens(phrase)):
        events.append(_event(clause, events[-1].object if events else None))
    return Slots(phrase=phrase, outcome=outcome, events=tuple(events))


def split_outcome(text: str) -> tuple[Outcome, str]:
    """The stated outcome, and the action phrase in lower case without end mark."""
    phrase = re.sub(r"\s+", " ", text).strip().strip("\"'.!").strip().lower()
    for starts, outcome in ((words.FAILURE_STARTS, "failure"), (words.ATTEMPT_STARTS, "attempt")):
        for start in starts:
            if phrase.startswith(start):
                return outcome, phrase.removeprefix(start)  # type: ignore[return-value]
    return "success", phrase


def _tokens(phrase: str) -> list[str]:
    for wordy, plain in words.PHRASES.items():
        phrase = re.sub(rf"\b{wordy}\b", plain, phrase)
    return re.findall(r"\w+(?:[-']\w+)*|,", phrase)


def _clauses(tokens: list[str]) -> list[list[str]]:
    """Cut at conjunctions and commas before a verb; "red and blue cube" stays whole."""
    clauses: list[list[str]] = [[]]
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else ""
        joins = token in words.CONJUNCTIONS or token == ","
        if joins and (following in words.VERB_KEY or following in words.CONJUNCTIONS):
            clauses.append([])
        elif token != ",":
            clauses[-1].append(token)
    return [clause for clause in clauses if any(token not in words.CONJUNCTIONS for token in clause)]


def _event(tokens: list[str], before: Thing | None) -> Event:
    words_left = [token for token in tokens if token not in words.CONJUNCTIONS]
    first = words_left[0]
    draft = _Draft(words.VERB_KEY.get(first, first))
    for opener, run in _runs(words_left[1:], words.SILENT_PARTICLES.get(draft.verb, frozenset())):
        _fill(draft, opener, run, before)
    return draft.event()


def _runs(tokens: list[str], silent: frozenset[str]) -> list[tuple[str, list[str]]]:
    """Cut a clause before every preposition, particle and state word; each run keeps what opened it."""
    runs: list[tuple[str, list[str]]] = [("", [])]
    for index, token in enumerate(tokens):
        if index == 0 and token in silent:
            continue
        approach = runs[-1] == ("from", []) and token in words.APPROACHES
        if not approach and _opens(token, tokens[index + 1 :]):
            runs.append((token, []))
        else:
            runs[-1][1].append(token)
    return runs


def _opens(token: str, rest: list[str]) -> bool:
    if token in words.RESULTS or token in words.DIRECTIONS:
        # "the left drawer": before a noun it is an attribute, unless an article starts a new phrase.
        plain = rest and not _is_function(rest[0])
        return not plain
    return token in words.TO_RELATIONS or token in words.FROM_RELATIONS or token in words.MANNER_WORDS


def _is_function(token: str) -> bool:
    tables = (words.TO_RELATIONS, words.FROM_RELATIONS, words.MANNER_WORDS, words.DIRECTIONS, words.RESULTS)
    return token in words.DETERMINERS or token in words.PRONOUNS or any(token in table for table in tables)


def _fill(draft: _Draft, opener: str, run: list[str], before: Thing | None) -> None:
    if opener in words.RESULTS:
        draft.verb = words.RESULTS[opener]
    elif opener in words.DIRECTIONS and draft.verb != "pick":
        draft.directions.add(words.DIRECTIONS[opener])  # picking is up whether it is said or not
    if opener in words.MANNER_WORDS or (opener == "from" and words.APPROACHES.issuperset(_plain(run))):
        draft.manner.add(" ".join((opener, *_plain(run))))
        return
    thing = _thing(run, draft.object or before)
    if thing is None:
        return
    if opener in words.FROM_RELATIONS:
        draft.sources.add(thing)
    elif opener in words.PATH_RELATIONS:
        draft.paths.add(Place(words.TO_RELATIONS[opener], thing))
    elif opener in words.TO_RELATIONS:
        draft.destinations.add(Place(words.TO_RELATIONS[opener], thing))
    elif draft.object is None:
        draft.object = thing


def _plain(run: list[str]) -> list[str]:
    return [token for token in run if token not in words.DETERMINERS]


def _thing(run: list[str], before: Thing | None) -> Thing | None:
    """The noun phrase of a run: its head is the last word before "of"."""
    if any(token in words.PRONOUNS for token in run):
        return before
    plain = _plain(run)
    cut = plain.index("of") if "of" in plain else len(plain)
    noun, owner = plain[:cut], plain[cut + 1 :]
    if not noun:
        return None
    attributes = {words.ATTRIBUTE_KEY.get(token, token) for token in noun[:-1] if token in words.ATTRIBUTES}
    modifiers = {token for token in noun[:-1] if token not in words.ATTRIBUTES} | set(owner)
    return Thing(words.NOUN_KEY.get(noun[-1], noun[-1]), frozenset(attributes), frozenset(modifiers))
