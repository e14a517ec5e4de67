"""Changes what a caption means: by one action, thing, place, attribute or way."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from benchmarks.entailment.events import EventMaker
from benchmarks.entailment.lexicon import CONTRADICTED, USUAL, Lexicon, Reading
from benchmarks.entailment.meanings import Caption, Event, Noun


class Editor:
    """Changes captions; each edit gives None where there is nothing to change.

    Args:
        lexicon: The words.
        dice: The randomness.
        events: Makes what is added.
    """

    def __init__(self, lexicon: Lexicon, dice: random.Random, events: EventMaker) -> None:
        self._lexicon, self._dice, self._events = lexicon, dice, events

    def _swap_event(self, caption: Caption, make: Callable[[Event], Event | None]) -> Caption | None:
        index = self._dice.randrange(len(caption.events))
        after = make(caption.events[index])
        if after is None:
            return None
        events = list(caption.events)
        events[index] = after
        return replace(caption, events=events)

    def other_action(self, caption: Caption) -> Caption | None:
        """Another action with the same things."""

        def change(event: Event) -> Event | None:
            has = {
                letter
                for letter, value in (("O", event.thing), ("D", event.goal), ("S", event.source))
                if value
            }
            fitting = [
                action for action in self._events.actions
                if {letter for letter in action.args if letter.isupper()} <= has
                and all(letter in action.args.upper() for letter in has)
            ]  # fmt: skip
            if not fitting:
                return None
            if self._dice.random() < 0.06 and event.thing:
                return replace(event, action="vague", goal=None, source=None, direction="")
            usual = [action for action in fitting if action.key in USUAL]
            chosen = self._dice.choice(usual if usual and self._dice.random() < 0.6 else fitting)
            return replace(event, action=chosen.key, verb="", direction="")

        return self._swap_event(caption, change)

    def wrong_verb(self, caption: Caption) -> Caption | None:
        """The verb of another action, with all the words around it: "unscrew the button down"."""

        def change(event: Event) -> Event | None:
            seen = Reading(event.action, event.verb)
            thing, has_goal = event.thing.key if event.thing else "", bool(event.goal)
            chosen = self._dice.choice(self._events.actions)
            claim = Reading(chosen.key, " ".join(chosen.patterns[0]))
            if event.is_unknown or event.action == "vague" or not event.verb:
                return None
            relation = self._lexicon.wording_relation(seen, claim, thing, has_goal)
            verb = chosen.patterns[0][0].removeprefix("~")
            if relation != CONTRADICTED or verb in self._lexicon.verbs_of(event.action):
                return None
            return replace(event, wrong_verb=verb)

        return self._swap_event(caption, change)

    def undone(self, caption: Caption) -> Caption | None:
        """The opposite action, or one that is easily mixed up with it."""

        def change(event: Event) -> Event | None:
            pairs = [pair for pair in self._lexicon.undone if event.action in pair]
            if not pairs:
                return None
            pair = self._dice.choice(pairs[:1] if self._dice.random() < 0.5 else pairs)
            key = pair[1] if pair[0] == event.action else pair[0]
            action = self._lexicon.actions[key]
            goal, source = event.goal, event.source
            if "D" not in action.args.upper():
                goal, source = (
                    None,
                    source or (goal and (self._dice.choice(list(self._lexicon.sources)), goal[1])),
                )
            if "S" not in action.args.upper():
                source, goal = None, goal or (source and (self._events.relation(action), source[1]))
            after = replace(event, action=key, verb="", direction="", goal=goal, source=source)
            if "D" in action.args and not after.goal:
                after = self._events.with_end(after, action, "D")
            if "S" in action.args and not after.source:
                after = self._events.with_end(after, action, "S")
            return after

        return self._swap_event(caption, change)

    def swapped(self, caption: Caption) -> Caption | None:
        """Two things change places, or their colours do."""

        def change(event: Event) -> Event | None:
            other = event.goal[1] if event.goal else event.tool or (event.source and event.source[1])
            if not event.thing or not other or event.thing.key == other.key:
                return None
            if event.thing.attributes and other.attributes and self._dice.random() < 0.6:
                thing = replace(event.thing, attributes=other.attributes)
                other = replace(other, attributes=event.thing.attributes)
            else:
                thing, other = other, event.thing
            if event.goal:
                return replace(event, thing=thing, goal=(event.goal[0], other))
            if event.tool:
                return replace(event, thing=thing, tool=other)
            return replace(event, thing=thing, source=(event.source[0], other)) if event.source else None

        return self._swap_event(caption, change)

    def other_way(self, caption: Caption) -> Caption | None:
        """Another tool, another way past a thing, another side, or a part of another thing."""

        def change(event: Event) -> Event | None:
            dice, lexicon = self._dice, self._lexicon
            if event.approach:
                others = [key for key in lexicon.approaches if key != event.approach]
                return replace(event, approach=dice.choice(others))
            if event.tool:
                key = dice.choice(lexicon.tools.get(event.action) or list(lexicon.names))
                return replace(event, tool=replace(event.tool, key=key, name="", is_unknown=False))
            if event.path:
                others = [key for key in list(lexicon.paths)[:4] if key != event.path[0]]
                return replace(event, path=(dice.choice(others), event.path[1]))
            if event.thing and event.thing.owner and event.thing.key in lexicon.parts:
                return replace(event, thing=replace(event.thing, owner=self._events.owner(event.thing.key)))
            action = lexicon.actions.get(event.action)
            return self._events.with_ways(event, action) if action else None

        return self._swap_event(caption, change)

    def other_thing(self, caption: Caption) -> Caption | None:
        """Another thing is acted on."""

        def change(event: Event) -> Event | None:
            return replace(event, thing=self._other_noun(event.thing)) if event.thing else None

        return self._swap_event(caption, change)

    def other_goal(self, caption: Caption) -> Caption | None:
        """It ends at another thing, or in another relation to it."""

        def change(event: Event) -> Event | None:
            if not event.goal:
                return None
            if self._dice.random() < 0.4:
                others = [key for key in self._lexicon.relations if key != event.goal[0]]
                return replace(event, goal=(self._dice.choice(others), event.goal[1]))
            return replace(event, goal=(event.goal[0], self._other_noun(event.goal[1])))

        return self._swap_event(caption, change)

    def other_source(self, caption: Caption) -> Caption | None:
        """It starts at another thing."""
        return self._swap_event(
            caption,
            lambda event: (
                event.source and replace(event, source=(event.source[0], self._other_noun(event.source[1])))
            ),
        )

    def _other_noun(self, noun: Noun) -> Noun:
        dice = self._dice
        if dice.random() < 0.12:
            return replace(
                noun, key=f"general:{dice.randrange(len(self._lexicon.general))}", name="", is_unknown=False
            )
        return replace(noun, key=dice.choice(list(self._lexicon.names)), name="", is_unknown=False, owner="")

    def other_attribute(self, caption: Caption) -> Caption | None:
        """A thing has another colour, size or material, or one that nobody saw."""

        def change(event: Event) -> Event | None:
            ends = [noun for noun in (event.thing, event.goal and event.goal[1]) if noun]
            if not ends:
                return None
            noun = self._dice.choice([noun for noun in ends if noun.attributes] or ends)
            kind = next(iter(noun.attributes), "") or self._dice.choice(list(self._lexicon.attributes))
            after = replace(noun, attributes={kind: self._events.value(kind)})
            if noun is event.thing:
                return replace(event, thing=after)
            return replace(event, goal=(event.goal[0], after)) if event.goal else None

        return self._swap_event(caption, change)

    def other_direction(self, caption: Caption) -> Caption | None:
        """It moves in another direction, or in one that nobody saw."""
        opposite = {"left": "right", "up": "down", "forward": "back", "in": "out"}
        opposite |= {second: first for first, second in opposite.items()}

        def change(event: Event) -> Event | None:
            action = self._lexicon.actions.get(event.action)
            seen = event.direction or (action.direction if action else "")
            if seen in opposite and self._dice.random() < 0.6:
                return replace(event, direction=opposite[seen])
            return (
                replace(event, direction=self._dice.choice(list(self._lexicon.directions))) if seen else None
            )

        return self._swap_event(caption, change)

    def more_events(self, caption: Caption) -> Caption | None:
        """Something else happens as well."""
        events = [*caption.events, self._events.event()]
        self._dice.shuffle(events)
        return replace(caption, events=events)

    def fewer_parts(self, caption: Caption) -> Caption | None:
        """An action, its goal or its thing is not said."""
        dice, events = self._dice, list(caption.events)
        if len(events) > 1:
            return replace(caption, events=[dice.choice(events)])
        event = events[0]
        if event.goal and dice.random() < 0.7:
            return replace(caption, events=[replace(event, goal=None, action=self._without_goal(event))])
        return replace(caption, events=[replace(event, thing=None)]) if event.thing else None

    def _without_goal(self, event: Event) -> str:
        part = sorted(self._lexicon.actions[event.action].part) if event.action != "vague" else []
        return self._dice.choice(part) if part else event.action

    def more_ends(self, caption: Caption) -> Caption | None:
        """Where it ends, or starts, is said though nobody saw it."""

        def change(event: Event) -> Event | None:
            action = self._lexicon.actions.get(event.action)
            letters = [
                letter for letter, value in (("D", event.goal), ("S", event.source), ("R", event.direction))
                if action and not value and letter in action.args.upper()
            ]  # fmt: skip
            return (
                self._events.with_end(event, action, self._dice.choice(letters))
                if action and letters
                else None
            )

        return self._swap_event(caption, change)

    def manner(self, caption: Caption) -> Caption | None:
        """How it is done is said though nobody saw it."""
        kind = self._dice.choice(list(self._lexicon.manners))
        return replace(caption, manners=[(kind, self._dice.choice(self._lexicon.manners[kind]))])

    def repeated(self, caption: Caption) -> Caption | None:
        """It happens twice."""
        return replace(caption, is_repeated=True)

    def turned(self, caption: Caption) -> Caption | None:
        """From the goal to the source, or a second thing that nobody saw."""
        event = caption.events[0]
        if event.source and event.goal:
            goal, source = ("at", event.source[1]), ("from", event.goal[1])
            return replace(caption, events=[replace(event, goal=goal, source=source), *caption.events[1:]])
        if event.thing:
            more = self._other_noun(event.thing)
            return replace(caption, events=[replace(event, more=more), *caption.events[1:]])
        return None


EDITS = {
    "wrong verb": (50, Editor.wrong_verb),
    "undone": (34, Editor.undone),
    "swapped": (36, Editor.swapped),
    "way": (44, Editor.other_way),
    "action": (34, Editor.other_action),
    "thing": (28, Editor.other_thing),
    "goal": (36, Editor.other_goal),
    "source": (14, Editor.other_source),
    "attribute": (30, Editor.other_attribute),
    "direction": (24, Editor.other_direction),
    "more events": (7, Editor.more_events),
    "fewer parts": (9, Editor.fewer_parts),
    "more ends": (6, Editor.more_ends),
    "manner": (6, Editor.manner),
    "repeated": (3, Editor.repeated),
    "turned": (4, Editor.turned),
}
