"""Says the way past a thing, the tool and the side of an action, in many places of a caption."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.entailment.verb_forms import gerund

_FETCHED = ("~pick up", "~grab", "~take", "~grasp", "~lift")
_USED = ("~use", "~take", "~pick up", "~grab", "~grasp and ~use")
_TOOL_OPENINGS = ("with {}", "using {}", "with {} in its grip", "holding {}", "by means of {}", "after grasping {}",
                  "grabbing {}", "having picked up {}", "with the help of {}")  # fmt: skip
_STARTS = ("~go", "~move", "~reach", "~travel", "~steer", "~pass", "~get", "~come", "~swing", "~stretch")
_SIDES = ("from above", "from the side", "from the front", "from behind")


@dataclass(slots=True)
class Ways:
    """The words of the ways of one action.

    Attributes:
        dice: The randomness.
        path: A preposition with its thing, or "".
        tool: The thing that it is done with, or "".
        approach: Words for a side, or "".
        is_plain: It is said of an observation, with nothing before it.
        may_open: Something may stand before the sentence.
        opening: What stands there; filled by `add`.
    """

    dice: random.Random
    path: str
    tool: str
    approach: str
    is_plain: bool
    may_open: bool
    opening: str = ""

    def add(self, pattern: Sequence[str], parts: Mapping[str, str], as_result: bool) -> list[str]:
        """The words of a pattern with its parts and ways; a result has no verb that could be led in."""
        goes_first = bool(self.path) and not as_result and self.dice.random() < 0.35
        words = self._with_parts(pattern, dict(parts), "" if goes_first else self.path)
        if as_result:
            return [*words, *(["with", *self.tool.split()] if self.tool else []), *self.approach.split()]
        words = self._with_approach(self._with_tool(words))
        return self._led_in(words) if goes_first else words

    def _led_in(self, words: list[str]) -> list[str]:
        """The way before the action; of a caption also after it, as what was done before."""
        start, path, share = self.dice.choice(_STARTS), self.path.split(), self.dice.random()
        if self.is_plain or share < 0.5:
            return [start, *path, "and", *words]
        if share < 0.6:
            return [start, *path, "to", *(word.removeprefix("~") for word in words)]
        going = gerund(start.removeprefix("~"))
        return [*words, "after", going, *path] if share < 0.85 else [*words, ",", going, *path]

    def _with_parts(self, pattern: Sequence[str], parts: dict[str, str], path: str) -> list[str]:
        if path and parts["D"]:
            parts["D"], path = f"{path} {parts['D']}", ""
        words = " ".join(parts.get(word, word) for word in pattern).split()
        rest = [parts[letter] for letter in "RSD" if letter not in pattern and parts[letter]]
        if not self.is_plain:
            self.dice.shuffle(rest)
        return [*words, *" ".join(rest).split(), *path.split()]

    def _with_tool(self, words: list[str]) -> list[str]:
        if not self.tool:
            return words
        name, share = self.tool.split(), self.dice.random()
        if share < 0.14:
            return [
                *self.dice.choice(_USED).split(),
                *name,
                "to",
                *(word.removeprefix("~") for word in words),
            ]
        if share < 0.34:
            end = self.dice.choice(("with it", "with it", "using it"))
            return [*self.dice.choice(_FETCHED).split(), *name, "and", *words, *end.split()]
        if share < 0.5 and not self.is_plain and self.may_open:
            self.opening = self.dice.choice(_TOOL_OPENINGS).format(self.tool)
            return words
        lead = self.dice.choices(("with", "using", "by means of", "with the help of"), (6, 4, 1, 1))[0]
        return [*words, *lead.split(), *name]

    def _with_approach(self, words: list[str]) -> list[str]:
        if not self.approach:
            return words
        if self.is_plain or self.opening or not self.may_open or self.dice.random() < 0.7:
            return [*words, *self.approach.split()]
        if self.dice.random() < 0.5 and self.approach in _SIDES:
            return ["~approach", *self.approach.split(), "and", *words]
        self.opening = self.approach
        return words
