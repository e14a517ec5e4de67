"""Log-in by a password: its form and its signed cookies."""

from __future__ import annotations

import base64
import hashlib
import html
import logging
import math
import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from ares_app.server.login_attempts import LoginAttempts, group_client_address
from ares_app.server.protection import (
    OpenSockets,
    header,
    is_request,
    refuse,
    respond,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


# A log-in ends so long after it has begun.
MAX_AGE_SECONDS = 7 * 24 * 3600
_MAX_ENDED = 10_000


class EndedLogins:
    """Hashes of the log-ins that have ended: nobody can use a copy of the cookie. The newest are kept."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[bytes, None] = OrderedDict()

    def add(self, login: str | bytes) -> None:
        self._hashes[_hash_secret(login)] = None
        if len(self._hashes) > _MAX_ENDED:
            self._hashes.popitem(last=False)

    def __contains__(self, login: str | bytes) -> bool:
        return _hash_secret(login) in self._hashes


def _hash_secret(secret: str | bytes) -> bytes:
    """A hash, of equal length for all texts, so that a comparison tells nothing of the length."""
    data = secret if isinstance(secret, bytes) else secret.encode("utf-8", "replace")
    return hashlib.sha256(data).digest()


LOGIN_PATH, LOGOUT_PATH = "/api/login", "/api/logout"
_COOKIE = "ares_login"
_NO_PASSWORD = "a program sends the password with each request"
_MAX_FORM_BYTES = 4096
_log = logging.getLogger("ares.login")

# Pages with one form or link, which need nothing else of this server.
PAGE_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>ARES: log in</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; display: grid; place-items: center; min-height: 90vh;
  color: light-dark(#0f172a, #e2e8f0); background: light-dark(#fff, #0f172a); }}
.box {{ display: grid; gap: .75rem; width: min(90vw, 18rem); overflow-wrap: anywhere; }}
h1 {{ font-size: 1rem; margin: 0; }}
input, button, a {{ font: inherit; padding: .5rem .75rem; border-radius: .5rem; }}
input {{ border: 1px solid light-dark(#cbd5e1, #475569); }}
button, a {{ background: #2563eb; border: 1px solid #2563eb; color: white; cursor: pointer; }}
a {{ text-align: center; text-decoration: none; }}
p {{ margin: 0; }}
[role=alert] {{ min-height: 1.5em; color: light-dark(#b91c1c, #fca5a5); }}
</style></head><body>
"""
_FORM_PAGE = f"""{PAGE_HEAD}<main><form class="box" method="post" action="{LOGIN_PATH}"><h1>ARES dashboard</h1>
<input type="hidden" name="next" value="{{next}}">
<input type="password" name="password" aria-label="Password" placeholder="Password"
 autocomplete="current-password" required autofocus>
<button type="submit">Log in</button><p role="alert">{{message}}</p>
</form></main></body></html>
"""


class LoginMiddleware:
    """Lets pass who has the password; a signed cookie carries the log-in to later requests and the websocket.

    The key that signs is new in each process, which so ends all log-ins of the one before.

    Args:
        app: Application behind the check.
        password: The password; compared in constant time.
        attempts: Limit of failed attempts; by default a new one.
    """

    def __init__(self, app: ASGIApp, password: str, attempts: LoginAttempts | None = None) -> None:
        from itsdangerous import TimestampSigner

        self._app = app
        self._password_digest = _hash_secret(password)
        self._attempts = attempts or LoginAttempts()
        self._signer = TimestampSigner(secrets.token_bytes(32))
        self._ended = EndedLogins()
        self._sockets = OpenSockets()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_request(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == LOGIN_PATH:
            await self._log_in_by_form(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == LOGOUT_PATH:
            await self._log_out(scope, send)
        elif login := self._login_of(cookie := _login_cookie(scope)):
            await self._sockets.serve(
                self._app, scope, receive, send, login, lambda: bool(self._login_of(cookie))
            )
        elif header(scope, b"authorization").lower().startswith("basic "):
            await self._log_in_by_header(scope, receive, send)
        else:
            await _ask_to_log_in(scope, send)

    async def _log_in_by_header(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait = self._try(scope, _basic_password(scope), by_form=False)
        if wait is None:
            await self._sockets.serve(self._app, scope, receive, send, "HTTP Basic", lambda: True)
        elif wait:
            await refuse(scope, send, 429, _too_many(wait), _retry_after(wait))
        else:
            await _ask_to_log_in(scope, send, "the password is wrong")

    async def _log_in_by_form(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await send_redirect(send, "/")
            return
        form = parse_qs((await _read_body(receive)).decode("utf-8", "replace"))
        next_url = local_url(form.get("next", ["/"])[0])
        wait = self._try(scope, form.get("password", [""])[0].encode())
        if wait is None:
            await send_redirect(send, next_url, self._new_cookie(scope))
        elif wait:
            await _send_form(send, 429, next_url, _too_many(wait), _retry_after(wait))
        else:
            await _send_form(send, 401, next_url, "The password is wrong.")

    def _try(self, scope: Scope, password: bytes, *, by_form: bool = True) -> float | None:
        """Check a password. Returns None when it is right, 0 when it is wrong, else the seconds to wait."""
        address = group_client_address((scope.get("client") or ("",))[0])
        wait = self._attempts.wait_seconds(address)
        if wait > 0:
            return wait
        if secrets.compare_digest(_hash_secret(password), self._password_digest):
            if self._attempts.add_success(address, forgets=by_form) or by_form:
                _log.info("log-in from %s", address)
            return None
        failures = self._attempts.add_failure(address)
        pause = self._attempts.wait_seconds(address)
        _log.warning("failed log-in from %s, number %d; next in %.0f s", address, failures, pause)
        return 0.0

    def _login_of(self, cookie: str) -> bytes:
        """What was signed, as several texts of a signature are the same; nothing where the log-in is not open."""
        from itsdangerous import BadData

        try:
            login = self._signer.unsign(cookie, max_age=MAX_AGE_SECONDS)
        except BadData:
            return b""
        return b"" if login in self._ended else login

    async def _log_out(self, scope: Scope, send: Send) -> None:
        self._end(_login_cookie(scope))
        self._sockets.close_ended()
        await send_redirect(send, "/", _cookie_header(scope, "", "; Max-Age=0"))

    def _new_cookie(self, scope: Scope) -> tuple[bytes, bytes]:
        self._end(_login_cookie(scope))
        return _cookie_header(scope, self._signer.sign(secrets.token_urlsafe()).decode())

    def _end(self, cookie: str) -> None:
        if login := self._login_of(cookie):  # what is signed by nobody must not fill the list
            self._ended.add(login)


def _login_cookie(scope: Scope) -> str:
    return read_cookies(scope).get(_COOKIE, "")


def read_cookies(scope: Scope) -> dict[str, str]:
    from starlette.requests import cookie_parser

    return cookie_parser(header(scope, b"cookie"))


def _cookie_header(scope: Scope, value: str, ending: str = "") -> tuple[bytes, bytes]:
    secure = "; Secure" if scope.get("scheme") in {"https", "wss"} else ""
    return b"set-cookie", f"{_COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/{secure}{ending}".encode()


def _basic_password(scope: Scope) -> bytes:
    scheme, _, value = header(scope, b"authorization").partition(" ")
    try:
        credentials = base64.b64decode(value, validate=True) if scheme.lower() == "basic" else b""
    except ValueError:
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


async def _ask_to_log_in(scope: Scope, send: Send, reason: str = _NO_PASSWORD) -> None:
    """Ask a browser by a form, and a program by HTTP Basic."""
    if scope["type"] == "http" and "text/html" in header(scope, b"accept"):
        await _send_form(send, 401, requested_url(scope), "")
    else:
        challenge = (b"www-authenticate", b'Basic realm="ARES", charset="UTF-8"')
        await refuse(scope, send, 401, reason, [challenge])


async def _send_form(
    send: Send, status: int, next_url: str, message: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    page = _FORM_PAGE.format(next=html.escape(next_url), message=html.escape(message))
    # Not Basic: a browser would then show a dialogue, and could not log out.
    challenge = (b"www-authenticate", b'Form realm="ARES"')
    await respond(send, status, b"text/html; charset=utf-8", page.encode(), [challenge, *(headers or [])])


async def send_redirect(send: Send, url: str, *headers: tuple[bytes, bytes]) -> None:
    location = url.encode("ascii", "ignore")
    await respond(send, 303, b"text/plain", b"", [(b"location", location), *headers])


def requested_url(scope: Scope) -> str:
    path, query = scope.get("raw_path") or b"/", scope.get("query_string", b"")
    return local_url(b"?".join(part for part in (path, query) if part).decode("latin-1"))


def local_url(url: str) -> str:
    """A path of this server with its query; "/" for anything that leads elsewhere."""
    is_path = url.startswith("/") and not url.startswith(("//", "/\\", "/api/"))
    return url if is_path and url.isascii() and url.isprintable() else "/"


def _too_many(wait: float) -> str:
    return f"too many failed log-ins; try again in {math.ceil(wait)} s"


def _retry_after(wait: float) -> list[tuple[bytes, bytes]]:
    return [(b"retry-after", str(math.ceil(wait)).encode())]
