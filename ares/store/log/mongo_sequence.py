"""Sequence numbers of the log on a MongoDB server, for several writers at once."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ares.errors import StoreError

if TYPE_CHECKING:
    from pymongo.collection import Collection

T = TypeVar("T")
Document = dict[str, Any]


# Distinguishes this process from an earlier one with the same number in the same container.
_PROCESS = uuid.uuid4().hex


def current_process() -> dict[str, str | int]:
    """Return host, number and unique id of this process."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "process": _PROCESS}


def is_dead_process(process: Mapping[str, object]) -> bool:
    """Return whether a process ran on this machine and has ended; of other machines nothing is known."""
    if process["host"] != socket.gethostname() or process["process"] == _PROCESS:
        return False
    return process["pid"] == os.getpid() or not _is_running(int(str(process["pid"])))


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


_FORMAT = 1
_TIMEOUT_MS = 30_000
# Messages that a writer sent just before it was killed may still be on their way to the server.
_DEAD_WRITER_TIMEOUT_MS = 2_000
_BATCH_SIZE = 1000
_LOG: Document = {"_id": "log"}


class SequenceRange(NamedTuple):
    """The numbers [first, first + size) that one writer uses."""

    first: int
    size: int


class RunWithRetries(Protocol):
    """Runs an operation on the server, again if the connection breaks; see `MongoConnection.run`."""

    def __call__(self, action: Callable[[], T], /) -> T:
        """Return the result of the action."""


class SequenceAllocator:
    """The sequence numbers of a log.

    Args:
        log: Collection of the one document.
        annotations: Collection of the annotations, each with its "sequence".
        run: Runs an operation on the server, with retries.
    """

    def __init__(
        self, log: Collection[Document], annotations: Collection[Document], run: RunWithRetries
    ) -> None:
        self._log = log
        self._annotations = annotations
        self._run = run

    def prepare(self) -> None:
        """Create the document when it does not exist. Raises StoreError when a newer version wrote it."""
        from pymongo.errors import DuplicateKeyError

        new_document = {"$setOnInsert": {"format": _FORMAT, "next": 1, "open": []}}

        def create() -> None:
            # DuplicateKeyError: another writer has just created it.
            with suppress(DuplicateKeyError):
                self._log.update_one(_LOG, new_document, upsert=True)

        self._run(create)
        stored_format = self._state()["format"]
        if stored_format > _FORMAT:
            raise StoreError(
                f"the annotations have format {stored_format}", f"this version of ARES reads format {_FORMAT}"
            )

    def allocate(self, size: int) -> SequenceRange:
        """Reserve `size` numbers and open their range."""
        token = uuid.uuid4().hex
        new_range = {"first": "$next", "seen": "$$NOW", "token": token, **current_process()}
        change = {
            "$set": {"open": {"$concatArrays": ["$open", [new_range]]}, "next": {"$add": ["$next", size]}}
        }
        # Repeating it changes nothing: the token of the first time is in the document then.
        without_token = {**_LOG, "open.token": {"$ne": token}}
        self._run(lambda: self._log.update_one(without_token, [change]))
        document = self._run(lambda: self._log.find_one(_LOG, {"open": {"$elemMatch": {"token": token}}}))
        if not document or not document.get("open"):
            # Another process closed it before we read it: this process slept very long.
            return self.allocate(size)
        return SequenceRange(first=int(document["open"][0]["first"]), size=size)

    def renew(self, sequence_range: SequenceRange) -> None:
        """Report that the writer of a range is alive."""
        is_this_range = {"$eq": ["$$each.first", sequence_range.first]}
        renewed = {"$cond": [is_this_range, {"$mergeObjects": ["$$each", {"seen": "$$NOW"}]}, "$$each"]}
        change = {"$set": {"open": {"$map": {"input": "$open", "as": "each", "in": renewed}}}}
        self._run(lambda: self._log.update_one(_LOG, [change]))

    def commit(self, sequence_range: SequenceRange, ids: list[str]) -> None:
        """Close a range; if another process closed it before, give its annotations new numbers.

        Args:
            sequence_range: The range that `allocate` returned.
            ids: Ids of its annotations; those that existed before under another number are not changed.
        """
        while not self._close(sequence_range.first):
            new_range = self.allocate(sequence_range.size)
            self._renumber(sequence_range, new_range, ids)
            sequence_range = new_range

    def abandon(self, sequence_range: SequenceRange) -> None:
        """Close a range that could not be written completely; what was written of it is valid."""
        # Without the server even this fails; the next reader closes the range then.
        with suppress(StoreError):
            self._close(sequence_range.first)

    def last_complete(self) -> int:
        """Return the number up to which no range is open; 0 for an empty log."""
        state = self._state()
        for abandoned in filter(self._is_abandoned, state["open"]):
            self._close(int(abandoned["first"]))
            state = self._state()
        first_open = min((int(document["first"]) for document in state["open"]), default=int(state["next"]))
        return first_open - 1

    def _close(self, first: int) -> bool:
        pull = {"$pull": {"open": {"first": first}}}
        return self._run(lambda: self._log.update_one(_LOG, pull).modified_count) == 1

    def _renumber(self, old: SequenceRange, new: SequenceRange, ids: list[str]) -> None:
        from pymongo import UpdateOne

        updates = [
            UpdateOne(
                {"_id": annotation_id, "sequence": old.first + offset},
                {"$set": {"sequence": new.first + offset}},
            )
            for offset, annotation_id in enumerate(ids)
        ]
        for start in range(0, len(updates), _BATCH_SIZE):
            self._send(updates[start : start + _BATCH_SIZE])
            self.renew(new)

    def _send(self, updates: list[Any]) -> None:
        self._run(lambda: self._annotations.bulk_write(updates, ordered=False))

    def _state(self) -> Document:
        # The server's clock measures for how long a writer has not reported.
        silent = {"$subtract": ["$$NOW", "$$each.seen"]}
        with_silence = {"$mergeObjects": ["$$each", {"silent_ms": silent}]}
        stage = {"$set": {"open": {"$map": {"input": "$open", "as": "each", "in": with_silence}}}}
        (state,) = self._run(lambda: list(self._log.aggregate([{"$match": _LOG}, stage])))
        return state

    def _is_abandoned(self, open_range: Document) -> bool:
        if open_range["silent_ms"] > _TIMEOUT_MS:
            return True
        return open_range["silent_ms"] > _DEAD_WRITER_TIMEOUT_MS and is_dead_process(open_range)
