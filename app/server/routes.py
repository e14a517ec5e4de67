"""Routes of the server: pages, videos, posters, and the order of a page's messages.

A browser's messages reach Streamlit one at a time: each when the reactions to the one before have run. For every
message Streamlit ends the script of the one before, also before or within its reactions: the click that it brought
would be lost, and the address that it has written could be undone by the end of the older script.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from app.server.protection import header, respond
from ares.errors import AresError, RequestError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from starlette.websockets import WebSocket

    from ares.episode import Camera, Episode, Json
    from ares.store import Stores

# The parameter of the first page that names a page that does not exist.
UNKNOWN_PAGE = "unknown_page"
BASE_SCRIPT = "/api/base.js"
# Without this, Streamlit asks for its addresses below the address of the page first, and each is a 404.
_BASE_SCRIPT = "window.__streamlit = { BACKEND_BASE_URL: location.origin };\n"
# Addresses that begin so are files, messages and steps of a log-in, also where a person opens one.
_NO_PAGES = ("_stcore/", "api/", "app/", "auth/", "component/", "media/", "oauth2callback", "static/")


class PageAddressMiddleware:
    """Answers requests of browsers for documents.

    Args:
        app: Application that answers all others.
        names: Names of the pages; the first page has the name "" too.
        first: Name of the first page.
    """

    def __init__(self, app: ASGIApp, names: Collection[str], first: str) -> None:
        self._app, self._names, self._first = app, frozenset(names), first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        if not _is_document(scope, path.lstrip("/")):
            await self._app(scope, receive, send)
        elif path == "/" or path[1:] in self._names - {self._first}:
            await respond(
                send, 200, b"text/html; charset=utf-8", _page_document(), [(b"cache-control", b"no-cache")]
            )
        else:
            location = self._known_address(path.strip("/"), scope.get("query_string", b""))
            await respond(send, 303, b"text/plain", b"", [(b"location", location)])

    def _known_address(self, name: str, query: bytes) -> bytes:
        """The address of a page for another spelling of it; of the first page, where there is no such page."""
        if name in ("", self._first):
            return b"/?" + query
        if name in self._names:
            return f"/{name}?".encode() + query
        return f"/?{urlencode({UNKNOWN_PAGE: name[:100]})}".encode()


def _is_document(scope: Scope, name: str) -> bool:
    """Whether a browser asks for a page, to judge by what it says that it wants."""
    if scope["type"] != "http" or scope["method"] != "GET" or name.startswith(_NO_PAGES):
        return False
    requested = header(scope, b"sec-fetch-dest")
    return requested == "document" or (not requested and "text/html" in header(scope, b"accept"))


@cache
def _page_document() -> bytes:
    """The document of Streamlit, which loads our script first."""
    import streamlit

    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_bytes()
    return page.replace(b"<script", f'<script src="{BASE_SCRIPT}"></script>\n    <script'.encode(), 1)


async def answer_base_script(request: Request) -> Response:
    """The script that tells Streamlit where its server is."""
    from starlette.responses import Response

    return Response(_BASE_SCRIPT, media_type="text/javascript")


Endpoint = Callable[["Request"], Awaitable["Response"]]

_EPISODE_ID = re.compile(r"[0-9a-f]{16}")
# The URL (`app.dashboard.cards`) has the content's hash, so what a browser caches never goes stale.
_CACHE_HEADERS = {"Cache-Control": "private, max-age=86400"}
_MIN_WIDTH, _MAX_WIDTH = (64, 1280)
# A transcode occupies a thread for seconds; more at once would delay the posters.
_MAX_THREADS = 4


def build_media_routes(stores: Stores) -> list[BaseRoute]:
    """Return the routes of a workspace, all under /api/ (Streamlit reserves the other prefixes)."""
    from anyio import CapacityLimiter
    from starlette.routing import Route

    limiter = CapacityLimiter(_MAX_THREADS)
    video = _file_endpoint(partial(_make_video, stores), "video/mp4", limiter)
    poster = _file_endpoint(partial(_make_poster, stores), "image/jpeg", limiter)
    return [
        Route("/api/health", _health_endpoint(stores)),
        Route(BASE_SCRIPT, answer_base_script),
        Route("/api/media/{episode}/{camera:path}.mp4", video),
        Route("/api/thumb/{episode}/{camera:path}.jpg", poster),
    ]


def _health_endpoint(stores: Stores) -> Endpoint:
    async def health(request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse({"status": "ok", "workspace": stores.workspace_id})

    return health


def _file_endpoint(make_file: Callable[[Request], Path], media_type: str, limiter: object) -> Endpoint:
    async def answer(request: Request) -> Response:
        from anyio import to_thread
        from starlette.responses import FileResponse, PlainTextResponse

        try:
            path = await to_thread.run_sync(make_file, request, limiter=limiter)  # type: ignore[arg-type]
        except RequestError as error:
            return PlainTextResponse(f"{error}\n", status_code=404)
        except AresError as error:
            return PlainTextResponse(f"{error}\n", status_code=422)
        return FileResponse(path, media_type=media_type, headers=_CACHE_HEADERS)

    return answer


def _make_video(stores: Stores, request: Request) -> Path:
    from ares.media import browser_video

    _, camera = _find_camera(stores, request)
    return browser_video(camera.media, "h264", stores.media_cache)


def _make_poster(stores: Stores, request: Request) -> Path:
    from ares.clock import camera_seconds
    from ares.media import thumbnail

    episode, camera = _find_camera(stores, request)
    second = _number_parameter(request, "t", episode.duration_seconds / 2)
    second = min(max(second, 0.0), episode.duration_seconds)
    width = int(min(max(_number_parameter(request, "width", 384), _MIN_WIDTH), _MAX_WIDTH))
    trajectories = stores.tables.trajectories
    (shown,) = camera_seconds(
        episode, camera, [second], lambda: trajectories.get(episode.episode_id).timestamps
    )
    return thumbnail(camera.media, shown, width, stores.media_cache)


def _find_camera(stores: Stores, request: Request) -> tuple[Episode, Camera]:
    episode_id = request.path_params["episode"]
    if not _EPISODE_ID.fullmatch(episode_id):
        raise RequestError("not an episode id", "an id is 16 hex digits")
    episode = stores.tables.episodes.get_episode(episode_id)
    return episode, episode.camera(request.path_params["camera"])


def _number_parameter(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise RequestError(f"{name} is not a number", f"{text!r}")
    return value


# Header of a websocket that says which one it is; a script reads it, a browser cannot set it.
CONNECTION_HEADER = "x-ares-connection"
# A click in a part of the page that has gone meanwhile is followed by no script. The next message waits this long.
_MOST_WAIT_SECONDS = 10.0

_numbers = count(1)
# By connection: what lets its next message pass.
_releases: dict[str, Callable[[], None]] = {}


def release_next_message(connection: str) -> None:
    """Let the next message of a connection pass, from any thread: the reactions to the last one have run.

    Args:
        connection: The header of its websocket; unknown for one that is closed.
    """
    if release := _releases.get(connection):
        release()


class MessageOrderMiddleware:
    """Holds back the messages of each websocket until the application has run the reactions to the one before.

    Args:
        app: Application that calls `release_next_message` when it has.
        most_wait_seconds: A message waits no longer.
    """

    def __init__(self, app: ASGIApp, most_wait_seconds: float = _MOST_WAIT_SECONDS) -> None:
        self._app, self._most_wait_seconds = app, most_wait_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        loop, is_free, connection = asyncio.get_running_loop(), asyncio.Event(), str(next(_numbers))
        is_free.set()

        async def receive_next() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_free.wait(), self._most_wait_seconds)
                if _is_followed_by_script(message.get("bytes") or b""):
                    is_free.clear()
            return message

        _releases[connection] = lambda: _set_from_thread(loop, is_free)
        try:
            await self._app(_named_scope(scope, connection), receive_next, send)
        finally:
            del _releases[connection]


def _set_from_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the server has ended, and its loop with it
        loop.call_soon_threadsafe(event.set)


def _named_scope(scope: Scope, connection: str) -> Scope:
    """The scope with the number of the connection, and with no header of a browser that looks like it."""
    name = CONNECTION_HEADER.encode()
    others = [(key, value) for key, value in scope["headers"] if key.lower() != name]
    return {**scope, "headers": [*others, (name, connection.encode())]}


def _is_followed_by_script(data: bytes) -> bool:
    """Whether a message is a click or a new address; what a part of the page sends by itself every second is none."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from streamlit.proto.BackMsg_pb2 import BackMsg

    try:
        message = BackMsg.FromString(data)
    except DecodeError:  # no message of Streamlit, which says so
        return False
    return message.HasField("rerun_script") and not message.rerun_script.is_auto_rerun


