"""The words that training texts are made of, and how things, attributes, relations and actions stand to each other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

import yaml

# How a claim stands to what is observed: the worse of two is the smaller.
CONTRADICTED, NEUTRAL, ENTAILED = 0, 1, 2
# Where an action often ends, and the actions of most episodes.
GOALS = (
    *(
        "bowl",
        "plate",
        "pot",
        "pan",
        "box",
        "bin",
        "basket",
        "drawer",
        "cabinet",
        "shelf",
        "table",
    ),
    *(
        "counter",
        "sink",
        "stove",
        "tray",
        "goal",
        "hole",
        "platform",
        "mug",
        "board",
        "floor",
    ),
    *(
        "cloth",
        "ring",
        "hook",
        "socket",
        "peg",
        "block",
        "cube",
        "microwave",
        "refrigerator",
    ),
)
USUAL = (
    *(
        "pick",
        "place",
        "insert",
        "stack",
        "remove",
        "push",
        "pull",
        "slide",
        "move",
        "sweep",
    ),
    *(
        "press",
        "raise_lever",
        "lower_lever",
        "reach",
        "open",
        "close",
        "lock",
        "unlock",
        "turn",
    ),
    *(
        "toggle_on",
        "toggle_off",
        "tap_on",
        "tap_off",
        "hammer",
        "wipe",
        "flip",
        "fold",
        "pour",
    ),
)
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Action:
    """An action and the ways to say it.

    Attributes:
        key: Its name.
        args: Letters of what it has, see actions.yaml.
        direction: Direction that it always has, or "".
        things: Keys of what it is done with.
        relations: Relations to where it ends.
        goals: Keys of where it ends; empty for any thing.
        patterns: Ways to say it, as words.
        loose: Actions that it always is.
        results: Ways to say it of the thing: "O ends up D".
        part: Actions that it always holds.
        near: Actions that no word of it refuses.
    """

    key: str
    args: str
    direction: str
    things: Sequence[str]
    relations: Sequence[str]
    goals: Sequence[str]
    patterns: Sequence[tuple[str, ...]]
    results: Sequence[tuple[str, ...]]
    loose: frozenset[str]
    part: frozenset[str]
    near: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reading:
    """The words of an action, and the action that they stand for."""

    action: str
    words: str


class Lexicon:
    """Words by meaning; some names and patterns are left out of training, see left_out.yaml."""

    def __init__(self) -> None:
        nouns, self._actions = _read("nouns.yaml"), _read("actions.yaml")
        self.voices: Mapping[str, Sequence[str]] = _read("voices.yaml")
        self.names = {names[0]: names for names in map(_split, nouns["things"])}
        self.general = [_General(_split(item["names"]), _split(item["holds"])) for item in nouns["general"]]
        self._near_things = _pairs(nouns["near"])
        self.attributes = {
            kind: [item.split("=") for item in _split(text)] for kind, text in nouns["attributes"].items()
        }
        self.attribute_kind = {names[0]: kind for kind, groups in self.attributes.items() for names in groups}
        self._near_attributes = _pairs(nouns["near_attributes"])
        self.modifiers = _split(nouns["modifiers"])
        self.manners = {kind: _split(text) for kind, text in nouns["manners"].items()}
        self.relations = {key: _split(text) for key, text in self._actions["relations"].items()}
        self._near_relations = _pairs(self._actions["near_relations"])
        self.flat = set(_split(self._actions["flat"]))
        self.sources = {key: _split(text) for key, text in self._actions["sources"].items()}
        self.directions = {key: _split(text) for key, text in self._actions["directions"].items()}
        self._opposites = _pairs(", ".join(pair.split()) for pair in self._actions["opposites"].split(", "))
        self.undone = [tuple(pair.split()) for pair in _split(self._actions["undone"])]
        self.paths = {key: _split(text) for key, text in self._actions["paths"].items()}
        self._near_paths = {frozenset(pair.split()) for pair in _split(self._actions["near_paths"])}
        self.approaches = {key: _split(text) for key, text in self._actions["approaches"].items()}
        self.parts = {key: _split(text) for key, text in nouns["parts"].items()}
        self.part_words = _split(nouns["part_words"])
        self.with_door = frozenset(_split(nouns["with_door"]))
        self.tools = {key: _split(text) for key, text in nouns["tools"].items()}
        strange = _read("strange_words.yaml")
        self.strange_names, self.strange_verbs = _split(strange["names"]), _split(strange["verbs"])
        self.vague = [tuple(pattern.split()) for pattern in self._actions["vague"]]

    @cached_property
    def actions(self) -> Mapping[str, Action]:
        """Every action by its key."""
        return {key: _action(key, item, list(self.names)) for key, item in self._actions["actions"].items()}

    @cached_property
    def _by_wording(self) -> Mapping[str, Sequence[str]]:
        """The keys of the actions that a wording may say."""
        found: dict[str, list[str]] = defaultdict(list)
        for key, action in self.actions.items():
            for pattern in {" ".join(pattern) for pattern in (*action.patterns, *action.results)}:
                found[pattern].append(key)
        return found

    @cached_property
    def left_out_names(self) -> frozenset[str]:
        """Names of things, never the first of a thing, that no training text holds."""
        return frozenset(_read("left_out.yaml")["names"])

    @cached_property
    def left_out_patterns(self) -> frozenset[tuple[str, ...]]:
        """Patterns that no training text holds; never the first of an action."""
        return frozenset(tuple(pattern.split()) for pattern in _read("left_out.yaml")["patterns"])

    def thing_relation(self, observed: str, claimed: str) -> int:
        """How a claimed kind of thing stands to an observed one, by their keys; "general:N" is a general name."""
        if observed == claimed:
            return ENTAILED
        claim, seen = self._general(claimed), self._general(observed)
        if claim and not seen:
            # "The object" is true of everything, and says too little.
            return NEUTRAL if "*" in claim.holds else ENTAILED if claim.fits(observed) else CONTRADICTED
        if seen:
            return NEUTRAL if claim or seen.fits(claimed) else CONTRADICTED
        return NEUTRAL if frozenset((observed, claimed)) in self._near_things else CONTRADICTED

    def _general(self, key: str) -> _General | None:
        return self.general[int(key[8:])] if key.startswith("general:") else None

    def attribute_relation(self, observed: Mapping[str, str], kind: str, claimed: str) -> int:
        """How a claimed attribute stands to the observed ones of the same thing; what nobody saw is neutral."""
        if kind not in observed:
            return NEUTRAL
        if observed[kind] == claimed:
            return ENTAILED
        near = kind == "material" or frozenset((observed[kind], claimed)) in self._near_attributes
        return NEUTRAL if near or kind == "state" else CONTRADICTED

    def relation_relation(self, observed: str, claimed: str, goal: str) -> int:
        """How a claimed relation to a goal stands to the observed one."""
        if observed == claimed:
            return ENTAILED
        if {observed, claimed} == {"in", "on"} and goal in self.flat:
            return ENTAILED
        if claimed == "at" and observed in ("in", "on"):
            return ENTAILED
        return NEUTRAL if frozenset((observed, claimed)) in self._near_relations else CONTRADICTED

    def direction_relation(self, observed: str, claimed: str) -> int:
        """How a claimed direction stands to the observed one, "" for none."""
        if observed == claimed:
            return ENTAILED
        return CONTRADICTED if frozenset((observed, claimed)) in self._opposites else NEUTRAL

    @cached_property
    def _by_first_wording(self) -> Mapping[str, str]:
        """The action that a wording says first of all, such as "push it" a push."""
        return {" ".join(action.patterns[0]): key for key, action in reversed([*self.actions.items()])}

    def wording_relation(self, seen: Reading, claim: Reading, thing: str, has_goal: bool) -> int:
        """How the words of a claimed action stand to those of an observed one, each with its action.

        Words may say several actions, "move it" a push and a pull: what is claimed must hold for whatever was observed.
        """
        seen_actions = self._readings(seen, thing, has_goal)
        claimed_actions = self._readings(claim, thing, has_goal)
        fits = {max(self.action_relation(one, other) for other in claimed_actions) for one in seen_actions}
        return fits.pop() if len(fits) == 1 else NEUTRAL

    @cache  # noqa: B019 - as below
    def _readings(self, reading: Reading, thing: str, has_goal: bool) -> frozenset[str]:
        """The actions that words may say of a thing; those for certain things come first where it is one of them."""
        if reading.action == "vague":
            return frozenset({"vague"})
        first = self._by_first_wording.get(reading.words, "")
        others = [
            self.actions[key] for key in self._by_wording.get(reading.words, ()) if key != reading.action
        ]
        fitting = [
            other
            for other in others
            if (thing in other.things or len(other.things) == len(self.names))
            and (has_goal or "D" not in other.args)
            and (not has_goal or "D" in other.args.upper())
        ]
        special = [other for other in fitting if len(other.things) < len(self.names)]
        if special and len(self.actions[reading.action].things) == len(self.names):
            return frozenset(other.key for other in special)
        if first and not special and (thing in self.actions[first].things or not thing):
            return frozenset({first})
        return frozenset({reading.action, *(other.key for other in special or fitting)})

    @cache  # noqa: B019 - as above
    def verbs_of(self, action: str) -> frozenset[str]:
        """Every verb that words of an action hold, or words of what it always is, holds or is near to."""
        own = self.actions[action]
        keys = {action, *own.loose, *own.part, *own.near} & {*self.actions}
        patterns = [pattern for key in keys for pattern in self.actions[key].patterns]
        return frozenset(word[1:] for pattern in patterns for word in pattern if word.startswith("~"))

    def path_relation(self, observed: str, claimed: str) -> int:
        """How a claimed way past a thing stands to the observed one."""
        if observed == claimed:
            return ENTAILED
        return NEUTRAL if frozenset((observed, claimed)) in self._near_paths else CONTRADICTED

    @cache  # noqa: B019 - there is one lexicon for the whole life of the process
    def action_relation(self, observed: str, claimed: str) -> int:
        """How a claimed action stands to an observed one; "vague" says nothing."""
        if observed == claimed:
            return ENTAILED
        if "vague" in (observed, claimed):
            return NEUTRAL
        seen, claim = self.actions[observed], self.actions[claimed]
        if (observed, claimed) in self.undone or (claimed, observed) in self.undone:
            return ENTAILED if claimed in seen.part else CONTRADICTED
        if claimed in seen.loose | seen.part:
            return ENTAILED
        near = claimed in seen.near or observed in claim.near | claim.loose
        return NEUTRAL if near else CONTRADICTED


@dataclass(frozen=True, slots=True)
class _General:
    """A name of several kinds of things."""

    names: Sequence[str]
    holds: Sequence[str]

    def fits(self, key: str) -> bool:
        return "*" in self.holds or key in self.holds


def _read(name: str) -> Any:
    return yaml.safe_load((_FOLDER / name).read_text("utf-8"))


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(groups: Iterable[str]) -> set[frozenset[str]]:
    """The pairs of the first of a group with each of the others, and of all others."""
    return {frozenset(pair) for group in groups for pair in product(_split(group), repeat=2)}


def _action(key: str, item: Mapping[str, Any], things: Sequence[str]) -> Action:
    loose, part = frozenset(item.get("loose", ())), frozenset(item.get("part", ()))
    return Action(
        key=key,
        args=item["args"],
        direction=item.get("direction", ""),
        things=_split(item.get("things", "")) or things,
        relations=_split(item.get("relations", "")),
        goals=_split(item.get("goals", "")),
        patterns=[words for pattern in item["patterns"] for words in expand(pattern)],
        results=[tuple(pattern.split()) for pattern in item.get("results", ())],
        loose=loose,
        part=part,
        near=frozenset(item.get("near", ())),
    )


def expand(pattern: str) -> list[tuple[str, ...]]:
    """The wordings of a pattern: [a] is there or not."""
    parts = re.split(r"(\[[^]]*\])", pattern)
    options = [["", part[1:-1]] if part.startswith("[") else [part] for part in parts]
    return [tuple(re.findall(r"[~\w'-]+|,", "".join(words))) for words in product(*options)]
