"""What happens in an episode of the drawn world, and what a caption can claim of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verb = Literal["lift", "place", "push", "pour", "open"]
EventKind = Literal["grasp", "slip", "rise", "release", "push", "stall", "pour", "spill", "open", "fall_shut"]
VERBS: tuple[Verb, ...] = ("lift", "place", "push", "pour", "open")
# The event that completes an action.
COMPLETES: dict[Verb, EventKind] = {
    "lift": "rise",
    "place": "release",
    "push": "push",
    "pour": "pour",
    "open": "open",
}


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing on the table.

    Attributes:
        kind: Its name, which is its shape: "cube", "ball", "can", "cup", "box", "bin", "bowl" or "tray".
        colour: Its colour, a key of `drawing.COLOURS`.
        x: Pixel column of its middle at the start.
    """

    kind: str
    colour: str
    x: float

    @property
    def name(self) -> str:
        """Colour and kind: "red cube"."""
        return f"{self.colour} {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened.

    Attributes:
        step: Number of the frame in which it is done.
        kind: What happened.
        thing: Name of the thing that was acted on.
        target: Name of the thing that it ended in or on, or "".
        direction: "left", "right" or "".
    """

    step: int
    kind: EventKind
    thing: str
    target: str = ""
    direction: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLog:
    """All that happened in an episode.

    Attributes:
        verb: What the robot tried, whatever its instruction was.
        thing: Name of the thing that it tried it with.
        target: Name of the place where it was to end, or "".
        source: Name of the tray that the thing stood on, or "".
        direction: Direction of a push, or "".
        arm: The arm that acted, "left" or "right".
        names: Names of all things on the table.
        events: What happened, in order.
    """

    verb: Verb
    thing: str
    target: str
    source: str
    direction: str
    arm: str
    names: Sequence[str]
    events: Sequence[Event]

    @property
    def succeeded(self) -> bool:
        """Whether the action was completed at the end, where it was meant to end."""
        done = [event for event in self.events if event.kind == COMPLETES[self.verb]]
        return bool(done) and done[-1].target == self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a caption says; a part that is "" or None is not said.

    Attributes:
        verb: The action.
        colour: Colour of the thing.
        kind: Kind of the thing.
        target: Name of the place where it ends.
        source: Name of the tray that it comes from.
        direction: Direction of a push.
        arm: The arm that acts.
        succeeded: Whether it is said to be completed.
        addition: Words for something that is not in this world at all, or "".
        is_negated: Whether it is said not to be done.
        is_reversed: Whether the end of the action is said to come before its beginning.
    """

    verb: Verb
    colour: str
    kind: str
    target: str = ""
    source: str = ""
    direction: str = ""
    arm: str = ""
    succeeded: bool = True
    addition: str = ""
    is_negated: bool = False
    is_reversed: bool = False


def true_claim(log: EventLog) -> Claim:
    """What a complete and true caption says."""
    colour, kind = log.thing.split()
    return Claim(
        verb=log.verb,
        colour=colour,
        kind=kind,
        target=log.target,
        source=log.source,
        direction=log.direction,
        succeeded=log.succeeded,
    )


def false_criteria(claim: Claim, log: EventLog) -> frozenset[str]:
    """Criteria of the shipped rubric that a claim does not meet, by the log alone."""
    colour, kind = log.thing.split()
    is_partial = log.verb == "place" and claim.verb == "lift"
    said = {
        "VERB": claim.is_negated or claim.is_reversed or not (claim.verb == log.verb or is_partial),
        "COMPLETE": is_partial or (bool(log.target) and not claim.target and claim.verb == log.verb),
        "OBJECT": claim.kind != kind,
        "ATTRIBUTES": claim.colour != colour,
        "DESTINATION": bool(claim.target) and claim.target != log.target,
        "SOURCE": bool(claim.source) and claim.source != log.source,
        "DIRECTION": bool(claim.direction) and claim.direction != log.direction,
        "NOADD": bool(claim.addition) or claim.arm not in ("", log.arm),
        "OUTCOME": claim.succeeded != log.succeeded,
    }
    return frozenset(name for name, is_false in said.items() if is_false)
