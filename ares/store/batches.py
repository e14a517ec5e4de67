"""Batches: sequence numbers on a MongoDB server without transactions, so that no reader skips a slow writer's facts.

One document holds the next number and the batches still being written, and every change of it is one atomic
operation. A reader stops before the first open batch. A batch whose writer has given no sign of life for a while,
or has died on this machine, is closed by whoever comes next: what was written of it are valid facts. A writer that
finds its batch closed, because it slept too long, numbers its facts anew, so that readers come upon them.
"""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.errors import StoreError

if TYPE_CHECKING:
    from pymongo.collection import Collection

Document = dict[str, Any]

_FORMAT = 1
_SILENCE_MS = 30_000
_CHUNK = 1000
_LOG: Document = {"_id": "log"}
# Tells this process from one that had its number in an earlier life of the same container.
_PROCESS = uuid.uuid4().hex


class Batch(NamedTuple):
    """Numbers that one writer holds: [first, first + size)."""

    first: int
    size: int


class Batches:
    """The sequence numbers of a log.

    Args:
        log: Collection of the one document.
        facts: Collection of the facts, each with its "sequence".
    """

    def __init__(self, log: Collection[Document], facts: Collection[Document]) -> None:
        self._log = log
        self._facts = facts
        self._writer = {"host": socket.gethostname(), "pid": os.getpid(), "process": _PROCESS}

    def prepare(self) -> None:
        """Make the document when it is not there. Raises StoreError when a newer version wrote it."""
        from pymongo.errors import DuplicateKeyError

        # DuplicateKeyError: another writer has just made it.
        with suppress(DuplicateKeyError):
            self._log.update_one(
                _LOG, {"$setOnInsert": {"format": _FORMAT, "next": 1, "open": []}}, upsert=True
            )
        found = self._state()["format"]
        if found > _FORMAT:
            raise StoreError(
                f"the annotations have format {found}", f"this version of ARES reads format {_FORMAT}"
            )

    def begin(self, size: int) -> Batch:
        """Take numbers for so many facts and open a batch of them."""
        opened = {"first": "$next", "seen": "$$NOW", **self._writer}
        change = {"$set": {"open": {"$concatArrays": ["$open", [opened]]}, "next": {"$add": ["$next", size]}}}
        before = self._log.find_one_and_update(_LOG, [change])
        assert before is not None  # prepare made it
        return Batch(first=int(before["next"]), size=size)

    def renew(self, batch: Batch) -> None:
        """Give a sign of life."""
        mine = {"$eq": ["$$each.first", batch.first]}
        seen = {"$cond": [mine, {"$mergeObjects": ["$$each", {"seen": "$$NOW"}]}, "$$each"]}
        self._log.update_one(
            _LOG, [{"$set": {"open": {"$map": {"input": "$open", "as": "each", "in": seen}}}}]
        )

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
        return self._log.update_one(_LOG, {"$pull": {"open": {"first": first}}}).modified_count == 1

    def _renumber(self, old: Batch, new: Batch, ids: list[str]) -> None:
        from pymongo import UpdateOne

        writes = [
            UpdateOne({"_id": each, "sequence": old.first + at}, {"$set": {"sequence": new.first + at}})
            for at, each in enumerate(ids)
        ]
        for at in range(0, len(writes), _CHUNK):
            self._facts.bulk_write(writes[at : at + _CHUNK], ordered=False)
            self.renew(new)

    def _state(self) -> Document:
        # The server's own clock says how long a writer has been silent.
        silent = {"$subtract": ["$$NOW", "$$each.seen"]}
        aged = {"$mergeObjects": ["$$each", {"silent_ms": silent}]}
        shown = {"$set": {"open": {"$map": {"input": "$open", "as": "each", "in": aged}}}}
        (state,) = self._log.aggregate([{"$match": _LOG}, shown])
        return state

    def _is_dead(self, batch: Document) -> bool:
        if batch["silent_ms"] > _SILENCE_MS:
            return True
        if batch["host"] != self._writer["host"] or batch["process"] == _PROCESS:
            return False
        return batch["pid"] == self._writer["pid"] or not _alive(int(batch["pid"]))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
