"""Values of slots: those that a caption states, those that its sentence holds, and others of its dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Cost
from ares.episode import Json
from ares.errors import ModelError
from ares.rubric import (
    NOT_VISIBLE,
    OTHER,
    SlotName,
    SlotValues,
    is_same_value,
    is_short_value,
    read_action_and_outcome,
    slots_from_json,
    slots_to_json,
)
from ares_annotators.base import PaidFailure
from ares_annotators.caption import (
    MOST_SENTENCES,
    fill_hash,
    is_fillable,
    make_shared_fill_request,
    read_shared_fill_reply,
)
from ares_annotators.grade.additions import (
    DatasetWords,
    find_unknown_words,
    may_be_order,
    sample_episodes,
)
from ares_annotators.grade.list_calls import EntryReply, KeptAnswers, ListQuestion

if TYPE_CHECKING:
    from ares.store import Stores
    from ares_annotators.models import Vlm


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSlots:
    """What a caption states.

    Attributes:
        slots: Its slots; what it leaves open or calls not visible is left out.
        cost: What reading them cost, whenever it was paid.
        paid: What was paid for it now.
    """

    slots: SlotValues
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)


def drop_unstated(slots: SlotValues) -> dict[SlotName, str]:
    """The slots that state something."""
    return {name: value for name, value in slots.items() if value.strip() and value != NOT_VISIBLE}


def read_stored_slots(caption: Annotation) -> ReadSlots | None:
    """The slots of a typed caption; None for one that is a sentence alone."""
    slots = slots_from_json(caption.value.get("slots"))
    return ReadSlots(slots=drop_unstated(slots)) if slots is not None else None


# Of so many episodes of a dataset captions are read for values beside those of one caption.
_SAMPLE = 200
# Where a dataset has no other value of a slot.
_SHIPPED_VALUES: Mapping[SlotName, Sequence[str]] = {
    "object": ("mug", "drawer", "sponge", "cube", "bottle", "towel", "spoon"),
    "attributes": ("red", "blue", "green", "yellow", "wooden", "small"),
    "from": ("on the table", "in the drawer", "on the shelf", "in the box"),
    "to": ("on the table", "in the drawer", "on the shelf", "in the box"),
    "hand": ("left hand", "right hand", "person"),
    "manner": ("to the left", "to the right", "slowly", "with a tool", "by its handle"),
    "count": ("two", "three", "five"),
}


class DatasetValues:
    """Values of slots that captions of a dataset state, as rivals of a value that the observation does not show.

    Those with an unknown word are none: a model would read the note of another caption.

    Args:
        stores: Stores of the workspace.
        words: Words that its captions may use.
        verbs: The guide of verbs.
        captions: The annotator of the captions.
    """

    def __init__(
        self, stores: Stores, words: DatasetWords, verbs: Mapping[str, str], captions: str = "caption"
    ) -> None:
        self._stores, self._words, self._verbs, self._captions = stores, words, verbs, captions
        self._values: dict[str, dict[SlotName, list[str]]] = {}

    def choose_rival(self, dataset: str, slot: SlotName, claimed: str, key: str) -> str:
        """Another value of a slot; the same for the same segment and caption.

        Args:
            dataset: The dataset.
            slot: The slot; not the outcome, whose options are fixed.
            claimed: What the caption says.
            key: Id of the segment.
        """
        if dataset not in self._values:
            self._values[dataset] = self._read(dataset)
        shipped = list(self._verbs) if slot == "action" else list(_SHIPPED_VALUES.get(slot, ()))
        for values in (self._values[dataset].get(slot, []), shipped):
            others = [value for value in values if not _shares_words(slot, value, claimed)]
            if others:
                return min(others, key=lambda value: hashlib.blake2b(f"{key}\n{value}".encode()).digest())
        return shipped[0]

    def _read(self, dataset: str) -> dict[SlotName, list[str]]:
        ids = sample_episodes(self._stores, dataset, _SAMPLE)
        values_of: dict[SlotName, set[str]] = {}
        for caption in self._stores.annotations.find_annotations(ids, [self._captions]):
            for name, value in drop_unstated(slots_from_json(caption.value.get("slots")) or {}).items():
                known = self._words.known_words(dataset, name)
                if is_short_value(value) and not find_unknown_words(value.removeprefix(f"{OTHER}: "), known):
                    values_of.setdefault(name, set()).add(value)
        return {name: sorted(values) for name, values in values_of.items()}


def _shares_words(slot: SlotName, value: str, claimed: str) -> bool:
    """Whether a value may be as true as another: both name the same thing, as "blue mug" and "mug" do."""
    if is_same_value(slot, value, claimed):
        return True
    return slot not in ("to", "from", "hand") and bool(
        set(value.lower().split()) & set(claimed.lower().split())
    )


class SentenceSlots:
    """Fills the slots of sentences; safe to use from threads.

    Args:
        vlm: The model of texts, or None where the word tables have to do.
        stores: Stores of the workspace.
        verbs: The guide of verbs.
        words: Words that captions of a dataset may use.
    """

    def __init__(
        self, vlm: Vlm | None, stores: Stores, verbs: Mapping[str, str], words: DatasetWords
    ) -> None:
        self._vlm, self._verbs, self._words = vlm, verbs, words
        if vlm is None:
            return
        question: ListQuestion[tuple[str]] = ListQuestion(
            name="slots",
            version=[vlm.name, dict(vlm.settings), fill_hash(verbs)],
            most=MOST_SENTENCES,
            make_request=lambda entries: make_shared_fill_request([text for (text,) in entries], vlm, verbs),
            read=self._read_reply,
        )
        self._filled = KeptAnswers(vlm, stores.annotations, question)

    def read(self, sentences: Sequence[tuple[str, str]]) -> list[ReadSlots | PaidFailure]:
        """What each of some sentences states; the first of equal ones has paid for it.

        Args:
            sentences: Dataset and text of each.
        """
        if self._vlm is None:
            return [ReadSlots(slots=read_action_and_outcome(text, self._verbs)) for _, text in sentences]
        filled = self._filled.ask(
            {
                (text,): may_be_order(text, self._words.known_words(dataset))
                for dataset, text in sentences
                if is_fillable(text)
            }
        )
        outcomes: list[ReadSlots | PaidFailure] = []
        for _, text in sentences:
            reply = filled.get((text,), EntryReply(answer={}))
            outcomes.append(_read_slots(reply, self._vlm.name))
            if reply.answer is not None:
                filled[(text,)] = EntryReply(answer=reply.answer)
        return outcomes

    def _read_reply(self, entries: Sequence[tuple[str]], reply: str) -> list[Json] | str:
        slots = read_shared_fill_reply([text for (text,) in entries], reply, self._verbs)
        if slots is None:
            return "reply is off the menu"
        return [slots_to_json(drop_unstated(stated)) for stated in slots]


def _read_slots(reply: EntryReply[Json], model: str) -> ReadSlots | PaidFailure:
    if reply.answer is None:
        detail = f"{model}: {reply.problem}; it replied {reply.text[:200]!r}"
        return PaidFailure(reply.error or ModelError("slots cannot be filled", detail), reply.paid)
    slots = slots_from_json(reply.answer) or {}
    return ReadSlots(slots=slots, cost=reply.cost, paid=reply.paid)
