"""A model that is asked about words alone: each pair of values once in a workspace, plain ones together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from annotators.base import Preflight
from annotators.grade.additions import DatasetWords, are_common_values, is_plain_value
from annotators.grade.questions import (
    ClaimedPair,
    ExtraWords,
    ValuePair,
    comparison_request,
    comparisons_request,
    make_pair,
    parse_comparison,
    parse_comparisons,
    parse_shared_words,
    questions_hash,
    shared_words_request,
)
from annotators.models import ReadableImages, Vlm, VlmFailure, VlmReply, VlmRequest, make_test_call
from ares.annotation import Cost, short_hash
from ares.episode import Json
from ares.rubric import slots_to_json
from ares.store import MODEL_REPLIES, batched

if TYPE_CHECKING:
    from ares.store import AnnotationStore


_Item = TypeVar("_Item")
# In one call.
MOST_PAIRS, MOST_ENTRIES = 32, 16
# Beside the replies, so that they are deleted with them.
_PREFIX, _WORDS_PREFIX = "pair/", "words/"


class TextModel:
    """A model that is asked about words, and gets no frames.

    Args:
        vlm: The model; it keeps its replies and books their cost.
    """

    def __init__(self, vlm: Vlm) -> None:
        self.vlm = vlm
        self.has_schema = "schema" in vlm.capabilities
        self.settings: Mapping[str, Json] = {
            "text_model": vlm.name,
            "text_family": vlm.family,
            "text_has_schema": self.has_schema,
        }

    def ask(self, requests: Sequence[VlmRequest]) -> list[VlmReply | VlmFailure]:
        """A reply for each request; the same question of several captions is asked, and paid, once."""
        return ask_once(self.vlm, requests, [request.prompt for request in requests])

    def preflight(self) -> Preflight:
        """One question whose reply has to be of the form asked for. Raises ModelError."""
        request = comparison_request(make_pair("action", "open", "pull open"), self.has_schema)
        return make_test_call(self.vlm, request, _comparison_problem)


def _comparison_problem(reply: VlmReply) -> str:
    is_read = parse_comparison(reply.text) in reply.text
    return "" if is_read else "reply is off the menu"


def ask_once(vlm: Vlm, requests: Sequence[VlmRequest], keys: Sequence[object]) -> list[VlmReply | VlmFailure]:
    """Replies; of requests with the same key one is asked, and the first of them has paid for it."""
    first = dict(zip(reversed(keys), reversed(requests), strict=True))
    for key, request in zip(keys, requests, strict=True):
        # What is not sent holds no pixels meanwhile.
        if request is not first[key] and isinstance(request.images, ReadableImages):
            request.images.release()
    replies = dict(zip(first, vlm.ask(list(first.values())), strict=True)) if first else {}
    paid_for: set[object] = set()
    answers: list[VlmReply | VlmFailure] = []
    for key in keys:
        answers.append(_as_kept(replies[key]) if key in paid_for else replies[key])
        paid_for.add(key)
    return answers


def _as_kept(reply: VlmReply | VlmFailure) -> VlmReply | VlmFailure:
    return replace(reply, was_kept=True) if isinstance(reply, VlmReply) else replace(reply, cost=Cost())


def split_in_halves(chunks: Sequence[Sequence[_Item]]) -> list[Sequence[_Item]]:
    """The halves of chunks, those of one left out: it has a separate request."""
    halves = [half for chunk in chunks for half in (chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :])]
    return [half for half in halves if len(half) > 1]


def may_be_halved(reply: VlmReply | VlmFailure) -> bool:
    """Whether a model has replied to a call, so that a shorter one may be answered."""
    return isinstance(reply, VlmReply) or reply.is_unusable_reply


def _paid_for(reply: VlmReply | VlmFailure) -> Cost:
    return reply.paid if isinstance(reply, VlmReply) else reply.cost


class PairAnswers:
    """Answers about pairs of values, kept in the documents of a workspace; safe to use from threads.

    Args:
        texts: The model.
        log: Where they are kept.
        words: Words that captions of a dataset may use.
    """

    def __init__(self, texts: TextModel, log: AnnotationStore, words: DatasetWords) -> None:
        self._texts, self._log, self.words = texts, log, words
        self._answers: dict[ValuePair, str] = {}
        self._model = short_hash([dict(texts.settings), questions_hash()])

    def find(self, pair: ValuePair) -> str | None:
        """The answer about a pair; None where it was not asked about."""
        if pair not in self._answers:
            stored = self._log.get_document(MODEL_REPLIES, self._key(pair))
            if not isinstance(stored, dict):
                return None
            self._answers[pair] = str(stored["answer"])
        return self._answers[pair]

    def put(self, answers: dict[ValuePair, str]) -> None:
        """Keep new answers."""
        self._answers.update(answers)
        if answers:
            documents = {self._key(pair): {"answer": answer} for pair, answer in answers.items()}
            self._log.put_documents(MODEL_REPLIES, documents)

    def select_plain(self, pairs: Sequence[ClaimedPair], dataset: str) -> list[ValuePair]:
        """The pairs of a caption that may be asked about beside those of others.

        Together they have at most one word that only one episode of the dataset has: an order would need several.

        Args:
            pairs: Its pairs.
            dataset: The dataset of the caption.
        """
        known, selected, claimed = self.words.known_words(dataset), list[ValuePair](), list[str]()
        for pair, claim in pairs:
            is_plain = is_plain_value(pair.first) and is_plain_value(pair.second)
            if is_plain and are_common_values([*claimed, claim], known):
                selected.append(pair)
                claimed.append(claim)
        return selected

    def ask_together(self, pairs: Sequence[ValuePair]) -> list[tuple[ValuePair, Cost]]:
        """Ask about plain pairs, many in a call; the first pair of each call, and what the call has cost.

        A call without a usable reply is asked again in two halves; what these do not answer stays open, and is asked
        about alone.
        """
        paid, unread = self._ask_chunks([list(chunk) for chunk in batched(pairs, MOST_PAIRS)])
        again, _ = self._ask_chunks(split_in_halves(unread))
        return [*paid, *again]

    def _ask_chunks(
        self, chunks: Sequence[Sequence[ValuePair]]
    ) -> tuple[list[tuple[ValuePair, Cost]], list[Sequence[ValuePair]]]:
        """What each call has cost, by its first pair, and the chunks whose reply cannot be used."""
        requests = [comparisons_request(chunk, self._texts.has_schema) for chunk in chunks]
        paid, unread = list[tuple[ValuePair, Cost]](), list[Sequence[ValuePair]]()
        for chunk, reply in zip(chunks, self._texts.ask(requests), strict=True):
            answers = None if isinstance(reply, VlmFailure) else parse_comparisons(reply.text, len(chunk))
            self.put(dict(zip(chunk, answers or [], strict=False)))
            paid.append((chunk[0], _paid_for(reply)))
            if answers is None and may_be_halved(reply):
                unread.append(chunk)
        return paid, unread

    def are_plain_words(self, extra: ExtraWords, dataset: str) -> bool:
        """Whether the words of a caption beside its slots may be asked about beside those of others."""
        known = self.words.known_words(dataset)
        stated = [value for slot, value in extra.slots.items() if slot != "outcome"]
        return are_common_values([" ".join(extra.words), *stated], known)

    def ask_about_words(self, entries: Sequence[ExtraWords]) -> list[tuple[list[str] | None, Cost]]:
        """Which of the words of captions say more than their slots, and what it has cost, many captions in a call.

        What was answered before is kept and costs nothing. The first caption of a call bears its cost. A call without a
        usable reply is asked again in two halves. None stands where these do not answer: they are asked about alone.
        """
        replies = [(self._find_words(entry), Cost()) for entry in entries]
        missing = [position for position, (words, _) in enumerate(replies) if words is None]
        # One alone has a separate request, whose reply is kept as it is.
        unread = self._ask_word_chunks(
            entries, list(batched(missing, MOST_ENTRIES)) if len(missing) > 1 else [], replies
        )
        self._ask_word_chunks(entries, split_in_halves(unread), replies)
        return replies

    def _ask_word_chunks(
        self,
        entries: Sequence[ExtraWords],
        chunks: Sequence[Sequence[int]],
        replies: list[tuple[list[str] | None, Cost]],
    ) -> list[Sequence[int]]:
        """Ask about entries by position, answers and costs into replies; the chunks without a usable reply."""
        shared = [[entries[position] for position in positions] for positions in chunks]
        requests = [shared_words_request(chunk, self._texts.has_schema) for chunk in shared]
        unread: list[Sequence[int]] = []
        for positions, chunk, reply in zip(chunks, shared, self._texts.ask(requests), strict=True):
            answers = None if isinstance(reply, VlmFailure) else parse_shared_words(reply.text, len(chunk))
            self._put_words(dict(zip(map(self._words_key, chunk), answers or [], strict=False)))
            for number, position in enumerate(positions):
                cost = replies[position][1] + (Cost() if number else _paid_for(reply))
                replies[position] = (answers[number] if answers else None, cost)
            if answers is None and may_be_halved(reply):
                unread.append(positions)
        return unread

    def _find_words(self, entry: ExtraWords) -> list[str] | None:
        stored = self._log.get_document(MODEL_REPLIES, self._words_key(entry))
        words = stored.get("words") if isinstance(stored, dict) else None
        return [str(word) for word in words] if isinstance(words, list) else None

    def _put_words(self, answers: Mapping[str, Sequence[str]]) -> None:
        if answers:
            documents: dict[str, Json] = {key: {"words": list[Json](words)} for key, words in answers.items()}
            self._log.put_documents(MODEL_REPLIES, documents)

    def _words_key(self, entry: ExtraWords) -> str:
        return _WORDS_PREFIX + short_hash([self._model, list(entry.words), slots_to_json(entry.slots)])

    def _key(self, pair: ValuePair) -> str:
        return _PREFIX + short_hash([self._model, pair.slot, pair.first, pair.second])
