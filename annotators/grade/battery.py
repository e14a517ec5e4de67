"""Which false texts are put to a judge: a battery of all kinds, or single ones of a kind that is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from random import Random
from typing import NamedTuple

from annotators.base import Work
from annotators.grade.changed_frames import ChangedFrames, blank, noise
from annotators.grade.grading import GradedText
from annotators.grade.outcome_rulings import Text
from annotators.success import StoredOutcome
from ares.rubric import (
    BATTERY,
    COMPLETED,
    CONTROL_KINDS,
    SLOTS,
    ControlKind,
    KnownDifferences,
    KnownText,
    SlotName,
    SlotValues,
    Verdict,
    choose_foreign_texts,
    invent_note,
    is_same_value,
    make_near_misses,
    parse_known_text,
    states_value,
    swap_value,
)

# Slots of a near miss, by kind.
_SLOTS: Mapping[str, tuple[SlotName, ...]] = {
    "action": ("action",),
    "object": ("object", "attributes"),
    "place": ("to", "from"),
}
# Of these a single control is: one wrong value is what a judge that has turned careless accepts first.
_SINGLE_KINDS: tuple[ControlKind, ...] = ("action", "object", "place", "look_alike")
# Each caption is tried so many times for one more text of a kind.
_ROUNDS = 12
# Of three notes two stand in a slot value: in the sentence code reads them before any model does.
_NOTES_IN_VALUES = 2 / 3


class Confusion(NamedTuple):
    """Two values of a slot that captioner and judge took for each other: the claimed and the observed one."""

    slot: SlotName
    claimed: str
    observed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCaption:
    """A caption that a judge has graded, of which false texts are made.

    Attributes:
        work: The work with its frames.
        text: The caption with its slots.
        is_accepted: Whether the judge accepts it.
        outcome: The stored outcome that it was graded by; None where the judge decides on it.
        confusions: Values for which the frames show others.
    """

    work: Work
    text: KnownText
    is_accepted: bool
    outcome: StoredOutcome | None = None
    confusions: tuple[Confusion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A false text, or a caption of frames that show none of it.

    Attributes:
        kind: In which way it is false.
        text: The sentence.
        slots: What it states.
        work: The work with the frames.
        outcome: The stored outcome by which its caption was graded.
    """

    kind: ControlKind
    text: str
    slots: SlotValues
    work: Work
    outcome: StoredOutcome | None = None


