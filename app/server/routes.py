"""Routes of the page itself: its addresses, its base script, and what has changed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ares.errors import AresError
from ares_app.server.protection import header, respond

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.websockets import WebSocket

    from ares.episode import Json

# The parameter of the first page that names a page that does not exist.
UNKNOWN_PAGE = "unknown_page"
BASE_SCRIPT = "/api/base.js"
# Without this, Streamlit asks for its addresses below the address of the page first, and each is a 404.
# It also writes the parameters of the next page into the address of this one before it opens that: the button "back"
# of the browser would lead to an address that no page has.
_BASE_SCRIPT = """window.__streamlit = { BACKEND_BASE_URL: location.origin };
const push = history.pushState.bind(history);
let pushed = "";
history.pushState = (state, title, url) => {
  const to = new URL(url ?? "", location.href);
  const isNextPage = pushed === location.href && to.search === location.search && to.pathname !== location.pathname;
  if (isNextPage) history.replaceState(state, title, url);
  else push(state, title, url);
  pushed = location.href;
};
"""
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
