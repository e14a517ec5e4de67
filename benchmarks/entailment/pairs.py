"""Pairs of an observed action and a caption, with what each slot of the caption is: contradicted, neutral, entailed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from benchmarks.entailment.edits import EDITS, Editor
from benchmarks.entailment.events import EventMaker
from benchmarks.entailment.labels import label
from benchmarks.entailment.lexicon import Lexicon
from benchmarks.entailment.meanings import Caption, Event, Noun
from benchmarks.entailment.wordings import Speaker


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
        self._events = EventMaker(lexicon, self._dice)
        self._editor = Editor(lexicon, self._dice, self._events)

    def pair(self, edits: int | None = None) -> Pair:
        """A pair whose caption differs from what is observed by that many changes (None: at random)."""
        dice = self._dice
        count = dice.random()
        events = [self._events.event()] if count < 0.85 else [self._events.event(), self._events.event()]
        observed = self._observer.say(Caption(text="", events=events), plain=True)
        meaning = Caption(text="", events=[self._keep_unknown(event) for event in observed.events])
        number = dice.choices((0, 1, 2, 9), (40, 38, 15, 7))[0] if edits is None else edits
        changed = meaning
        names: list[str] = []
        for _ in range(min(number, 2)):
            name = dice.choices(list(EDITS), [weight for weight, _ in EDITS.values()])[0]
            after = EDITS[name][1](self._editor, changed)
            if after is not None:
                changed, names = after, [*names, name]
        if number == 9:
            changed, names = Caption(text="", events=[self._events.event()]), ["other"]
        if edits is None or edits == 0:
            changed = self._drop_optional(changed)
        claim = self._claimer.say(self._outcome(changed), plain=False)
        labels = label(self._lexicon, observed.events, claim)
        return Pair(observed.text, claim.text, labels, claim, tuple(names))

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
            tool=keep(event.tool),
            path=(event.path[0], keep(event.path[1]) or event.path[1]) if event.path else None,
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
            if dice.random() < 0.3:
                event = replace(event, approach="", path=None if dice.random() < 0.6 else event.path)
            if event.tool and dice.random() < 0.12:
                event = replace(event, tool=None)
            if event.thing and event.thing.owner and dice.random() < 0.3:
                event = replace(event, thing=replace(event.thing, owner=""))
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
        if dice.random() < 0.15:
            return replace(caption, outcome=dice.choice(("failure", "attempt")))
        return replace(caption, is_negated=dice.random() < 0.03)
