"""Lease: one writer of a workspace at a time, by a document of MongoDB that its holder renews; see docs/why/006."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ares.errors import StoreError
from ares.store.hold import Busy, signature
from ares.store.writer import is_dead, me

if TYPE_CHECKING:
    from pymongo.collection import Collection

    from ares.store.batches import Ask

Document = dict[str, Any]

_SECONDS = 60.0
_RENEW_SECONDS = 10.0
_LOOK_SECONDS = 1.0
_ID: Document = {"_id": "writing"}


class Lease:
    """The right to write; the server's clock alone says when one that was not renewed has run out.

    Args:
        leases: Collection of the one document.
        ask: How the server is asked.
    """

    def __init__(self, leases: Collection[Document], ask: Ask) -> None:
        self._leases = leases
        self._ask = ask
        self._lost = ""

    @contextmanager
    def hold(self, who: str, wait: bool = True) -> Iterator[None]:
        """Hold it, renewed by a thread.

        Args:
            who: Name of the job, told to those who wait.
            wait: Whether to wait for another writer, telling for whom.

        Raises:
            Busy: Another writes, and `wait` is off.
        """
        token = uuid.uuid4().hex
        self._take(token, who, wait)
        ended = threading.Event()
        renewing = threading.Thread(target=self._renew, args=[token, who, ended], daemon=True)
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            self._lost = ""
            self._ask(lambda: self._leases.update_one({**_ID, "token": token}, {"$set": {"token": ""}}))

    def check(self) -> None:
        """Raises StoreError when this process held the lease and another has taken it: two must not write."""
        if self._lost:
            raise StoreError("another job took over the workspace", f"{self._lost}; run this one again")

    def _take(self, token: str, who: str, wait: bool) -> None:
        fresh = {"$setOnInsert": {"token": ""}}
        self._ask(lambda: self._leases.update_one(_ID, fresh, upsert=True))
        told = False
        while not self._try(token, who):
            holder = self._holder()
            if holder is None:
                continue
            if not wait:
                raise Busy(holder)
            if not told:
                print(f"waiting: {holder} is writing to the workspace", file=sys.stderr)
                told = True
            time.sleep(_LOOK_SECONDS)

    def _try(self, token: str, who: str) -> bool:
        """Whether the lease is ours now; asked twice it gives the same answer."""
        until = {"$add": ["$$NOW", int(_SECONDS * 1000)]}
        mine = {"token": token, "who": {"$literal": signature(who)}, "until": until, **me()}
        free = {"$or": [{"token": {"$in": ["", token]}}, {"$expr": {"$lt": ["$until", "$$NOW"]}}]}
        taken = self._ask(lambda: self._leases.update_one({**_ID, **free}, [{"$set": mine}]))
        return taken.matched_count == 1

    def _holder(self) -> str | None:
        """Who holds the lease, or None when it is free by now; a dead one of this machine is made to let go."""
        found = self._ask(lambda: self._leases.find_one(_ID))
        if not found or not found["token"]:
            return None
        if is_dead(found):
            gone = {**_ID, "token": found["token"]}
            self._ask(lambda: self._leases.update_one(gone, {"$set": {"token": ""}}))
            return None
        return str(found["who"])

    def _renew(self, token: str, who: str, ended: threading.Event) -> None:
        while not ended.wait(_RENEW_SECONDS):
            try:
                if not self._try(token, who):
                    self._lost = self._holder() or "a job that has ended since"
                    return
            except StoreError:
                # The server is away: what needs it waits for it, and so do we.
                continue
