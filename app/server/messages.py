"""Pieces of ASGI messages that the middlewares share: headers of a request, and refusals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope, Send

Headers = Iterable[tuple[bytes, bytes]]


def header(scope: Scope, name: bytes) -> str:
    """Return the first header of a request with that name in lower case, or ""."""
    values = (value for key, value in scope["headers"] if key == name)
    return next(values, b"").decode("latin-1")


def is_request(scope: Scope) -> bool:
    """Return whether a scope is a request or a websocket, not an event of the server's life."""
    return scope["type"] in {"http", "websocket"}


async def refuse(scope: Scope, send: Send, status: int, reason: str, headers: Headers = ()) -> None:
    """Answer with one line of text; a websocket is closed instead."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
        return
    await respond(send, status, b"text/plain; charset=utf-8", f"{reason}\n".encode(), headers)


async def respond(send: Send, status: int, content_type: bytes, body: bytes, headers: Headers = ()) -> None:
    """Send a whole response."""
    own = [(b"content-type", content_type), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": body})
