"""Searches of commands by a running dashboard: its HTTP API on a Unix socket, and the client of `ares search`."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from app.server.protection import VERSION_HEADER
from ares import __version__

if TYPE_CHECKING:
    from ares.search import Hit
    from ares.settings import Settings
    from ares.workspace import Workspace


_FOLDER = "dashboards"
# Longer paths of sockets are refused by macOS; Linux allows four more.
_MAX_PATH_BYTES = 103
# A dashboard that is busy for longer is left alone, and the command searches by itself.
_ANSWER_SECONDS = 5.0
# More at once would delay the pages.
_MAX_SEARCHES = 4


class _SocketConnection(HTTPConnection):
    """HTTP over a Unix socket.

    Args:
        path: Path of the socket.
    """

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket in place of a host."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


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
    try:
        path = _socket_path(location, settings)
        if path is None or not path.is_socket():
            return None
        hits = _read_hits(path, {name: value for name, value in query.items() if value is not None})
        from ares.search import Hit

        return [Hit.from_json(hit) for hit in hits]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return None


def _read_hits(path: Path, query: Mapping[str, object]) -> list[dict[str, Any]]:
    """Ask `GET /search`. Raises ValueError for an error, and for the answer of another version."""
    connection = _SocketConnection(path)
    try:
        connection.request("GET", f"/search?{urlencode(query)}")
        response = connection.getresponse()
        if response.status != 200 or response.headers[VERSION_HEADER] != __version__:
            raise ValueError(f"status {response.status} of version {response.headers[VERSION_HEADER]}")
        hits: list[dict[str, Any]] = json.loads(response.read())["hits"]
        return hits
    finally:
        connection.close()


@contextmanager
def serve_command_searches(workspace: Workspace) -> Iterator[None]:
    """Answer `ask_dashboard_to_search` until the end of the block; does nothing where there can be no such socket."""
    path = _socket_path(workspace.location, workspace.settings, create=True)
    try:
        listener = None if path is None or _is_served(path) else _listen_privately(path)
    except OSError:
        listener = None
    if path is None or listener is None:
        yield
        return
    with listener, _serving_api(workspace, listener):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _listen_privately(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen(32)
    except OSError:
        listener.close()
        raise
    return listener


@contextmanager
def _serving_api(workspace: Workspace, listener: socket.socket) -> Iterator[None]:
    """Serve the API in a thread, without a log-in: only the user of this process reaches the socket."""
    import uvicorn

    from app.server.api import make_api
    from app.server.protection import make_bounded_protocol

    config = uvicorn.Config(
        make_api(workspace, files_allowed=True), log_level="critical", lifespan="off", ws="none",
        limit_concurrency=_MAX_SEARCHES + 1, http=make_bounded_protocol(), timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="search-socket", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


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
