"""Asks a model about lists of entries; a list whose reply cannot be used is asked again in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from ares.annotation import Cost, short_hash
from ares.episode import Json
from ares.store import MODEL_REPLIES, batched
from ares_annotators.models import Vlm, VlmFailure, VlmReply, VlmRequest

if TYPE_CHECKING:
    from ares.errors import AresError
    from ares.store import AnnotationStore


# An entry of a kept answer is a tuple of JSON values, of which its key is made.
Entry = TypeVar("Entry", bound=tuple[object, ...])
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryReply(Generic[Answer]):
    """What came of one entry of a list.

    Attributes:
        answer: The answer; None where the reply cannot be used, or there is none.
        problem: What is wrong with the reply, in a few words, or "".
        text: The reply.
        error: Why there is no reply, or None.
        cost: What the calls cost in whose list it stood first, whenever that was paid.
        paid: What was paid for them now.
    """

    answer: Answer | None = None
    problem: str = ""
    text: str = ""
    error: AresError | None = None
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)


def ask_lists(
    vlm: Vlm,
    lists: Sequence[Sequence[Entry]],
    make_request: Callable[[Sequence[Entry]], VlmRequest],
    read: Callable[[Sequence[Entry], str], Sequence[Answer] | str],
) -> list[EntryReply[Answer]]:
    """Ask about each list in one call; without a usable reply about its halves, then about each of their entries.

    Args:
        vlm: The model.
        lists: Lists of at least one entry.
        make_request: Makes the request about a list.
        read: Reads a reply about a list: an answer for each entry, or what is wrong with it.

    Returns:
        What came of each entry, in the order of the lists.
    """
    entries = [entry for members in lists for entry in members]
    outcomes: list[EntryReply[Answer]] = [EntryReply()] * len(entries)
    numbers = iter(range(len(entries)))
    open_lists = [[next(numbers) for _ in members] for members in lists]
    for parts in (2, len(entries), 1):
        requests = [
            _fit_request(make_request([entries[number] for number in members]), vlm) for members in open_lists
        ]
        unread: list[list[int]] = []
        for members, reply in zip(open_lists, vlm.ask(requests) if requests else (), strict=True):
            fresh = _read_reply([entries[number] for number in members], reply, read)
            for number, outcome in zip(members, fresh, strict=True):
                before = outcomes[number]
                outcomes[number] = replace(
                    outcome, cost=before.cost + outcome.cost, paid=before.paid + outcome.paid
                )
            if len(members) > 1 and fresh[0].problem:
                unread.append(members)
        open_lists = [half for members in unread for half in batched(members, -(-len(members) // parts))]
        if not open_lists:
            break
    return outcomes


def _fit_request(request: VlmRequest, vlm: Vlm) -> VlmRequest:
    """A request without its schema where a model takes none: its prompt says the form in words."""
    return request if "schema" in vlm.capabilities else replace(request, schema=None)


def _read_reply(
    entries: Sequence[Entry],
    reply: VlmReply | VlmFailure,
    read: Callable[[Sequence[Entry], str], Sequence[Answer] | str],
) -> list[EntryReply[Answer]]:
    """What one reply says of each entry; the first one bears its cost."""
    if isinstance(reply, VlmFailure):
        problem = reply.error.reason if reply.is_unusable_reply else ""
        failed: EntryReply[Answer] = EntryReply(error=reply.error, problem=problem)
        return [replace(failed, cost=reply.cost, paid=reply.cost), *[failed] * (len(entries) - 1)]
    answers = read(entries, reply.text)
    outcomes: list[EntryReply[Answer]] = (
        [EntryReply(problem=answers, text=reply.text)] * len(entries)
        if isinstance(answers, str)
        else [EntryReply(answer=answer, text=reply.text) for answer in answers]
    )
    return [replace(outcomes[0], cost=reply.cost, paid=reply.paid), *outcomes[1:]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuestion(Generic[Entry]):
    """A question about lists of entries whose answers are kept.

    Attributes:
        name: What is answered: "pair", "words" or "slots".
        version: What decides on an answer beside the entry: the model and all that it is asked.
        most: Entries in one call.
        make_request: Makes the request about a list.
        read: Reads a reply about a list, see `ask_lists`.
    """

    name: str
    version: Sequence[Json]
    most: int
    make_request: Callable[[Sequence[Entry]], VlmRequest]
    read: Callable[[Sequence[Entry], str], Sequence[Json] | str]


class KeptAnswers(Generic[Entry]):
    """Answers of a model of texts about entries, kept in the documents of a workspace; safe to use from threads.

    Args:
        vlm: The model.
        log: Where they are kept, beside the replies of models, so that they are deleted with them.
        question: What is asked.
    """

    def __init__(self, vlm: Vlm, log: AnnotationStore, question: ListQuestion[Entry]) -> None:
        self._vlm, self._log, self._question = vlm, log, question
        self._answers: dict[Entry, Json] = {}

    def find(self, entry: Entry) -> Json:
        """The answer about an entry; None where none is known."""
        if entry not in self._answers:
            stored = self._log.get_document(MODEL_REPLIES, self._key(entry))
            if not isinstance(stored, dict):
                return None
            self._answers[entry] = stored[self._question.name]
        return self._answers[entry]

    def ask(self, entries: Mapping[Entry, bool]) -> dict[Entry, EntryReply[Json]]:
        """What came of each entry, many in a call; one that is known costs nothing.

        Args:
            entries: The entries, each with whether it shares no call.
        """
        outcomes: dict[Entry, EntryReply[Json]] = {
            entry: EntryReply(answer=answer) for entry in entries if (answer := self.find(entry)) is not None
        }
        missing = [entry for entry in entries if entry not in outcomes]
        shared = batched([entry for entry in missing if not entries[entry]], self._question.most)
        lists = [*shared, *([entry] for entry in missing if entries[entry])]
        replies = ask_lists(self._vlm, lists, self._question.make_request, self._question.read)
        answered = dict(zip((entry for members in lists for entry in members), replies, strict=True))
        fresh = {entry: reply.answer for entry, reply in answered.items() if reply.answer is not None}
        self._answers.update(fresh)
        if fresh:
            documents: dict[str, Json] = {
                self._key(entry): {self._question.name: answer} for entry, answer in fresh.items()
            }
            self._log.put_documents(MODEL_REPLIES, documents)
        return outcomes | answered

    def _key(self, entry: Entry) -> str:
        return f"{self._question.name}/{short_hash([*self._question.version, *entry])}"
