"""Guards before every page, route and websocket: which hosts may be named, and a login beyond loopback."""

from __future__ import annotations

import base64
import binascii
import secrets
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_COOKIE = "ares_login"


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine only."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class SameSite:
    """Refuses requests that a foreign page has sent: a wrong Origin, or (on loopback) a Host that is a rebound name.

    Args:
        app: What is guarded.
        loopback_only: Whether only names of this machine may be asked for.
    """

    def __init__(self, app: ASGIApp, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or self._allowed(scope):
            await self._app(scope, receive, send)
        else:
            await _refuse(scope, send, 403, "this address does not serve the page that asked")

    def _allowed(self, scope: Scope) -> bool:
        host = _header(scope, b"host")
        origin = _header(scope, b"origin")
        if self._loopback_only and not is_loopback(urlsplit(f"//{host}").hostname or ""):
            return False
        return not origin or urlsplit(origin).netloc == host


class Login:
    """HTTP Basic login with one password and any user name; a cookie carries it to the websocket.

    Args:
        app: What is guarded.
        password: The password; compared in constant time.
    """

    def __init__(self, app: ASGIApp, password: str) -> None:
        self._app = app
        self._password = password.encode()
        self._token = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or self._by_cookie(scope):
            await self._app(scope, receive, send)
        elif self._by_password(scope):
            await self._app(scope, receive, self._with_cookie(send))
        else:
            await _refuse(scope, send, 401, "a login is needed")

    def _by_cookie(self, scope: Scope) -> bool:
        pairs = (part.strip().partition("=") for part in _header(scope, b"cookie").split(";"))
        return any(
            name == _COOKIE and _same(value.encode(), self._token.encode()) for name, _, value in pairs
        )

    def _by_password(self, scope: Scope) -> bool:
        scheme, _, value = _header(scope, b"authorization").partition(" ")
        try:
            given = base64.b64decode(value, validate=True) if scheme.lower() == "basic" else b""
        except binascii.Error:
            return False
        return _same(given.partition(b":")[2], self._password)

    def _with_cookie(self, send: Send) -> Send:
        cookie = f"{_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/".encode()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), (b"set-cookie", cookie)]}
            await send(message)

        return sending


def _same(given: bytes, expected: bytes) -> bool:
    return secrets.compare_digest(given, expected)


def _header(scope: Scope, name: bytes) -> str:
    found = (value for key, value in scope["headers"] if key == name)
    return next(found, b"").decode("latin-1")


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="ARES", charset="UTF-8"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})
