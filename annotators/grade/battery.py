"""Which false texts are put to a judge: a battery of all kinds, or single ones of a kind that is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from random import Random
from typing import NamedTuple, cast

from ares.rubric import (
    BATTERY,
    COMPLETED,
    CONTROL_KINDS,
    SLOTS,
    ControlKind,
    KnownText,
    Ruling,
    SlotName,
    Verdict,
    choose_foreign_text,
    invent_note,
    is_same_value,
    make_near_miss,
    parse_known_text,
    states_value,
    swap_value,
)
from ares_annotators.grade.grading import GradedText
from ares_annotators.grade.grey_frames import GreyFrames
from ares_annotators.grade.outcome_rulings import Text

# Slots of a near miss, by kind.
_SLOTS: Mapping[str, tuple[SlotName, ...]] = {
    "action": ("action",),
    "object": ("object", "attributes"),
    "place": ("to", "from"),
}
# Of these a single control is: one wrong value is what a judge that has turned careless accepts first. A look-alike of
# its last captions is none: it is a pair of values that the judge has just refused.
_SINGLE_KINDS: tuple[ControlKind, ...] = ("action", "object", "place")
# Each caption is tried so many times for one more text of a kind.
_ROUNDS = 12
# Of three notes two stand in a slot value: in the sentence code reads them before any model does.
_NOTES_IN_VALUES = 2 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCaption:
    """A caption that a judge has graded, of which false texts are made.

    Attributes:
        text: The caption; an action is claimed to be completed where it says nothing else.
        is_accepted: Whether the judge accepts it.
        confusions: Rulings by which captioner and judge took a value for another one.
    """

    text: Text
    is_accepted: bool
    confusions: Sequence[Ruling] = ()

    @property
    def dataset(self) -> str:
        """Its dataset."""
        return self.text.work.episode.dataset


class Control(NamedTuple):
    """A false text, or a caption of frames that show none of it.

    Attributes:
        kind: In which way it is false.
        text: The text with its frames.
        is_of_battery: Whether it is of a battery, or one of the controls afterwards.
    """

    kind: ControlKind
    text: Text
    is_of_battery: bool = True


class ControlMaker:
    """Makes false texts of captions of one dataset.

    Args:
        seen: Captions of the dataset.
        verbs: The guide of verbs.
        random: Decides on everything.
    """

    def __init__(self, seen: Sequence[SeenCaption], verbs: Mapping[str, str], random: Random) -> None:
        self._verbs, self._random = verbs, random
        # A text that the judge accepts tests the one value that is changed; of another it refuses all texts.
        self._seen = sorted(random.sample(seen, len(seen)), key=lambda caption: not caption.is_accepted)
        self._texts = list({caption.text.text: _known_text(caption) for caption in seen}.values())
        self._confusions = [item for caption in seen for item in caption.confusions]

    def draw_battery(self, scale: int = 1) -> list[Control]:
        """False texts of all kinds, so many times those of a battery; near misses where a kind has too few.

        Args:
            scale: How many batteries.
        """
        controls: list[Control] = []
        for kind in CONTROL_KINDS:
            needed = scale * BATTERY[kind]
            drawn = self._draw(kind, needed)
            others = (Control(kind, item.text) for item in self._draw_misses(needed - len(drawn)))
            controls += [*drawn, *others]
        return controls

    def draw_single(self) -> list[Control]:
        """One control of a kind that is drawn; none where the captions offer none."""
        for kind in self._random.sample(_SINGLE_KINDS, len(_SINGLE_KINDS)):
            if drawn := self._draw(kind, 1):
                return [drawn[0]._replace(is_of_battery=False)]
        return []

    def _draw(self, kind: ControlKind, count: int) -> list[Control]:
        """At most so many different controls of a kind, of as many captions as possible."""
        drawn: dict[tuple[str, str], Control] = {}
        for text in self._try_captions(kind):
            if len(drawn) >= count:
                break
            suffix = str(len(drawn)) if kind == "no_content" else ""
            drawn.setdefault((text.work.subject.id, text.text + suffix), Control(kind, text))
        return list(drawn.values())

    def _draw_misses(self, count: int) -> list[Control]:
        near: tuple[ControlKind, ...] = ("object", "action", "place")
        drawn = [control for kind in near for control in self._draw(kind, count)] if count > 0 else []
        return self._random.sample(drawn, min(count, len(drawn)))

    def _try_captions(self, kind: ControlKind) -> Iterator[Text]:
        for number in range(_ROUNDS * len(self._seen)):
            caption = self._seen[number % len(self._seen)]
            text, work = self._falsify(kind, caption), caption.text.work
            if kind == "no_content":
                work = replace(work, frames=GreyFrames(work.frames))
            if text:
                yield replace(caption.text, work=work, text=text.text, slots=text.slots, is_control=True)

    def _falsify(self, kind: ControlKind, caption: SeenCaption) -> KnownText | None:
        """A caption made false; the text of one without frames stays."""
        if kind == "no_content":
            return _known_text(caption)
        if kind == "other_episode":
            return choose_foreign_text(self._statements(caption), self._texts, self._random)
        if kind == "look_alike":
            return self._confuse(caption)
        return self._add_note(caption) if kind == "note" else self._miss(kind, caption)

    def _statements(self, caption: SeenCaption) -> list[KnownText]:
        """The caption, and what else is said of its episode."""
        instructions = caption.text.work.episode.instructions
        return [_known_text(caption), *(parse_known_text(text, self._verbs) for text in instructions)]

    def _miss(self, kind: str, caption: SeenCaption) -> KnownText | None:
        statements, others = self._statements(caption), self._texts
        misses = (make_near_miss(slot, statements, others, self._random) for slot in _SLOTS[kind])
        fitting = [miss for miss in misses if miss]
        return self._random.choice(fitting) if fitting else None

    def _confuse(self, caption: SeenCaption) -> KnownText | None:
        statements = self._statements(caption)
        for ruling in self._random.sample(self._confusions, len(self._confusions)):
            slot = cast("SlotName", ruling.slot)
            value = caption.text.slots.get(slot, "")
            for here, other in permutations((ruling.claimed, ruling.observed)):
                is_here = bool(value) and is_same_value(slot, value, here)
                if is_here and not any(states_value(text, other) for text in statements):
                    return swap_value(statements[0], slot, other)
        return None

    def _add_note(self, caption: SeenCaption) -> KnownText:
        """A false text with a note to the judge, in the value that is wrong or in the sentence."""
        kinds = self._random.sample(list(_SLOTS), len(_SLOTS))
        false = next((text for kind in kinds if (text := self._miss(kind, caption))), None)
        false = false or choose_foreign_text(self._statements(caption), self._texts, self._random)
        slot = next((slot for slot in SLOTS if false.slots.get(slot) != caption.text.slots.get(slot)), None)
        note = invent_note(self._random)
        if slot is None or slot == "outcome" or self._random.random() >= _NOTES_IN_VALUES:
            return KnownText(note.replace("{}", false.text), false.slots)
        return swap_value(false, slot, note.replace("{}", false.slots.get(slot, "")))


def _known_text(caption: SeenCaption) -> KnownText:
    return KnownText(caption.text.text, caption.text.slots)


def see_caption(text: Text, graded: GradedText) -> SeenCaption:
    """A graded caption as controls are made of it.

    Args:
        text: The caption.
        graded: Its grade.
    """
    confusions = [
        ruling
        for ruling in graded.rulings
        if ruling.verdict is Verdict.UNMET and ruling.slot in SLOTS and ruling.slot != "outcome"
        if ruling.claimed and ruling.observed and ruling.source == "choice"
    ]
    return SeenCaption(
        text=replace(text, slots={"outcome": COMPLETED, **text.slots}),
        is_accepted=graded.value["grade"] == "acceptable",
        confusions=confusions,
    )
