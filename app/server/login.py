"""Log-in beyond loopback: a form for browsers, HTTP Basic for programs, one password for everybody."""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
import logging
import math
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from app.server.login_attempts import LoginAttempts, address_group
from app.server.login_sessions import LoginSessions
from app.server.messages import header, is_request, refuse, respond

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOGIN_PATH, LOGOUT_PATH = "/api/login", "/api/logout"
_COOKIE = "ares_login"
_MAX_FORM_BYTES = 4096
_log = logging.getLogger("ares.login")

_FORM = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>ARES: log in</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; display: grid; place-items: center; min-height: 90vh;
  color: light-dark(#0f172a, #e2e8f0); background: light-dark(#fff, #0f172a); }}
form {{ display: grid; gap: .75rem; width: 18rem; }}
input, button {{ font: inherit; padding: .5rem .75rem; border-radius: .5rem; }}
input {{ border: 1px solid light-dark(#cbd5e1, #475569); }}
button {{ background: #2563eb; border: 1px solid #2563eb; color: white; cursor: pointer; }}
p {{ margin: 0; min-height: 1.5em; color: light-dark(#b91c1c, #fca5a5); }}
</style></head><body>
<form method="post" action="{path}">
<strong>ARES dashboard</strong>
<input type="hidden" name="next" value="{next}">
<input type="password" name="password" aria-label="Password" placeholder="Password"
 autocomplete="current-password" required autofocus>
<button type="submit">Log in</button><p role="alert">{message}</p>
</form></body></html>
"""


class LoginMiddleware:
    """Lets pass who has the password; a cookie carries the log-in to later requests and the websocket.

    Args:
        app: Application behind the check.
        password: The password; compared in constant time.
        attempts: Limit of failed attempts; by default a new one.
    """

    def __init__(self, app: ASGIApp, password: str, attempts: LoginAttempts | None = None) -> None:
        self._app = app
        self._password_digest = _digest(password.encode())
        self._attempts = attempts or LoginAttempts()
        self._sessions = LoginSessions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_request(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == LOGIN_PATH:
            await self._log_in_by_form(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == LOGOUT_PATH:
            await self._log_out(scope, send)
        elif self._sessions.is_open(_token(scope)):
            await self._app(scope, self._until_log_out(scope, receive), send)
        elif header(scope, b"authorization"):
            await self._log_in_by_header(scope, receive, send)
        else:
            await _ask(scope, send)

    def _until_log_out(self, scope: Scope, receive: Receive) -> Receive:
        """The messages of a websocket, which ends with its session; other requests are short."""
        if scope["type"] != "websocket":
            return receive

        async def receive_while_open() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive" and not self._sessions.is_open(_token(scope)):
                return {"type": "websocket.disconnect", "code": 1008}
            return message

        return receive_while_open

    async def _log_in_by_header(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait = self._try(scope, _basic_password(scope))
        if wait is None:
            await self._app(scope, receive, _with_header(send, self._new_cookie(scope)))
        elif wait:
            await refuse(scope, send, 429, _too_many(wait), _retry_after(wait))
        else:
            await _ask(scope, send, "the password is wrong")

    async def _log_in_by_form(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await _redirect(send, "/")
            return
        form = parse_qs((await _read_body(receive)).decode("utf-8", "replace"))
        next_url = _own_url(form.get("next", ["/"])[0])
        wait = self._try(scope, form.get("password", [""])[0].encode())
        if wait is None:
            await _redirect(send, next_url, self._new_cookie(scope))
        elif wait:
            await _send_form(send, 429, next_url, _too_many(wait), _retry_after(wait))
        else:
            await _send_form(send, 401, next_url, "The password is wrong.")

    def _try(self, scope: Scope, password: bytes) -> float | None:
        """Check a password. Returns None when it is right, 0 when it is wrong, else the seconds to wait."""
        address = address_group((scope.get("client") or ("",))[0])
        wait = self._attempts.wait_seconds(address)
        if wait > 0:
            return wait
        if secrets.compare_digest(_digest(password), self._password_digest):
            self._attempts.add_success(address)
            _log.info("log-in from %s", address)
            return None
        failures = self._attempts.add_failure(address)
        pause = self._attempts.wait_seconds(address)
        _log.warning("failed log-in from %s, number %d; next in %.0f s", address, failures, pause)
        return 0.0

    async def _log_out(self, scope: Scope, send: Send) -> None:
        self._sessions.close(_token(scope))
        await _redirect(send, "/", _cookie(scope, "", "; Max-Age=0"))

    def _new_cookie(self, scope: Scope) -> tuple[bytes, bytes]:
        self._sessions.close(_token(scope))
        return _cookie(scope, self._sessions.open())


def _digest(text: bytes) -> bytes:
    """Hash of equal length for all texts, so that a comparison tells nothing of the length."""
    return hashlib.sha256(text).digest()


def _token(scope: Scope) -> str:
    try:
        cookies = SimpleCookie(header(scope, b"cookie"))
    except CookieError:
        return ""
    return cookies[_COOKIE].value if _COOKIE in cookies else ""


def _cookie(scope: Scope, value: str, ending: str = "") -> tuple[bytes, bytes]:
    secure = "; Secure" if scope.get("scheme") in {"https", "wss"} else ""
    return b"set-cookie", f"{_COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/{secure}{ending}".encode()


def _with_header(send: Send, new: tuple[bytes, bytes]) -> Send:
    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), new]}
        await send(message)

    return send_with_header


def _basic_password(scope: Scope) -> bytes:
    scheme, _, value = header(scope, b"authorization").partition(" ")
    try:
        credentials = base64.b64decode(value, validate=True) if scheme.lower() == "basic" else b""
    except (binascii.Error, ValueError):
        return b""
    return credentials.partition(b":")[2]


async def _read_body(receive: Receive) -> bytes:
    """The first bytes of a body; a longer one is no password."""
    body, more = b"", True
    while more and len(body) <= _MAX_FORM_BYTES:
        message = await receive()
        body += message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)
    return body[:_MAX_FORM_BYTES]


async def _ask(scope: Scope, send: Send, reason: str = "a log-in is needed") -> None:
    """Ask a browser by a form, and a program by HTTP Basic."""
    if scope["type"] == "http" and "text/html" in header(scope, b"accept"):
        path, query = scope.get("raw_path") or b"/", scope.get("query_string", b"")
        url = b"?".join(part for part in (path, query) if part).decode("latin-1")
        await _send_form(send, 401, _own_url(url), "")
    else:
        challenge = (b"www-authenticate", b'Basic realm="ARES", charset="UTF-8"')
        await refuse(scope, send, 401, reason, [challenge])


async def _send_form(
    send: Send, status: int, next_url: str, message: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    page = _FORM.format(path=LOGIN_PATH, next=html.escape(next_url), message=html.escape(message))
    # Not Basic: a browser would then show a dialogue of its own, and could not log out.
    challenge = (b"www-authenticate", b'Form realm="ARES"')
    await respond(send, status, b"text/html; charset=utf-8", page.encode(), [challenge, *(headers or [])])


async def _redirect(send: Send, url: str, *headers: tuple[bytes, bytes]) -> None:
    location = url.encode("ascii", "ignore")
    await respond(send, 303, b"text/plain", b"", [(b"location", location), *headers])


def _own_url(url: str) -> str:
    """A path of this server with its query; "/" for anything that leads elsewhere."""
    is_path = url.startswith("/") and not url.startswith(("//", "/\\", "/api/"))
    return url if is_path and url.isascii() and url.isprintable() else "/"


def _too_many(wait: float) -> str:
    return f"too many failed log-ins; try again in {math.ceil(wait)} s"


def _retry_after(wait: float) -> list[tuple[bytes, bytes]]:
    return [(b"retry-after", str(math.ceil(wait)).encode())]
