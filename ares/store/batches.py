"""Batches: sequence numbers on a MongoDB server without transactions, so that no reader skips a slow writer's facts.

One document holds the next number and the batches still being written, and every change of it is one atomic
operation. A reader stops before the first open batch. A batch whose writer has given no sign of life for a while,
or has died on this machine, is closed by whoever comes next: what was written of it are valid facts. A writer that
finds its batch closed, because it slept too long, numbers its facts anew, so that readers come upon them. Every
change may be sent twice, because the answer to the first may have been lost with the connection.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ares.errors import StoreError
from ares.store.writer import is_dead, me

if TYPE_CHECKING:
    from pymongo.collection import Collection

T = TypeVar("T")
Document = dict[str, Any]

_FORMAT = 1
_SILENCE_MS = 30_000
# What a writer sent just before it was killed may still be on its way into the server.
_LAST_WORDS_MS = 2_000
_CHUNK = 1000
_LOG: Document = {"_id": "log"}


class Batch(NamedTuple):
    """Numbers that one writer holds: [first, first + size)."""

    first: int
    size: int


class Ask(Protocol):
    """Does what the server is asked, again if the connection breaks; see `Server.ask`."""

    def __call__(self, action: Callable[[], T], /) -> T:
        """What the action gives."""


class Batches:
    """The sequence numbers of a log.

    Args:
        log: Collection of the one document.
        facts: Collection of the facts, each with its "sequence".
        ask: How the server is asked.
    """

    def __init__(self, log: Collection[Document], facts: Collection[Document], ask: Ask) -> None:
        self._log = log
        self._facts = facts
        self._ask = ask

    def prepare(self) -> None:
        """Make the document when it is not there. Raises StoreError when a newer version wrote it."""
        from pymongo.errors import DuplicateKeyError

        made = {"$setOnInsert": {"format": _FORMAT, "next": 1, "open": []}}

        def make() -> None:
            # DuplicateKeyError: another writer has just made it.
            with suppress(DuplicateKeyError):
                self._log.update_one(_LOG, made, upsert=True)

        self._ask(make)
        found = self._state()["format"]
        if found > _FORMAT:
            raise StoreError(
                f"the annotations have format {found}", f"this version of ARES reads format {_FORMAT}"
            )

    def begin(self, size: int) -> Batch:
        """Take numbers for so many facts and open a batch of them."""
        token = uuid.uuid4().hex
        opened = {"first": "$next", "seen": "$$NOW", "token": token, **me()}
        change = {"$set": {"open": {"$concatArrays": ["$open", [opened]]}, "next": {"$add": ["$next", size]}}}
        # Done twice it changes nothing: the token of the first time is there.
        fresh = {**_LOG, "open.token": {"$ne": token}}
        self._ask(lambda: self._log.update_one(fresh, [change]))
        found = self._ask(lambda: self._log.find_one(_LOG, {"open": {"$elemMatch": {"token": token}}}))
        if not found or not found.get("open"):
            # Closed by another before we came to read it: we slept very long.
            return self.begin(size)
        return Batch(first=int(found["open"][0]["first"]), size=size)

    def renew(self, batch: Batch) -> None:
        """Give a sign of life."""
        mine = {"$eq": ["$$each.first", batch.first]}
        seen = {"$cond": [mine, {"$mergeObjects": ["$$each", {"seen": "$$NOW"}]}, "$$each"]}
        change = {"$set": {"open": {"$map": {"input": "$open", "as": "each", "in": seen}}}}
        self._ask(lambda: self._log.update_one(_LOG, [change]))

    def end(self, batch: Batch, ids: list[str]) -> None:
        """Close a batch; if somebody else has, give its facts new numbers.

        Args:
            batch: What `begin` gave.
            ids: Ids of its facts; those that had another number before are left alone.
        """
        while not self._close(batch.first):
            again = self.begin(batch.size)
            self._renumber(batch, again, ids)
            batch = again

    def abandon(self, batch: Batch) -> None:
        """Close a batch that could not be written whole; what was written of it are valid facts."""
        # Without the server even this fails; the next reader closes the batch then.
        with suppress(StoreError):
            self._close(batch.first)

    def complete(self) -> int:
        """The number up to which no batch is open; 0 for an empty log."""
        state = self._state()
        for dead in filter(self._is_dead, state["open"]):
            self._close(int(dead["first"]))
            state = self._state()
        first = min((int(each["first"]) for each in state["open"]), default=int(state["next"]))
        return first - 1

    def _close(self, first: int) -> bool:
        pull = {"$pull": {"open": {"first": first}}}
        return self._ask(lambda: self._log.update_one(_LOG, pull).modified_count) == 1

    def _renumber(self, old: Batch, new: Batch, ids: list[str]) -> None:
        from pymongo import UpdateOne

        writes = [
            UpdateOne({"_id": each, "sequence": old.first + at}, {"$set": {"sequence": new.first + at}})
            for at, each in enumerate(ids)
        ]
        for at in range(0, len(writes), _CHUNK):
            self._send(writes[at : at + _CHUNK])
            self.renew(new)

    def _send(self, writes: list[Any]) -> None:
        self._ask(lambda: self._facts.bulk_write(writes, ordered=False))

    def _state(self) -> Document:
        # The server's own clock says how long a writer has been silent.
        silent = {"$subtract": ["$$NOW", "$$each.seen"]}
        aged = {"$mergeObjects": ["$$each", {"silent_ms": silent}]}
        shown = {"$set": {"open": {"$map": {"input": "$open", "as": "each", "in": aged}}}}
        (state,) = self._ask(lambda: list(self._log.aggregate([{"$match": _LOG}, shown])))
        return state

    def _is_dead(self, batch: Document) -> bool:
        if batch["silent_ms"] > _SILENCE_MS:
            return True
        return batch["silent_ms"] > _LAST_WORDS_MS and is_dead(batch)
