"""What a caption means: actions with their things, who acts, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Noun:
    """A thing in a caption: its key, the words for it, and whether its name is a word that nobody knows.

    Attributes:
        key: Key of the thing, or "general:N".
        attributes: Value by kind of attribute.
        modifier: "left" and the like, or "".
        name: How it is called; filled when it is said.
        is_unknown: Its name, or a word before it, is in no lexicon.
        owner: Key of the thing that it is a part of, or "".
    """

    key: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    modifier: str = ""
    name: str = ""
    is_unknown: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """An action with its things.

    Attributes:
        action: Key of the action, or "vague".
        thing: What is acted on.
        more: A second thing that is acted on.
        goal: Relation and thing where it ends.
        source: Kind of relation and thing where it starts.
        direction: Direction of motion, or "".
        verb: Wording of the action; filled when it is said.
        is_unknown: The verb is in no lexicon.
        path: Kind of way and thing that is passed.
        tool: What it is done with.
        approach: Side that it comes from, or "".
        wrong_verb: Verb of another action that stands in the place of its own, or "".
    """

    action: str
    thing: Noun | None = None
    more: Noun | None = None
    goal: tuple[str, Noun] | None = None
    source: tuple[str, Noun] | None = None
    direction: str = ""
    verb: str = ""
    is_unknown: bool = False
    path: tuple[str, Noun] | None = None
    tool: Noun | None = None
    approach: str = ""
    wrong_verb: str = ""

    @property
    def nouns(self) -> list[Noun]:
        """Its things in order."""
        ends = [pair[1] for pair in (self.goal, self.source, self.path) if pair]
        return [noun for noun in (self.thing, self.more, self.tool) if noun] + ends


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption as text, and what it means.

    Attributes:
        text: The words.
        events: What happens, with the words as they were chosen.
        outcome: "success", "failure" or "attempt".
        is_negated: It says what is not done.
        actor: "robot", "person", "left" or "right".
        manners: Kind and words of stated manners.
        is_repeated: It says that the action happens twice.
        left_out: Names and patterns in it that no training text holds.
    """

    text: str
    events: Sequence[Event]
    outcome: str = "success"
    is_negated: bool = False
    actor: str = "robot"
    manners: Sequence[tuple[str, str]] = ()
    is_repeated: bool = False
    left_out: Sequence[str] = ()
