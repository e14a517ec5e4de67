"""Which addresses are pages: each gets Streamlit's document, and one that is no page says so on the first page."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from app.server.protection import header, respond

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send


# The parameter of the first page that names a page that does not exist.
UNKNOWN_PAGE = "unknown_page"
BASE_SCRIPT = "/api/base.js"
# Without this, Streamlit asks for its own addresses below the address of the page first, and each is a 404.
_BASE_SCRIPT = "window.__streamlit = { BACKEND_BASE_URL: location.origin };\n"
# Addresses below these are files and messages, also where a person opens one.
_NO_PAGES = ("_stcore/", "api/", "app/", "component/", "media/", "static/")


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
        """The address of a page for another spelling of its own; of the first page, where there is no such page."""
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
