"""Makes random actions with their things, places and ways."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.entailment.lexicon import GOALS, USUAL, Action, Lexicon
from benchmarks.entailment.meanings import Event, Noun

_APPROACHED = ("press", "touch", "raise_lever", "lower_lever", "pick", "push", "hammer", "reach", "turn")
_WITH_PATH = ("place", "push", "pull", "slide", "move", "reach", "press", "sweep")
_PASSED = ("wall", "box", "bowl", "block", "bottle", "board", "table", "plate", "basket")


class EventMaker:
    """Makes actions.

    Args:
        lexicon: The words.
        dice: The randomness.
    """

    def __init__(self, lexicon: Lexicon, dice: random.Random) -> None:
        self._lexicon, self._dice = lexicon, dice
        self.actions = [action for key, action in lexicon.actions.items() if key != "idle"]
        self._weights = [5 if action.key in USUAL else 1 for action in self.actions]

    def event(self) -> Event:
        dice = self._dice
        action = self._lexicon.actions["idle"] if dice.random() < 0.005 else self._any_action()
        event = Event(action.key)
        if "O" in action.args:
            event = replace(event, thing=self._noun(action.things))
            if dice.random() < 0.04:
                event = replace(event, more=self._noun(action.things))
        event = self.with_ways(event, action)
        for letter in action.args:
            if letter in "DdSsrR" and (letter in "DS" or dice.random() < 0.45):
                event = self.with_end(event, action, letter.upper())
        return event

    def with_ways(self, event: Event, action: Action) -> Event:
        """Sometimes a tool, a way past a thing, the side that it comes from, or what the thing is part of."""
        dice, lexicon = self._dice, self._lexicon
        if event.thing and event.thing.key in lexicon.parts and dice.random() < 0.5:
            event = replace(event, thing=replace(event.thing, owner=self.owner(event.thing.key)))
        if action.key in lexicon.tools and dice.random() < 0.3:
            key = dice.choice(lexicon.tools[action.key])
            attributes = {"colour": self.value("colour")} if dice.random() < 0.3 else {}
            event = replace(event, tool=Noun(key, attributes))
        if (
            action.key in ("place", "push", "pull", "slide", "move", "reach", "press", "sweep")
            and dice.random() < 0.15
        ):
            key = dice.choice(("wall", "box", "bowl", "block", "bottle", "board", "table", "plate", "basket"))
            event = replace(event, path=(dice.choice(list(lexicon.paths)[:4]), Noun(key)))
        if action.key in _APPROACHED and dice.random() < 0.2:
            event = replace(event, approach=dice.choice(list(lexicon.approaches)))
        return event

    def owner(self, key: str) -> str:
        owners = [owner for owner in self._lexicon.parts[key] if owner in self._lexicon.names]
        return self._dice.choice(owners)

    def _any_action(self) -> Action:
        return self._dice.choices(self.actions, self._weights)[0]

    def with_end(self, event: Event, action: Action, letter: str) -> Event:
        dice = self._dice
        if letter == "D":
            return replace(event, goal=(self.relation(action), self._noun(action.goals or GOALS, 0.3)))
        if letter == "S":
            return replace(event, source=(dice.choice(list(self._lexicon.sources)), self._noun(GOALS, 0.3)))
        directions = [action.direction] if action.direction else list(self._lexicon.directions)
        return replace(event, direction=dice.choice(directions))

    def relation(self, action: Action) -> str:
        if action.relations:
            return str(self._dice.choice(action.relations))
        keys = list(self._lexicon.relations)
        return str(self._dice.choices(keys, [8, 8, 7, *[1] * (len(keys) - 3)])[0])

    def _noun(self, keys: Sequence[str], share: float = 0.6) -> Noun:
        dice = self._dice
        key = dice.choice(list(self._lexicon.names)) if dice.random() < 0.15 else dice.choice(keys)
        attributes = {}
        if dice.random() < share:
            kind = dice.choices(("colour", "size", "material", "state"), (8, 3, 2, 1))[0]
            attributes[kind] = self.value(kind)
        modifier = dice.choice(self._lexicon.modifiers) if dice.random() < 0.05 else ""
        return Noun(key, attributes, modifier)

    def value(self, kind: str) -> str:
        return self._dice.choice(self._lexicon.attributes[kind])[0]
