"""Who may send requests: this machine's own pages, and beyond loopback users with the password."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import pytest

from app.server.auth import LoginMiddleware, SameOriginMiddleware, is_loopback


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_which_hosts_are_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def _send(middleware: Any, kind: str, headers: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Messages with which a middleware, or the application behind it, answers a request."""
    messages: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    scope = {"type": kind, "headers": [(name.encode(), value.encode()) for name, value in headers]}
    asyncio.run(middleware(scope, None, send))
    return messages


async def _application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def _status(messages: list[dict[str, Any]]) -> int:
    return int(messages[0]["status" if "status" in messages[0] else "code"])


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_login_guards_pages_and_websockets(kind: str) -> None:
    middleware = LoginMiddleware(_application, password="s3cret")
    refused = 401 if kind == "http" else 1008
    wrong, right = (base64.b64encode(f"me:{word}".encode()).decode() for word in ("s3cre", "s3cret"))
    assert _status(_send(middleware, kind, [])) == refused
    assert _status(_send(middleware, kind, [("authorization", f"Basic {wrong}")])) == refused
    assert _status(_send(middleware, kind, [("authorization", "Basic ***")])) == refused
    assert _status(_send(middleware, kind, [("cookie", "ares_login=guess")])) == refused
    messages = _send(middleware, kind, [("authorization", f"Basic {right}")])
    assert _status(messages) == 200
    cookie = dict(messages[0]["headers"])[b"set-cookie"].decode().split(";")[0]
    assert _status(_send(middleware, kind, [("cookie", f"other=1; {cookie}")])) == 200


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ([("host", "127.0.0.1:8501")], True),
        ([("host", "localhost:9"), ("origin", "http://localhost:9")], True),
        ([("host", "rebound.example:8501")], False),
        ([("host", "localhost:8501"), ("origin", "http://evil.example")], False),
        ([("host", "localhost:8501"), ("origin", "null")], False),
    ],
)
def test_foreign_pages_and_rebound_names_are_refused(headers: list[tuple[str, str]], passes: bool) -> None:
    for kind in ("http", "websocket"):
        messages = _send(SameOriginMiddleware(_application, loopback_only=True), kind, headers)
        assert (_status(messages) == 200) is passes
