"""Server: a MongoDB server that may go away: questions are repeated for a while, and failures are one line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ares.errors import StoreError

if TYPE_CHECKING:
    from pymongo.database import Database

T = TypeVar("T")
Document = dict[str, Any]

_WAIT_MS = 5000
_PAUSE_SECONDS = 0.5


class Server:
    """A connection, made anew whenever it breaks.

    Args:
        uri: Server, with user and password where it asks for them.

    Attributes:
        host: Its name without user and password, for messages.
        patience_seconds: How long `ask` waits for a server that went away.

    Raises:
        StoreError: The URI cannot be read.
    """

    def __init__(self, uri: str) -> None:
        from pymongo import MongoClient
        from pymongo.errors import PyMongoError

        # Whatever stands before an "@" may be a password; it is never told.
        self.host = uri.rsplit("@", 1)[-1].split("://")[-1].split("/")[0].split("?")[0]
        self.patience_seconds = 0.0
        try:
            self._client: MongoClient[Document] = MongoClient(uri, serverSelectionTimeoutMS=_WAIT_MS)
            self._name = self._client.get_default_database("ares").name
        except (PyMongoError, ValueError):
            remedy = "give mongodb://USER:PASSWORD@HOST:PORT with special characters percent-encoded"
            raise StoreError("ARES_MONGO_URI cannot be read", f"server {self.host!r}; {remedy}") from None

    def database(self, workspace_id: str) -> Database[Document]:
        """The database of a workspace; what it acknowledges survives a crash of the server."""
        from pymongo import ReadPreference, WriteConcern

        # A reader of a secondary could miss a batch that is closed already.
        return self._client.get_database(
            f"{self._name}_{workspace_id[:12]}",
            read_preference=ReadPreference.PRIMARY,
            write_concern=WriteConcern(w="majority", j=True),
        )

    def ask(self, action: Callable[[], T]) -> T:
        """What an action gives; repeated while the server is away, so it must be one that may be done twice.

        Raises:
            StoreError: The server cannot be reached, or refuses.
        """
        from pymongo.errors import ConnectionFailure, InvalidOperation, OperationFailure, PyMongoError

        patience: float | None = None
        while True:
            try:
                return action()
            except InvalidOperation:
                raise
            except ConnectionFailure as error:
                patience = self._wait(patience, error)
            except OperationFailure as error:
                raise StoreError("MongoDB refused", f"server {self.host!r}: {_told(error)}") from error
            except PyMongoError as error:
                detail = f"server {self.host!r}: {type(error).__name__}"
                raise StoreError("MongoDB failed", detail) from error

    def close(self) -> None:
        """Release the connection."""
        self._client.close()

    def _wait(self, until: float | None, error: Exception) -> float:
        """Pause before the next try. Returns when to give up; raises StoreError when that has come."""
        if until is None:
            until = time.monotonic() + self.patience_seconds
            if self.patience_seconds:
                told = f"waiting: MongoDB server {self.host!r} does not answer"
                print(f"{told}; trying for {self.patience_seconds:.0f} s", file=sys.stderr)
        if time.monotonic() >= until:
            remedy = "start it, or set ARES_MONGO_URI to the right one; what is stored is safe"
            raise StoreError("MongoDB cannot be reached", f"server {self.host!r}; {remedy}") from error
        time.sleep(_PAUSE_SECONDS)
        return until


def _told(error: Any) -> str:
    if error.code in (13, 18):
        return "the user or the password of ARES_MONGO_URI is wrong, or may not use this database"
    return str(error).splitlines()[0][:300]
