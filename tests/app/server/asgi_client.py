"""Sends one request to a middleware in this process, with an application behind it that answers 200."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

Messages = list[dict[str, Any]]


def send_request(
    middleware: Any,
    kind: str,
    headers: Sequence[tuple[str, str]] = (),
    path: str = "/",
    method: str = "GET",
    body: bytes = b"",
    client: str = "192.0.2.7",
    scheme: str = "http",
    query: str = "",
) -> Messages:
    """The messages with which a middleware, or the application behind it, answers."""
    messages: Messages = []

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {
        "type": kind,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "method": method,
        "scheme": scheme,
        "client": (client, 5),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    asyncio.run(middleware(scope, receive, send))
    return messages


async def answer_ok(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers everything with 200."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"secret"})


def status_of(messages: Messages) -> int:
    """Status of a response, or close code of a websocket."""
    return int(messages[0]["status" if "status" in messages[0] else "code"])


def headers_of(messages: Messages) -> dict[str, str]:
    """Headers of a response."""
    return {name.decode(): value.decode() for name, value in messages[0]["headers"]}
