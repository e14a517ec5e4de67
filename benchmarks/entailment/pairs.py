"""Pairs of an observed action and a caption, with what each slot of the caption is: contradicted, neutral, entailed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.entailment.labels import label
from benchmarks.entailment.lexicon import GOALS, USUAL, Action, Lexicon
from benchmarks.entailment.wordings import Caption, Event, Noun, Speaker

SLOTS = (
    "verb",
    "object",
    "destination",
    "source",
    "attributes",
    "direction",
    "manner",
    "additions",
    "complete",
)
NOT_STATED = 3


@dataclass(frozen=True, slots=True)
class Pair:
    """An observation and a caption.

    Attributes:
        observed: What is observed, in the imperative.
        claimed: The caption.
        labels: Per slot of SLOTS 0 to 3: contradicted, neutral, entailed, not stated.
        caption: What the caption means.
        edits: What was changed from the observation, for the report.
    """

    observed: str
    claimed: str
    labels: tuple[int, ...]
    caption: Caption
    edits: tuple[str, ...]


class PairMaker:
    """Makes pairs.

    Args:
        lexicon: The words.
        seed: Seed of all choices.
        left_out: See `Speaker`; of the captions alone.
        has_unknown: See `Speaker`.
    """

    def __init__(
        self, lexicon: Lexicon, seed: int, left_out: str = "never", has_unknown: bool = True
    ) -> None:
        self._lexicon, self._dice = lexicon, random.Random(seed)
        self._observer = Speaker(lexicon, self._dice, "never", has_unknown)
        self._claimer = Speaker(lexicon, self._dice, left_out, has_unknown)
        self._actions = [action for key, action in lexicon.actions.items() if key != "idle"]
        self._weights = [5 if action.key in USUAL else 1 for action in self._actions]

    def pair(self, edits: int | None = None) -> Pair:
        """A pair whose caption differs from what is observed by that many changes (None: at random)."""
        dice = self._dice
        count = dice.random()
        events = [self._event()] if count < 0.85 else [self._event(), self._event()]
        observed = self._observer.say(Caption(text="", events=events), plain=True)
        meaning = Caption(text="", events=[self._keep_unknown(event) for event in observed.events])
        number = dice.choices((0, 1, 2, 9), (40, 38, 15, 7))[0] if edits is None else edits
        changed = meaning
        names: list[str] = []
        for _ in range(min(number, 2)):
            name = dice.choices(list(_EDITS), [weight for weight, _ in _EDITS.values()])[0]
            after = _EDITS[name][1](self, changed)
            if after is not None:
                changed, names = after, [*names, name]
        if number == 9:
            changed, names = Caption(text="", events=[self._event()]), ["other"]
        if edits is None or edits == 0:
            changed = self._drop_optional(changed)
        claim = self._claimer.say(self._outcome(changed), plain=False)
        labels = label(self._lexicon, observed.events, claim)
        return Pair(observed.text, claim.text, labels, claim, tuple(names))

    def _event(self) -> Event:
        dice = self._dice
        action = self._lexicon.actions["idle"] if dice.random() < 0.005 else self._any_action()
        event = Event(action.key)
        if "O" in action.args:
            event = replace(event, thing=self._noun(action.things))
            if dice.random() < 0.04:
                event = replace(event, more=self._noun(action.things))
        for letter in action.args:
            if letter in "DdSsrR" and (letter in "DS" or dice.random() < 0.45):
                event = self._with_end(event, action, letter.upper())
        return event

    def _any_action(self) -> Action:
        return self._dice.choices(self._actions, self._weights)[0]

    def _with_end(self, event: Event, action: Action, letter: str) -> Event:
        dice = self._dice
        if letter == "D":
            return replace(event, goal=(self._relation(action), self._noun(action.goals or GOALS, 0.3)))
        if letter == "S":
            return replace(event, source=(dice.choice(list(self._lexicon.sources)), self._noun(GOALS, 0.3)))
        directions = [action.direction] if action.direction else list(self._lexicon.directions)
        return replace(event, direction=dice.choice(directions))

    def _relation(self, action: Action) -> str:
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
            attributes[kind] = self._value(kind)
        modifier = dice.choice(self._lexicon.modifiers) if dice.random() < 0.05 else ""
        return Noun(key, attributes, modifier)

    def _value(self, kind: str) -> str:
        return self._dice.choice(self._lexicon.attributes[kind])[0]

    def _keep_unknown(self, event: Event) -> Event:
        """A caption calls a thing without a known name mostly as the observation does."""

        def keep(noun: Noun | None) -> Noun | None:
            keeps = noun and noun.is_unknown and self._dice.random() < 0.7
            return noun if noun is None or keeps else replace(noun, name="", is_unknown=False)

        goal, source = event.goal, event.source
        return replace(
            event,
            thing=keep(event.thing),
            more=keep(event.more),
            goal=(goal[0], keep(goal[1]) or goal[1]) if goal else None,
            source=(source[0], keep(source[1]) or source[1]) if source else None,
            is_unknown=False,
        )

    def _drop_optional(self, caption: Caption) -> Caption:
        """A true caption need not say colours, directions and where a thing came from."""
        dice = self._dice

        def plainer(noun: Noun) -> Noun:
            return replace(noun, attributes={}) if noun.attributes and dice.random() < 0.35 else noun

        events = []
        for event in caption.events:
            if event.direction and dice.random() < 0.3:
                event = replace(event, direction="")
            if event.source and dice.random() < 0.3 and "S" not in self._args(event):
                event = replace(event, source=None)
            thing = event.thing and plainer(event.thing)
            goal = (event.goal[0], plainer(event.goal[1])) if event.goal else None
            events.append(replace(event, thing=thing, goal=goal))
        return replace(caption, events=events)

    def _args(self, event: Event) -> str:
        return "" if event.action == "vague" else self._lexicon.actions[event.action].args

    def _outcome(self, caption: Caption) -> Caption:
        dice = self._dice
        if dice.random() < 0.06:
            caption = replace(caption, actor=dice.choice(("person", "left", "right")))
        if dice.random() < 0.12:
            return replace(caption, outcome=dice.choice(("failure", "attempt")))
        return replace(caption, is_negated=dice.random() < 0.03)

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
                action for action in self._actions
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
                return replace(event, goal=(self._dice.choice(list(self._lexicon.relations)), event.goal[1]))
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
        return replace(noun, key=dice.choice(list(self._lexicon.names)), name="", is_unknown=False)

    def other_attribute(self, caption: Caption) -> Caption | None:
        """A thing has another colour, size or material, or one that nobody saw."""

        def change(event: Event) -> Event | None:
            ends = [noun for noun in (event.thing, event.goal and event.goal[1]) if noun]
            if not ends:
                return None
            noun = self._dice.choice([noun for noun in ends if noun.attributes] or ends)
            kind = next(iter(noun.attributes), "") or self._dice.choice(list(self._lexicon.attributes))
            after = replace(noun, attributes={kind: self._value(kind)})
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
        events = [*caption.events, self._event()]
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
            return self._with_end(event, action, self._dice.choice(letters)) if action and letters else None

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


_EDITS = {
    "action": (16, PairMaker.other_action),
    "thing": (16, PairMaker.other_thing),
    "goal": (30, PairMaker.other_goal),
    "source": (5, PairMaker.other_source),
    "attribute": (30, PairMaker.other_attribute),
    "direction": (24, PairMaker.other_direction),
    "more events": (7, PairMaker.more_events),
    "fewer parts": (9, PairMaker.fewer_parts),
    "more ends": (6, PairMaker.more_ends),
    "manner": (6, PairMaker.manner),
    "repeated": (3, PairMaker.repeated),
    "turned": (4, PairMaker.turned),
}