CHANGES_ADDRESS = "/api/changes"
# How often a change is looked for; all pages share one look.
_SECONDS = 1.0

State = Mapping[str, "Json"]


class _SharedState:
    """The newest state, read once for all sockets.

    Args:
        read: Reads it; raises AresError where the store does not answer, which changes nothing.
    """

    def __init__(self, read: Callable[[], State]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._state: State = {}
        self._read_at = 0.0

    def get(self) -> State:
        """The state, at most `_SECONDS` old."""
        with self._lock:
            if time.monotonic() - self._read_at >= _SECONDS:
                with suppress(AresError):
                    self._state = self._read()
                self._read_at = time.monotonic()
            return self._state


def build_changes_route(read: Callable[[], State]) -> BaseRoute:
    """The route of the socket.

    Args:
        read: Reads the state, a small JSON object.
    """
    from starlette.routing import WebSocketRoute

    shared = _SharedState(read)

    async def answer(socket: WebSocket) -> None:
        await socket.accept()
        watching = asyncio.create_task(_send_changes(socket, shared))
        try:
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass  # a page says nothing here
        finally:
            watching.cancel()

    return WebSocketRoute(CHANGES_ADDRESS, answer)


async def _send_changes(socket: WebSocket, shared: _SharedState) -> None:
    from anyio import to_thread

    sent: State | None = None
    while True:
        state = await to_thread.run_sync(shared.get)
        if state != sent:
            await socket.send_json(state)
            sent = state
        await asyncio.sleep(_SECONDS)
