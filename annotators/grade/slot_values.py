"""Values of slots: those that a caption states, those that its sentence holds, and others of its dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import TYPE_CHECKING, Literal

from annotators.base import PaidFailure
from annotators.caption import (
    MOST_SENTENCES,
    fill_hash,
    is_fillable,
    make_shared_fill_request,
    read_shared_fill_reply,
)
from annotators.grade.additions import WordReader, is_common_sentence
from annotators.grade.pair_answers import may_be_halved, split_in_halves
from annotators.models import VlmFailure, VlmReply
from ares.annotation import Annotation, Cost, short_hash
from ares.episode import Json
from ares.rubric import (
    NOT_VISIBLE,
    SlotName,
    SlotValues,
    is_same_value,
    is_short_value,
    read_action_and_outcome,
    slots_from_json,
    slots_to_json,
)
from ares.store import MODEL_REPLIES, batched, quote_literal

if TYPE_CHECKING:
    from annotators.models import Vlm
    from ares.store import Stores


# The caption has them, a model of texts has filled them from its sentence, or the word tables have.
SlotSource = Literal["caption", "model", "tables"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSlots:
    """What a caption states.

    Attributes:
        slots: Its slots; what it leaves open or calls not visible is left out.
        source: Where they come from.
        cost: What reading them cost, whenever it was paid.
        paid: What was paid for it now.
    """

    slots: SlotValues
    source: SlotSource
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)


def drop_unstated(slots: SlotValues) -> dict[SlotName, str]:
    """The slots that state something."""
    return {name: value for name, value in slots.items() if value.strip() and value != NOT_VISIBLE}


def read_stored_slots(caption: Annotation) -> ReadSlots | None:
    """The slots of a typed caption; None for one that is a sentence alone."""
    slots = slots_from_json(caption.value.get("slots"))
    return ReadSlots(slots=drop_unstated(slots), source="caption") if slots is not None else None


def fill_slots_of(
    sentences: Sequence[str], vlm: Vlm | None, verbs: Mapping[str, str]
) -> list[ReadSlots | PaidFailure]:
    """What sentences without slots state: a model of texts fills them, the word tables only where there is none.

    Args:
        sentences: The sentences.
        vlm: The model of texts, or None.
        verbs: The guide of verbs.
    """
    if vlm is None:
        return [ReadSlots(slots=read_action_and_outcome(text, verbs), source="tables") for text in sentences]
    from annotators.caption import FilledSlots, fill_slots

    return [
        ReadSlots(slots=drop_unstated(outcome.slots), source="model", cost=outcome.cost, paid=outcome.paid)
        if isinstance(outcome, FilledSlots)
        else PaidFailure(outcome.error, outcome.cost)
        for outcome in fill_slots(sentences, vlm, verbs)
    ]


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

    Args:
        stores: Stores of the workspace.
        verbs: The guide of verbs.
        captions: The annotator of the captions.
    """

    def __init__(self, stores: Stores, verbs: Mapping[str, str], captions: str = "caption") -> None:
        self._stores, self._verbs, self._captions = stores, verbs, captions
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
        condition = f"dataset = {quote_literal(dataset)}"
        batches = self._stores.tables.episodes.id_batches(condition)
        # Those with the first ids, which are hashes: the same ones whatever the order of the table.
        ids = nsmallest(_SAMPLE, (episode_id for ids in batches for episode_id in ids))
        values_of: dict[SlotName, set[str]] = {}
        for caption in self._stores.annotations.find_annotations(ids, [self._captions]):
            for name, value in drop_unstated(slots_from_json(caption.value.get("slots")) or {}).items():
                if is_short_value(value):
                    values_of.setdefault(name, set()).add(value)
        return {name: sorted(values) for name, values in values_of.items()}


def _shares_words(slot: SlotName, value: str, claimed: str) -> bool:
    """Whether a value may be as true as another: both name the same thing, as "blue mug" and "mug" do."""
    if is_same_value(slot, value, claimed):
        return True
    return slot not in ("to", "from", "hand") and bool(
        set(value.lower().split()) & set(claimed.lower().split())
    )


# Beside the replies, so that they are deleted with them.
_PREFIX = "slots/"


