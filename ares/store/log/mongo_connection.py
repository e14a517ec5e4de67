"""The connection to a MongoDB server: retries, and failures in one line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ares.console import print_message
from ares.deadline import current_deadline
from ares.errors import StoreError
from ares.imports import needs_extra

if TYPE_CHECKING:
    from pymongo.database import Database


T = TypeVar("T")
Document = dict[str, Any]

_SERVER_SELECTION_MS = 5000
_PAUSE_SECONDS = 0.5


class MongoConnection:
    """A connection that reconnects whenever it breaks.

    Args:
        uri: Server, with user and password where it needs them.

    Attributes:
        host: Its name without user and password, for messages.
        retry_seconds: How long `run` waits for a server that went away.

    Raises:
        StoreError: The URI cannot be parsed.
        RequestError: The extra `mongo` is not installed.
    """

    def __init__(self, uri: str) -> None:
        with needs_extra("mongo"):
            from pymongo import MongoClient
            from pymongo.errors import PyMongoError

        # Whatever comes before an "@" may be a password; it is never printed.
        self.host = uri.rsplit("@", 1)[-1].split("://")[-1].split("/")[0].split("?")[0]
        self.retry_seconds = 0.0
        try:
            self._client: MongoClient[Document] = MongoClient(
                uri, serverSelectionTimeoutMS=_SERVER_SELECTION_MS
            )
            self._database_prefix = self._client.get_default_database("ares").name
        except (PyMongoError, ValueError):
            remedy = "use mongodb://USER:PASSWORD@HOST:PORT with special characters percent-encoded"
            raise StoreError("ARES_MONGO_URI cannot be read", f"server {self.host!r}; {remedy}") from None

    def database(self, workspace_id: str) -> Database[Document]:
        """Return the database of a workspace; acknowledged writes survive a crash of the server."""
        from pymongo import ReadPreference, WriteConcern

        # A reader of a secondary could miss a range of sequence numbers that is already committed.
        return self._client.get_database(
            f"{self._database_prefix}_{workspace_id[:12]}",
            read_preference=ReadPreference.PRIMARY,
            write_concern=WriteConcern(w="majority", j=True),
        )

    def run(self, action: Callable[[], T]) -> T:
        """Return the result of an action, retried while the server is away, so it must be safe to repeat.

        Raises:
            StoreError: The server cannot be reached, or rejects the action.
        """
        from pymongo.errors import ConnectionFailure, InvalidOperation, OperationFailure, PyMongoError

        deadline: float | None = None
        while True:
            try:
                return _run_within_deadline(action)
            except InvalidOperation:
                raise
            except ConnectionFailure as error:
                deadline = self._pause_before_retry(deadline, error)
            except OperationFailure as error:
                raise StoreError(
                    "MongoDB rejected an operation", f"server {self.host!r}: {_failure_message(error)}"
                ) from error
            except PyMongoError as error:
                detail = f"server {self.host!r}: {type(error).__name__}"
                raise StoreError("MongoDB failed", detail) from error

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _pause_before_retry(self, deadline: float | None, error: Exception) -> float:
        """Sleep before the next try. Returns the deadline; raises StoreError when it has passed."""
        if deadline is None:
            deadline = time.monotonic() + self.retry_seconds
            if self.retry_seconds:
                message = f"waiting: MongoDB server {self.host!r} does not answer"
                print_message(f"{message}; retrying for {self.retry_seconds:.0f} s")
        if time.monotonic() >= deadline:
            remedy = "start it, or set ARES_MONGO_URI to the right one; stored data is safe"
            raise StoreError("MongoDB cannot be reached", f"server {self.host!r}; {remedy}") from error
        time.sleep(_PAUSE_SECONDS)
        return deadline


def _run_within_deadline(action: Callable[[], T]) -> T:
    """Run an action; where the thread has a deadline, the server ends it then and QueryTimeout is raised."""
    import pymongo
    from pymongo.errors import PyMongoError

    deadline = current_deadline()
    if deadline is None:
        return action()
    deadline.check()
    try:
        with pymongo.timeout(deadline.remaining_seconds or None):
            return action()
    except PyMongoError as error:
        if error.timeout and not deadline.remaining_seconds:
            raise deadline.error() from error
        raise


def _failure_message(error: Any) -> str:
    if error.code in (13, 18):
        return "the user or the password of ARES_MONGO_URI is wrong, or has no access to this database"
    return str(error).splitlines()[0][:300]
