"""What sentences without slots state: each is asked about once in a workspace, those of plain words together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from annotators.base import PaidFailure
from annotators.caption import (
    MOST_SENTENCES,
    fill_hash,
    is_fillable,
    make_shared_fill_request,
    read_shared_fill_reply,
)
from annotators.grade.pair_answers import may_be_halved, split_in_halves
from annotators.grade.plain_words import WordReader, is_common_sentence
from annotators.grade.slot_values import ReadSlots, drop_unstated, fill_slots_of
from annotators.models import VlmFailure, VlmReply
from ares.annotation import Cost, short_hash
from ares.episode import Json
from ares.rubric import SlotValues, slots_from_json, slots_to_json
from ares.store import MODEL_REPLIES, batched

if TYPE_CHECKING:
    from annotators.models import Vlm
    from ares.store import Stores


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
        # One alone has a request of its own, which names it as one.
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