class ControlMaker:
    """Makes false texts of captions of one dataset.

    Args:
        seen: Captions of the dataset.
        confusions: Confusions of earlier captions of it.
        verbs: The guide of verbs.
        random: Decides on everything.
    """

    def __init__(
        self,
        seen: Sequence[SeenCaption],
        confusions: Sequence[Confusion],
        verbs: Mapping[str, str],
        random: Random,
    ) -> None:
        self._verbs, self._random = verbs, random
        # A text that the judge accepts tests the one value that is changed; of another it refuses all texts.
        self._seen = sorted(random.sample(seen, len(seen)), key=lambda caption: not caption.is_accepted)
        self._confusions = [*confusions, *(item for caption in seen for item in caption.confusions)]

    def draw_battery(self, scale: int = 1) -> list[Control]:
        """False texts of all kinds, so many times those of a battery; near misses where a kind has too few.

        Args:
            scale: How many batteries.
        """
        controls: list[Control] = []
        for kind in CONTROL_KINDS:
            needed = scale * BATTERY[kind]
            drawn = self._draw(kind, needed)
            others = (replace(item, kind=kind) for item in self._draw_misses(needed - len(drawn)))
            controls += [*drawn, *others]
        return controls

    def draw_single(self) -> list[Control]:
        """One control of a kind that is drawn; none where the captions offer none."""
        for kind in self._random.sample(_SINGLE_KINDS, len(_SINGLE_KINDS)):
            if drawn := self._draw(kind, 1):
                return drawn
        return []

    def _draw(self, kind: ControlKind, count: int) -> list[Control]:
        """At most so many different controls of a kind, of as many captions as possible."""
        drawn: dict[tuple[str, str], Control] = {}
        for control in self._try_captions(kind):
            if len(drawn) >= count:
                break
            suffix = str(len(drawn)) if kind == "no_content" else ""
            drawn.setdefault((control.work.subject.id, control.text + suffix), control)
        return list(drawn.values())

    def _draw_misses(self, count: int) -> list[Control]:
        near: tuple[ControlKind, ...] = ("object", "action", "place")
        drawn = [control for kind in near for control in self._draw(kind, count)] if count > 0 else []
        return self._random.sample(drawn, min(count, len(drawn)))

    def _try_captions(self, kind: ControlKind) -> Iterator[Control]:
        for number in range(_ROUNDS * len(self._seen)):
            caption = self._seen[number % len(self._seen)]
            text, work = caption.text, caption.work
            if kind == "no_content":
                change = noise if number % 2 else blank
                work = replace(work, frames=ChangedFrames(work.frames, change))
            elif (false_text := self._makers[kind](caption)) is not None:
                text = false_text
            else:
                continue
            yield Control(kind=kind, text=text.text, slots=text.slots, work=work, outcome=caption.outcome)

    @cached_property
    def _makers(self) -> Mapping[str, Callable[[SeenCaption], KnownText | None]]:
        return {
            "other_episode": self._tell_of_another,
            **{kind: partial(self._miss, kind) for kind in _SLOTS},
            "look_alike": self._confuse,
            "note": self._add_note,
        }

    def _known(self, caption: SeenCaption) -> list[KnownText]:
        """What is said of the episode beside its caption."""
        return [parse_known_text(text, self._verbs) for text in caption.work.episode.instructions]

    @cached_property
    def _differences(self) -> KnownDifferences:
        return KnownDifferences(
            [caption.text.slots, *(text.slots for text in self._known(caption))] for caption in self._seen
        )

    @cached_property
    def _texts(self) -> list[KnownText]:
        return list({caption.text.text: caption.text for caption in self._seen}.values())

    def _tell_of_another(self, caption: SeenCaption) -> KnownText | None:
        known = self._known(caption)
        texts = choose_foreign_texts(caption.text, self._texts, known, 1, self._random, self._differences)
        return next(iter(texts), None)

    def _miss(self, kind: str, caption: SeenCaption) -> KnownText | None:
        misses = make_near_misses(
            caption.text, self._texts, self._known(caption), self._random, self._differences
        )
        fitting = [miss for miss in misses if miss.slot in _SLOTS[kind]]
        miss = self._random.choice(fitting) if fitting else None
        return KnownText(miss.text, miss.slots) if miss else None

    def _confuse(self, caption: SeenCaption) -> KnownText | None:
        statements = [caption.text, *self._known(caption)]
        for slot, claimed, observed in self._random.sample(self._confusions, len(self._confusions)):
            value = caption.text.slots.get(slot, "")
            for here, other in ((claimed, observed), (observed, claimed)):
                is_here = bool(value) and is_same_value(slot, value, here)
                if is_here and not any(states_value(text, other) for text in statements):
                    return swap_value(caption.text, slot, other)
        return None

    def _add_note(self, caption: SeenCaption) -> KnownText | None:
        """A false text with a note to the judge, in the value that is wrong or in the sentence."""
        kinds = self._random.sample(list(_SLOTS), len(_SLOTS))
        false = next((text for kind in kinds if (text := self._miss(kind, caption))), None)
        false = false or self._tell_of_another(caption)
        if false is None:
            return None
        slot = next((slot for slot in SLOTS if false.slots.get(slot) != caption.text.slots.get(slot)), None)
        note = invent_note(self._random)
        if slot is None or slot == "outcome" or self._random.random() >= _NOTES_IN_VALUES:
            return KnownText(note.replace("{}", false.text), false.slots)
        return swap_value(false, slot, note.replace("{}", false.slots.get(slot, "")))


def see_caption(text: Text, graded: GradedText) -> SeenCaption:
    """A graded caption as controls are made of it.

    Args:
        text: The caption; an action is claimed to be completed where it says nothing else.
        graded: Its grade.
    """
    confusions = [
        Confusion(ruling.slot, ruling.claimed, ruling.observed)
        for ruling in graded.rulings
        if ruling.verdict is Verdict.UNMET and ruling.slot in SLOTS and ruling.slot != "outcome"
        if ruling.claimed and ruling.observed and ruling.source == "choice"
    ]
    return SeenCaption(
        work=text.work,
        text=KnownText(text.text, {"outcome": COMPLETED, **text.slots}),
        is_accepted=graded.value["grade"] == "acceptable",
        outcome=text.outcome,
        confusions=tuple(confusions),
    )
