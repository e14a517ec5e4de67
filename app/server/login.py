"""Log-in by a password (its form, limits on failed attempts, signed cookies) or by an identity provider."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import logging
import math
import re
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from app.server.protection import (
    PERSON_HEADER,
    Headers,
    OpenSockets,
    change_headers,
    header,
    is_person_name,
    is_request,
    refuse,
    respond,
)
from ares.console import print_message
from ares.errors import RequestError
from ares.imports import EXTRA_MODULES, needs_extra
from ares.io import read_server_address
from ares.settings import is_same_file, keeping_environment

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


# Failures of an address without a wait; then the wait doubles with each, up to the maximum.
FREE_FAILURES, MAX_WAIT_SECONDS = 5, 900.0
# Failures of all addresses together within a minute; addresses that have logged in before are exempt.
MAX_FAILURES_PER_MINUTE = 100
_FORGET_SECONDS = 3600.0
_MAX_ADDRESSES = 10_000


@dataclass(slots=True)
class _Address:
    """What is known of an address."""

    failures: int = 0
    blocked_until: float = 0.0
    last_failure: float = 0.0
    has_logged_in: bool = False


class LoginAttempts:
    """Failed log-ins by address, in bounded memory.

    Args:
        clock: Seconds that only increase.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._recent_failures: deque[float] = deque(maxlen=MAX_FAILURES_PER_MINUTE)

    def wait_seconds(self, address: str) -> float:
        """Return how long an address has to wait before its next attempt; 0 when it may try now."""
        now, entry = self._clock(), self._entry(address)
        wait = max(0.0, entry.blocked_until - now)
        is_full = len(self._recent_failures) == MAX_FAILURES_PER_MINUTE
        if is_full and not entry.has_logged_in:
            wait = max(wait, self._recent_failures[0] + 60.0 - now)
        return wait

    def add_failure(self, address: str) -> int:
        """Record a failed attempt. Returns the failures of the address that are not forgotten."""
        now, entry = self._clock(), self._entry(address)
        entry.failures, entry.last_failure = entry.failures + 1, now
        excess = entry.failures - FREE_FAILURES
        if excess >= 0:
            entry.blocked_until = now + min(2.0 ** min(excess, 20), MAX_WAIT_SECONDS)
        self._recent_failures.append(now)
        return entry.failures

    def add_success(self, address: str, *, forgets: bool = True) -> bool:
        """Record a right password. Returns whether it is the first of the address.

        Args:
            address: Who sent it.
            forgets: Whether the failures of the address are forgotten. With each request of a program another one
                behind its address could guess without end.
        """
        entry = self._entry(address)
        is_first, entry.has_logged_in = not entry.has_logged_in, True
        if forgets:
            entry.failures, entry.blocked_until = 0, 0.0
        return is_first

    def _entry(self, address: str) -> _Address:
        key = group_client_address(address)
        entry = self._addresses.pop(key, None) or _Address()
        if self._clock() - entry.last_failure > _FORGET_SECONDS:
            entry.failures = 0
        self._addresses[key] = entry
        while len(self._addresses) > _MAX_ADDRESSES:
            self._addresses.popitem(last=False)
        return entry


