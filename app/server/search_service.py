"""The dashboard's side of `app.server.search_socket`: a thread that answers searches on a Unix socket."""

from __future__ import annotations

import json
import socketserver
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from ares import __version__
from ares.errors import AresError

if TYPE_CHECKING:
    from ares.workspace import Workspace

_MAX_LINE_BYTES = 1 << 20
_READ_SECONDS = 5.0
# More at once would delay the pages.
_MAX_SEARCHES = 4


class SearchService:
    """Answers searches until it is closed.

    Args:
        workspace: Workspace to search.
        path: Path of the socket, in a folder that only its owner may enter.

    Raises:
        OSError: The socket cannot be created.
    """

    def __init__(self, workspace: Workspace, path: Path) -> None:
        self._workspace, self._path = workspace, path
        self._slots = threading.BoundedSemaphore(_MAX_SEARCHES)
        service = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = _READ_SECONDS

            def handle(self) -> None:
                self.wfile.write(service.answer(self.rfile.readline(_MAX_LINE_BYTES)) + b"\n")

        self._server = _QuietServer(str(path), Handler)
        threading.Thread(target=self._server.serve_forever, name="search-socket", daemon=True).start()

    def answer(self, line: bytes) -> bytes:
        """The answer to a request, as one line of JSON: `hits`, or an `error` for which the client searches itself."""
        if not self._slots.acquire(blocking=False):
            return _error("busy")
        try:
            return json.dumps({"hits": self._search(line)}).encode()
        except (AresError, ValueError, KeyError, TypeError) as error:
            return _error(str(error))
        finally:
            self._slots.release()

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._path.unlink(missing_ok=True)
        self._server.shutdown()
        self._server.server_close()

    def _search(self, line: bytes) -> list[object]:
        from ares.search import Query, search

        request = json.loads(line)
        if request["version"] != __version__:
            raise ValueError(f"this dashboard is of version {__version__}")
        return [hit.to_json() for hit in search(self._workspace.stores, Query(**request["query"]))]


class _QuietServer(socketserver.ThreadingUnixStreamServer):
    """A server whose clients may go away at any time."""

    daemon_threads = True
    request_queue_size = 32

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that went away or sent nothing in time."""


def _error(message: str) -> bytes:
    return json.dumps({"error": message}).encode()
