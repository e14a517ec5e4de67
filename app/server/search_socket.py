"""Searches by a running dashboard for commands of the same user: one JSON line there, one back, by a Unix socket.

No web page and no other user reaches the socket: it is a file in a folder that only its owner may enter.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ares import __version__

if TYPE_CHECKING:
    from app.server.search_service import SearchService
    from ares.search import Hit
    from ares.settings import Settings
    from ares.workspace import Workspace

_FOLDER = "dashboards"
# Longer paths of sockets are refused by macOS; Linux allows four more.
_MAX_PATH_BYTES = 103
# A dashboard that is busy for longer is left alone, and the command searches by itself.
_ANSWER_SECONDS = 5.0


def search_by_dashboard(location: str, settings: Settings, query: Mapping[str, object]) -> list[Hit] | None:
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
        answer = _exchange(path, json.dumps(request).encode() + b"\n")
        from ares.search import Hit

        return [Hit.from_json(hit) for hit in json.loads(answer)["hits"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _exchange(path: Path, line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        connection.connect(str(path))
        connection.sendall(line)
        with connection.makefile("rb") as reader:
            return reader.readline()


@contextmanager
def answer_searches(workspace: Workspace) -> Iterator[None]:
    """Answer `search_by_dashboard` until the end of the block; does nothing where there can be no such socket."""
    service = _start_service(workspace)
    try:
        yield
    finally:
        if service:
            service.close()


def _start_service(workspace: Workspace) -> SearchService | None:
    from app.server.search_service import SearchService

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