def group_client_address(address: str) -> str:
    """Return an IPv4 address as it is and of an IPv6 address its /64, which one user has; "unknown" for others."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))
    return str(parsed)


# A log-in ends so long after it has begun.
MAX_AGE_SECONDS = 7 * 24 * 3600
_MAX_ENDED = 10_000


class _EndedLogins:
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
_PAGE_HEAD = """<!doctype html>
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
_FORM_PAGE = f"""{_PAGE_HEAD}<main><form class="box" method="post" action="{LOGIN_PATH}"><h1>ARES dashboard</h1>
<input type="hidden" name="next" value="{{next}}">
<input type="password" name="password" aria-label="Password" placeholder="Password"
 autocomplete="current-password" required autofocus>
<button type="submit">Log in</button><p role="alert">{{message}}</p>
</form></main></body></html>
"""
# A link, since the form of a page with our policy may not lead to another server.
_LINK_PAGE = f"""{_PAGE_HEAD}<main class="box"><h1>ARES dashboard</h1>
<a href="{{path}}">Log in</a><p role="alert">{{message}}</p></main></body></html>
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
        self._ended = _EndedLogins()
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
            await _send_redirect(send, "/")
            return
        form = parse_qs((await _read_body(receive)).decode("utf-8", "replace"))
        next_url = _local_url(form.get("next", ["/"])[0])
        wait = self._try(scope, form.get("password", [""])[0].encode())
        if wait is None:
            await _send_redirect(send, next_url, self._new_cookie(scope))
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
        await _send_redirect(send, "/", _cookie_header(scope, "", "; Max-Age=0"))

    def _new_cookie(self, scope: Scope) -> tuple[bytes, bytes]:
        self._end(_login_cookie(scope))
        return _cookie_header(scope, self._signer.sign(secrets.token_urlsafe()).decode())

    def _end(self, cookie: str) -> None:
        if login := self._login_of(cookie):  # what is signed by nobody must not fill the list
            self._ended.add(login)


def _login_cookie(scope: Scope) -> str:
    return _cookies_of(scope).get(_COOKIE, "")


def _cookies_of(scope: Scope) -> dict[str, str]:
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
        await _send_form(send, 401, _requested_url(scope), "")
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


async def _send_redirect(send: Send, url: str, *headers: tuple[bytes, bytes]) -> None:
    location = url.encode("ascii", "ignore")
    await respond(send, 303, b"text/plain", b"", [(b"location", location), *headers])


def _requested_url(scope: Scope) -> str:
    path, query = scope.get("raw_path") or b"/", scope.get("query_string", b"")
    return _local_url(b"?".join(part for part in (path, query) if part).decode("latin-1"))


def _local_url(url: str) -> str:
    """A path of this server with its query; "/" for anything that leads elsewhere."""
    is_path = url.startswith("/") and not url.startswith(("//", "/\\", "/api/"))
    return url if is_path and url.isascii() and url.isprintable() else "/"


def _too_many(wait: float) -> str:
    return f"too many failed log-ins; try again in {math.ceil(wait)} s"


def _retry_after(wait: float) -> list[tuple[bytes, bytes]]:
    return [(b"retry-after", str(math.ceil(wait)).encode())]


# What Streamlit answers itself. What reads its cookie is not public there: after a change nobody could log in.
_USER_COOKIE = "_streamlit_user"
_PROVIDER_LOGIN, _PROVIDER_LOGOUT, _PROVIDER_CALLBACK = "/auth/login", "/auth/logout", "/oauth2callback"
# Says that the server is there, and nothing of the workspace.
_LIFE_PATH = "/_stcore/health"
# The key of [auth] for a provider whose tokens leave out that e-mails are verified, as all are.
_VERIFIES_EMAIL = "provider_verifies_email"
# Also in a file with mistakes elsewhere.
_AUTH_SECTION = re.compile(rb"""^\s*\[?\s*["']?auth["']?\s*[].=]""", re.MULTILINE)
# The page for which a browser is at the provider now.
_NEXT_COOKIE = "ares_next"


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """How people log in by Streamlit's [auth].

    Attributes:
        name: The provider, as Streamlit names it: "default", or the NAME of [auth.NAME].
        secret: What signs the cookies.
        origin: Address of the dashboard, as browsers see it.
        source: The files with the section.
        verifies_email: Whether an e-mail of which the token does not say so is verified.
    """

    name: str
    secret: str
    origin: str
    source: str = ""
    verifies_email: bool = False


def read_identity_provider() -> IdentityProvider | None:
    """What the section [auth] of the user's secrets of Streamlit says; None without one.

    Raises:
        RequestError: The secrets cannot be read, the section lacks something, the extra `login` is not installed, or
            the current folder has a section, which does not count.
    """
    files = _list_user_files()
    if not files or (section := _read_auth_section()) is None:
        return None
    source = " and ".join(files)
    with needs_extra("login", f"[auth] of {source}"):
        for library in EXTRA_MODULES["login"]:
            import_module(library)
    named = [name for name, value in section.items() if isinstance(value, dict) and "client_id" in value]
    if len(named) > 1 or (named and "client_id" in section):
        raise RequestError("[auth] names several identity providers", f"keep one of {', '.join(named)}")
    name, client = (named[0], section[named[0]]) if named else ("default", section)
    if "_" in name:  # Streamlit would not know it again
        raise RequestError("a provider of [auth.NAME] has no underscore in its name", f"got {name!r}")
    lacking = [key for key in ("redirect_uri", "cookie_secret") if not section.get(key)]
    lacking += [key for key in ("client_id", "client_secret", "server_metadata_url") if not client.get(key)]
    if lacking:
        raise RequestError(f"[auth] lacks {', '.join(lacking)}", "docs/people.md has an example")
    secret = str(section["cookie_secret"])
    if len(secret) < 32:  # one that can be guessed lets anybody act in any name
        reason = "cookie_secret of [auth] has fewer than 32 characters"
        raise RequestError(
            reason, "make one by: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    origin = _read_origin(str(section["redirect_uri"]))
    if not isinstance(verifies_email := client.get(_VERIFIES_EMAIL, False), bool):
        raise RequestError(f"{_VERIFIES_EMAIL} of [auth] is neither true nor false", repr(verifies_email))
    print_message(f"people log in by [auth] of {source}")
    return IdentityProvider(name, secret, origin, source, verifies_email)


def _read_origin(redirect_uri: str) -> str:
    """The address of the dashboard, as browsers see it. Raises RequestError where it is not that."""
    try:
        server, parts = read_server_address(redirect_uri), urlsplit(redirect_uri)
    except ValueError as error:
        raise RequestError("redirect_uri of [auth] cannot be read", f"{redirect_uri!r}: {error}") from None
    is_server = parts.scheme in {"http", "https"} and server.host and "{" not in parts.netloc
    if not is_server or parts.path != _PROVIDER_CALLBACK:
        raise RequestError(
            "redirect_uri of [auth] is not the address of the dashboard",
            f"{redirect_uri!r}; it is such as https://ares.example.org{_PROVIDER_CALLBACK}",
        )
    return f"{parts.scheme}://{parts.netloc}"


def _list_user_files() -> list[str]:
    """The secrets in the home of the user, or those that `files` of the config.toml there names.

    From now on Streamlit reads no file of another folder: it could name addresses to be asked, and who logs in.
    """
    from streamlit import config

    list_files: Callable[[str], list[str]] = config.get_config_files
    config.get_config_files = lambda file_name: list_files(file_name)[:1]
    files: list[str] = config.get_option("secrets.files")
    if not all(Path(file).is_absolute() for file in files):
        reason = "config.toml of Streamlit names a file of secrets without its whole path"
        raise RequestError(reason, ", ".join(files))
    for name in ("config.toml", "secrets.toml"):
        path, kept = Path(".streamlit", name).absolute(), config.get_config_files(name)[0]
        if path.is_file() and not any(is_same_file(path, Path(file)) for file in [kept, *files]):
            if name == "secrets.toml" and _AUTH_SECTION.search(path.read_bytes()):
                remedy = f"if it is yours move it to {kept}, else start in another folder"
                raise RequestError(f"{path} is not read, and says by [auth] who logs in", remedy)
            print_message(f"{path} is ignored: only {kept} is read")
    return [file for file in files if Path(file).exists()]


def _read_auth_section() -> dict[str, Any] | None:
    """The section, as Streamlit reads it; None without one."""
    import streamlit as st

    # Streamlit puts the other values of a file there, and jobs would get them.
    with keeping_environment():
        try:
            section = st.secrets.to_dict().get("auth")
        except (OSError, ValueError) as error:
            reason = "secrets.toml of Streamlit cannot be read"
            raise RequestError(reason, " ".join(str(error).split())) from None
    return section if section is None or isinstance(section, dict) else {}


class IdentityLoginMiddleware:
    """Lets pass who has logged in at the identity provider, in the name that its token states; nobody else.

    Streamlit checks the token and puts what it states into a cookie, which it signs.

    Args:
        app: Application that reads `PERSON_HEADER`, with the routes of Streamlit.
        provider: The provider.
    """

    def __init__(self, app: ASGIApp, provider: IdentityProvider) -> None:
        self._app, self._provider = app, provider
        self._sockets = OpenSockets()
        self._ended = _EndedLogins()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, is_http = scope.get("path"), scope["type"] == "http"
        if not is_request(scope) or (is_http and path in {_PROVIDER_LOGIN, _LIFE_PATH}):
            await self._app(scope, receive, send)
        elif is_http and path == LOGIN_PATH:
            await self._send_to_provider(scope, send)
        elif is_http and path == _PROVIDER_CALLBACK:
            await self._app(scope, receive, _send_to_next(scope, send))
        elif is_http and path in {LOGOUT_PATH, _PROVIDER_LOGOUT}:
            await self._log_out(scope, receive, send)
        elif person := _name_person(claims := self._read_claims(scope), self._provider):
            named = {**scope, "headers": [*scope["headers"], (PERSON_HEADER.encode(), person)]}
            is_open = functools.partial(self._read_claims, scope)
            await self._sockets.serve(self._app, named, receive, send, person, is_open)
        else:
            await self._ask_to_log_in(scope, send, claims)

    def _read_claims(self, scope: Scope) -> dict[str, Any]:
        """What the token of a log-in that has not ended states; {} without one."""
        payload = self._read_cookie(scope)
        claims: dict[str, Any] = json.loads(payload) if payload else {}
        is_ours = claims.get("origin") == self._provider.origin and claims.get("is_logged_in") is True
        return claims if is_ours and payload not in self._ended else {}

    def _read_cookie(self, scope: Scope) -> bytes:
        """What Streamlit has signed in the last days, in one cookie or in parts; b"" for anything else."""
        from itsdangerous import BadData, URLSafeTimedSerializer

        cookies, oldest = _cookies_of(scope), MAX_AGE_SECONDS

        def read(name: str) -> str:
            serializer = URLSafeTimedSerializer(self._provider.secret, salt=name)
            return str(serializer.loads(cookies.get(name, ""), max_age=oldest))

        try:
            text = read(_USER_COOKIE)
            if parts := re.fullmatch(r"chunks-(\d+)", text):
                text = "".join(read(f"{_USER_COOKIE}_{number + 1}") for number in range(int(parts[1])))
        except BadData:
            return b""
        return text.encode()

    async def _send_to_provider(self, scope: Scope, send: Send) -> None:
        """Do what `st.login` does: what leads to a provider is signed, and counts for two minutes."""
        from joserfc import jwt
        from joserfc.jwk import OctKey

        claims, key = {"provider": self._provider.name}, OctKey.import_key(self._provider.secret)
        token = jwt.encode({"alg": "HS256"}, {**claims, "exp": int(time.time()) + 120}, key)
        next_url = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("next", ["/"])[0]
        cookie = f"{_NEXT_COOKIE}={quote(_local_url(next_url), safe='')}; Max-Age=600"
        kept = (b"set-cookie", f"{cookie}; HttpOnly; SameSite=Lax; Path=/".encode())
        await _send_redirect(send, f"{_PROVIDER_LOGIN}?{urlencode({'provider': token})}", kept)

    async def _log_out(self, scope: Scope, receive: Receive, send: Send) -> None:
        if header(scope, b"sec-fetch-site") in {"cross-site", "same-site"}:
            await refuse(scope, send, 403, "only a page of this dashboard logs out")
        elif scope["path"] == LOGOUT_PATH:
            await _send_redirect(send, _PROVIDER_LOGOUT)
        else:
            self._ended.add(self._read_cookie(scope))
            self._sockets.close_ended()
            await self._app(scope, receive, send)

    async def _ask_to_log_in(self, scope: Scope, send: Send, claims: dict[str, Any]) -> None:
        """Ask a browser by a page with one button; a program is refused."""
        message = "the provider states no e-mail with email_verified, or no name alone" if claims else ""
        if scope["type"] != "http" or "text/html" not in header(scope, b"accept"):
            reason = message or "log in on a page of the dashboard; its cookie says who acts"
            await refuse(scope, send, 403, reason)
            return
        next_url = _requested_url(scope)
        path = html.escape(f"{self._provider.origin}{LOGIN_PATH}?next={quote(next_url, safe='')}")
        page = _LINK_PAGE.format(message=message, path=path)
        challenge = (b"www-authenticate", b'Form realm="ARES"')
        await respond(send, 401, b"text/html; charset=utf-8", page.encode(), [challenge])


def _name_person(claims: dict[str, Any], provider: IdentityProvider) -> bytes:
    """The verified e-mail; without any e-mail a name that looks like none; b"" for nobody."""
    email, name = str(claims.get("email") or "").strip(), str(claims.get("name") or "").strip()
    is_verified = str(claims.get("email_verified", provider.verifies_email)).lower() == "true"
    unnamed = not is_verified if email else "@" in name
    person = b"" if unnamed else (email or name).encode("utf-8", "replace")
    return person if is_person_name(person) else b""


def _send_to_next(scope: Scope, send: Send) -> Send:
    """Let the answer that ends a log-in lead to where the browser was to go, in place of the first page."""
    next_url = _local_url(unquote(_cookies_of(scope).get(_NEXT_COOKIE, "/")))
    forgotten = (b"set-cookie", f"{_NEXT_COOKIE}=; Max-Age=0; HttpOnly; SameSite=Lax; Path=/".encode())

    def lead_to_next(headers: Headers) -> Headers:
        for name, value in headers:
            yield name, next_url.encode() if (name.lower(), value) == (b"location", b"/") else value
        yield forgotten

    return change_headers(send, lead_to_next)
