"""A write lease in MongoDB, renewed by its owner, so that one job at a time writes; see docs/why/006."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ares.errors import StoreError
from ares.messages import print_message
from ares.store.annotations.mongo_client import current_process, is_dead_process
from ares.store.locking import WorkspaceBusy, job_label

if TYPE_CHECKING:
    from pymongo.collection import Collection

    from ares.store.annotations.mongo_sequence import RunWithRetries

Document = dict[str, Any]

_LEASE_SECONDS = 60.0
_RENEW_SECONDS = 10.0
_POLL_SECONDS = 1.0
_ID: Document = {"_id": "writing"}


class WriteLease:
    """The right to write; only the server's clock decides when a lease that was not renewed has expired.

    Args:
        leases: Collection of the one document.
        run: Runs an operation on the server, with retries.
    """

    def __init__(self, leases: Collection[Document], run: RunWithRetries) -> None:
        self._leases = leases
        self._run = run
        self._new_owner = ""

    @contextmanager
    def acquire(self, job_name: str, wait: bool = True) -> Iterator[None]:
        """Own the lease inside a `with` block; a thread renews it.

        Args:
            job_name: Name of the job, shown to those who wait.
            wait: Whether to wait for another writer, and print its name.

        Raises:
            WorkspaceBusy: Another job writes, and `wait` is off.
        """
        token = uuid.uuid4().hex
        self._wait_for_lease(token, job_name, wait)
        stop = threading.Event()
        renewal = threading.Thread(target=self._renew, args=[token, job_name, stop], daemon=True)
        renewal.start()
        try:
            yield
        finally:
            stop.set()
            renewal.join()
            self._new_owner = ""
            self._run(lambda: self._leases.update_one({**_ID, "token": token}, {"$set": {"token": ""}}))

    def require_ownership(self) -> None:
        """Raise StoreError when another job has taken over the lease of this process: two must not write."""
        if self._new_owner:
            raise StoreError("another job took over the workspace", f"{self._new_owner}; run this job again")

    def _wait_for_lease(self, token: str, job_name: str, wait: bool) -> None:
        new_document = {"$setOnInsert": {"token": ""}}
        self._run(lambda: self._leases.update_one(_ID, new_document, upsert=True))
        is_printed = False
        while not self._try_acquire(token, job_name):
            owner = self._current_owner()
            if owner is None:
                continue
            if not wait:
                raise WorkspaceBusy(owner)
            if not is_printed:
                print_message(f"waiting: {owner} is writing to the workspace")
                is_printed = True
            time.sleep(_POLL_SECONDS)

    def _try_acquire(self, token: str, job_name: str) -> bool:
        """Take or renew the lease. Returns whether this token owns it now; repeating it gives the same answer."""
        until = {"$add": ["$$NOW", int(_LEASE_SECONDS * 1000)]}
        lease = {
            "token": token,
            "who": {"$literal": job_label(job_name)},
            "until": until,
            **current_process(),
        }
        is_available = {"$or": [{"token": {"$in": ["", token]}}, {"$expr": {"$lt": ["$until", "$$NOW"]}}]}
        result = self._run(lambda: self._leases.update_one({**_ID, **is_available}, [{"$set": lease}]))
        return result.matched_count == 1

    def _current_owner(self) -> str | None:
        """Return the job that owns the lease, or None when it is free; a dead process of this machine loses it."""
        lease = self._run(lambda: self._leases.find_one(_ID))
        if not lease or not lease["token"]:
            return None
        if is_dead_process(lease):
            dead_lease = {**_ID, "token": lease["token"]}
            self._run(lambda: self._leases.update_one(dead_lease, {"$set": {"token": ""}}))
            return None
        return str(lease["who"])

    def _renew(self, token: str, job_name: str, stop: threading.Event) -> None:
        while not stop.wait(_RENEW_SECONDS):
            try:
                if not self._try_acquire(token, job_name):
                    self._new_owner = self._current_owner() or "a job that has ended since"
                    return
            except StoreError:
                # The server is away; every operation that needs it is retried, and so is this one.
                continue
