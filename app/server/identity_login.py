"""Log-in by an identity provider, as Streamlit's [auth] section describes it."""

from __future__ import annotations

import functools
import html
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from ares.console import print_message
from ares.errors import RequestError
from ares.imports import EXTRA_MODULES, needs_extra
from ares.io import read_server_address
from ares.settings import is_same_file, keeping_environment
from ares_app.server.protection import (
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

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send
from ares_app.server.login import (
    LOGIN_PATH,
    LOGOUT_PATH,
    MAX_AGE_SECONDS,
    PAGE_HEAD,
    EndedLogins,
    local_url,
    read_cookies,
    requested_url,
    send_redirect,
)

# A link, since the form of a page with our policy may not lead to another server.
_LINK_PAGE = f"""{PAGE_HEAD}<main class="box"><h1>ARES dashboard</h1>
<a href="{{path}}">Log in</a><p role="alert">{{message}}</p></main></body></html>
"""

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
        self._ended = EndedLogins()

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

        cookies, oldest = read_cookies(scope), MAX_AGE_SECONDS

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
        cookie = f"{_NEXT_COOKIE}={quote(local_url(next_url), safe='')}; Max-Age=600"
        kept = (b"set-cookie", f"{cookie}; HttpOnly; SameSite=Lax; Path=/".encode())
        await send_redirect(send, f"{_PROVIDER_LOGIN}?{urlencode({'provider': token})}", kept)

    async def _log_out(self, scope: Scope, receive: Receive, send: Send) -> None:
        if header(scope, b"sec-fetch-site") in {"cross-site", "same-site"}:
            await refuse(scope, send, 403, "only a page of this dashboard logs out")
        elif scope["path"] == LOGOUT_PATH:
            await send_redirect(send, _PROVIDER_LOGOUT)
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
        next_url = requested_url(scope)
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
    next_url = local_url(unquote(read_cookies(scope).get(_NEXT_COOKIE, "/")))
    forgotten = (b"set-cookie", f"{_NEXT_COOKIE}=; Max-Age=0; HttpOnly; SameSite=Lax; Path=/".encode())

    def lead_to_next(headers: Headers) -> Headers:
        for name, value in headers:
            yield name, next_url.encode() if (name.lower(), value) == (b"location", b"/") else value
        yield forgotten

    return change_headers(send, lead_to_next)
