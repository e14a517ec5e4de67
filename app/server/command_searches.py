"""Searches of commands by a running dashboard: both sides of the Unix socket between them."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import socketserver
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ares import __version__
from ares.errors import AresError

if TYPE_CHECKING:
    from ares.search import Hit
    from ares.settings import Settings
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
            return _error_answer("busy")
        try:
            return json.dumps({"hits": self._search(line)}).encode()
        except (AresError, ValueError, KeyError, TypeError, RecursionError) as error:
            return _error_answer(str(error))
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


def _error_answer(message: str) -> bytes:
    return json.dumps({"error": message}).encode()


_FOLDER = "dashboards"
# Longer paths of sockets are refused by macOS; Linux allows four more.
_MAX_PATH_BYTES = 103
# A dashboard that is busy for longer is left alone, and the command searches by itself.
_ANSWER_SECONDS = 5.0


def ask_dashboard_to_search(
    location: str, settings: Settings, query: Mapping[str, object]
) -> list[Hit] | None:
    """Let a running dashboard of this user search.

    Args:
        location: Absolute folder of the workspace, or its URI.
        settings: Settings from the environment.
        query: Fields of `ares.search.Query`.

    Returns:
        The hits, which are those that this process would get; None where no dashboard of this version answers, or where
        it reports an error, which the search of this process then shows.
    """
    request = {"version": __version__, "query": dict(query)}
    try:
        path = _socket_path(location, settings)
        if path is None or not path.is_socket():
            return None
        answer = _exchange_lines(path, json.dumps(request).encode() + b"\n")
        from ares.search import Hit

        return [Hit.from_json(hit) for hit in json.loads(answer)["hits"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _exchange_lines(path: Path, line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        connection.connect(str(path))
        connection.sendall(line)
        with connection.makefile("rb") as reader:
            return reader.readline()


@contextmanager
def serve_command_searches(workspace: Workspace) -> Iterator[None]:
    """Answer `ask_dashboard_to_search` until the end of the block; does nothing where there can be no such socket."""
    service = _start_service(workspace)
    try:
        yield
    finally:
        if service:
            service.close()


def _start_service(workspace: Workspace) -> SearchService | None:
    path = _socket_path(workspace.location, workspace.settings, create=True)
    try:
        return None if path is None or _is_served(path) else SearchService(workspace, path)
    except OSError:
        return None


def _socket_path(location: str, settings: Settings, create: bool = False) -> Path | None:
    """Path of the socket of a workspace; None where it would not be private or its path is too long."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    folder = Path(settings.cache).expanduser().absolute() / _FOLDER
    path = folder / f"{hashlib.sha256(location.encode()).hexdigest()[:16]}.sock"
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        return None
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    is_private = status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077
    return path if is_private else None


def _is_served(path: Path) -> bool:
    """Whether a process listens; the socket of a killed one is removed."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.connect(str(path))
        except FileNotFoundError:
            return False
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return False
        except OSError:
            return True
    return True