class SentenceSlots:
    """Fills the slots of sentences; safe to use from threads.

    Args:
        vlm: The model of texts, or None where the word tables have to do.
        stores: Stores of the workspace.
        verbs: The guide of verbs.
        known_words: Reads the common words of a dataset.
    """

    def __init__(
        self, vlm: Vlm | None, stores: Stores, verbs: Mapping[str, str], known_words: WordReader
    ) -> None:
        self._vlm, self._log, self._verbs = vlm, stores.annotations, verbs
        self._known_words = known_words

    def read(self, sentences: Sequence[tuple[str, str]]) -> list[ReadSlots | PaidFailure]:
        """What each of some sentences states.

        Args:
            sentences: Dataset and text of each.
        """
        texts = [text for _, text in sentences]
        if self._vlm is None:
            return fill_slots_of(texts, None, self._verbs)
        known, lost = self._read_together(sentences, self._vlm)
        single = iter(fill_slots_of([text for text in texts if text not in known], self._vlm, self._verbs))
        outcomes: list[ReadSlots | PaidFailure] = []
        for text in texts:
            read = known[text] if text in known else next(single)
            outcomes.append(_with_lost(read, lost.pop(text, Cost())))
            if text in known:
                known[text] = replace(known[text], cost=Cost(), paid=Cost())
        return outcomes

    def _read_together(
        self, sentences: Sequence[tuple[str, str]], vlm: Vlm
    ) -> tuple[dict[str, ReadSlots], dict[str, Cost]]:
        """The slots of sentences of plain words, and what calls without a usable reply have cost by first sentence."""
        plain = list(dict.fromkeys(text for dataset, text in sentences if self._is_plain(text, dataset)))
        known = {text: read for text in plain if (read := self._find(text, vlm))}
        chunks = batched([text for text in plain if text not in known], MOST_SENTENCES)
        # One alone has a separate request, which names it as one.
        shared = [chunk for chunk in chunks if len(chunk) > 1]
        lost: dict[str, Cost] = {}
        unread = self._ask_chunks(shared, vlm, known, lost)
        self._ask_chunks(split_in_halves(unread), vlm, known, lost)
        return known, lost

    def _ask_chunks(
        self,
        chunks: Sequence[Sequence[str]],
        vlm: Vlm,
        known: dict[str, ReadSlots],
        lost: dict[str, Cost],
    ) -> list[Sequence[str]]:
        """Put the slots and the costs of calls that filled none into what is given; chunks without a usable reply."""
        replies = vlm.ask([make_shared_fill_request(chunk, vlm, self._verbs) for chunk in chunks])
        unread: list[Sequence[str]] = []
        for chunk, reply in zip(chunks, replies, strict=True):
            filled = self._take(chunk, reply, vlm)
            known |= filled
            if filled:
                continue
            cost = reply.paid if isinstance(reply, VlmReply) else reply.cost
            lost[chunk[0]] = lost.get(chunk[0], Cost()) + cost
            if may_be_halved(reply):
                unread.append(chunk)
        return unread

    def _is_plain(self, text: str, dataset: str) -> bool:
        return is_fillable(text) and is_common_sentence(text, self._known_words(dataset))

    def _take(self, sentences: Sequence[str], reply: VlmReply | VlmFailure, vlm: Vlm) -> dict[str, ReadSlots]:
        """The slots of a reply by sentence, kept in the workspace; none where it cannot be used."""
        if isinstance(reply, VlmFailure):
            return {}
        slots = read_shared_fill_reply(sentences, reply.text, self._verbs)
        filled = dict(zip(sentences, map(drop_unstated, slots or ()), strict=False))
        documents: dict[str, Json] = {
            self._key(text, vlm): {"slots": slots_to_json(stated)} for text, stated in filled.items()
        }
        if documents:
            self._log.put_documents(MODEL_REPLIES, documents)
        costs = {sentences[0]: (reply.cost, reply.paid)}
        return {
            text: _read_slots(stated, *costs.get(text, (Cost(), Cost()))) for text, stated in filled.items()
        }

    def _find(self, text: str, vlm: Vlm) -> ReadSlots | None:
        stored = self._log.get_document(MODEL_REPLIES, self._key(text, vlm))
        return _read_slots(slots_from_json(stored["slots"]) or {}) if isinstance(stored, dict) else None

    def _key(self, text: str, vlm: Vlm) -> str:
        return _PREFIX + short_hash([vlm.name, dict(vlm.settings), fill_hash(self._verbs), text])


def _read_slots(slots: SlotValues, cost: Cost | None = None, paid: Cost | None = None) -> ReadSlots:
    return ReadSlots(slots=slots, source="model", cost=cost or Cost(), paid=paid or Cost())


def _with_lost(read: ReadSlots | PaidFailure, lost: Cost) -> ReadSlots | PaidFailure:
    """A result that also bears the cost of a shared call whose reply could not be used."""
    if isinstance(read, PaidFailure):
        return PaidFailure(read.error, read.cost + lost)
    return replace(read, cost=read.cost + lost, paid=read.paid + lost)
