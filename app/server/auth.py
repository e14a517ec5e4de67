"""Access control of every page, route and websocket: allowed host names, and a login beyond loopback."""

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
    """Whether a host name or address refers to this machine only."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class SameOriginMiddleware:
    """Refuses requests sent by foreign pages: a wrong Origin, or on loopback a Host that is not this machine.

    The second protects from DNS rebinding.

    Args:
        app: Application behind the check.
        loopback_only: Whether the Host must be a name of this machine.
    """

    def __init__(self, app: ASGIApp, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or self._is_allowed(scope):
            await self._app(scope, receive, send)
        else:
            await _refuse(scope, send, 403, "requests from this page or host are not allowed")

    def _is_allowed(self, scope: Scope) -> bool:
        host = _header(scope, b"host")
        origin = _header(scope, b"origin")
        if self._loopback_only and not is_loopback(urlsplit(f"//{host}").hostname or ""):
            return False
        return not origin or urlsplit(origin).netloc == host


class LoginMiddleware:
    """HTTP Basic login with one password and any user name; a cookie carries the login to the websocket.

    Args:
        app: Application behind the check.
        password: The password; compared in constant time.
    """

    def __init__(self, app: ASGIApp, password: str) -> None:
        self._app = app
        self._password = password.encode()
        self._token = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or self._has_login_cookie(scope):
            await self._app(scope, receive, send)
        elif self._has_password(scope):
            await self._app(scope, receive, self._with_cookie(send))
        else:
            await _refuse(scope, send, 401, "a login is needed")

    def _has_login_cookie(self, scope: Scope) -> bool:
        pairs = (part.strip().partition("=") for part in _header(scope, b"cookie").split(";"))
        return any(
            name == _COOKIE and _equal(value.encode(), self._token.encode()) for name, _, value in pairs
        )

    def _has_password(self, scope: Scope) -> bool:
        scheme, _, value = _header(scope, b"authorization").partition(" ")
        try:
            credentials = base64.b64decode(value, validate=True) if scheme.lower() == "basic" else b""
        except binascii.Error:
            return False
        return _equal(credentials.partition(b":")[2], self._password)

    def _with_cookie(self, send: Send) -> Send:
        cookie = f"{_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/".encode()

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), (b"set-cookie", cookie)]}
            await send(message)

        return send_with_cookie


def _equal(received: bytes, expected: bytes) -> bool:
    """Compare in constant time."""
    return secrets.compare_digest(received, expected)


def _header(scope: Scope, name: bytes) -> str:
    values = (value for key, value in scope["headers"] if key == name)
    return next(values, b"").decode("latin-1")


async def _refuse(scope: Scope, send: Send, status: int, reason: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="ARES", charset="UTF-8"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{reason}\n".encode()})
