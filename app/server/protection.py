"""Which requests are refused: Host, Origin, and people that a proxy names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ares.errors import RequestError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


Headers = Iterable[tuple[bytes, bytes]]
IsOpen = Callable[[], object]
# Of every answer of the HTTP API: a client of another version would read it wrongly.
VERSION_HEADER = "x-ares-version"
# Of an answer whose tables lack something of the log, in a line of ASCII.
LAG_HEADER = "x-ares-lag"
# The code of a websocket that is closed, or not opened, by these rules.
POLICY_VIOLATION = 1008


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
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason})
        return
    await respond(send, status, b"text/plain; charset=utf-8", f"{reason}\n".encode(), headers)


def change_headers(send: Send, change: Callable[[Headers], Headers]) -> Send:
    """What sends the messages of a response with other headers."""

    async def send_changed(message: Message) -> None:
        if message["type"] in {"http.response.start", "websocket.http.response.start"}:
            message = {**message, "headers": [*change(message.get("headers", ()))]}
        await send(message)

    return send_changed


async def respond(send: Send, status: int, content_type: bytes, body: bytes, headers: Headers = ()) -> None:
    """Send a whole response."""
    basic = [(b"content-type", content_type), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*basic, *headers]})
    await send({"type": "http.response.body", "body": body})


def is_loopback(host: str) -> bool:
    """Whether a host name or address refers to this machine only."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


# Websockets of one person that are open at once; each page has two.
MOST_SOCKETS = 64


class OpenSockets:
    """The open websockets of people: so many of each at most, and those of a log-in end with it."""

    def __init__(self) -> None:
        # By the event that closes it: the person, and whether the log-in is open.
        self._open: dict[asyncio.Event, tuple[object, IsOpen]] = {}

    async def serve(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, person: object, is_open: IsOpen
    ) -> None:
        """Let an application answer a websocket while its log-in is open, and any other request as it is.

        Args:
            app: The application.
            scope: The request.
            receive: What it receives from.
            send: What it sends to.
            person: Who sends the request; empty where nobody says it, and for the user of this server.
            is_open: Whether the log-in is open still.
        """
        if scope["type"] != "websocket" or not person:
            await app(scope, receive, send)
            return
        if sum(owner == person for owner, _ in self._open.values()) >= MOST_SOCKETS:
            await refuse(scope, send, 429, f"one person has {MOST_SOCKETS} open websockets at most")
            return

        async def send_while_open(message: Message) -> None:
            if not ended.is_set():
                await send(message)

        async def receive_while_open() -> Message:
            message = await receive()
            return message if is_open() else {"type": "websocket.disconnect", "code": POLICY_VIOLATION}

        ended = asyncio.Event()
        self._open[ended] = (person, is_open)
        closing = asyncio.create_task(_close_at(ended, send))
        try:
            await app(scope, receive_while_open, send_while_open)
        finally:
            closing.cancel()
            del self._open[ended]

    def close_ended(self) -> None:
        """Close the websockets of log-ins that have ended: they send and receive nothing more."""
        for ended, (_, is_open) in self._open.items():
            if not is_open():
                ended.set()


async def _close_at(ended: asyncio.Event, send: Send) -> None:
    """Close a websocket, whatever its application does at that time."""
    await ended.wait()
    with suppress(OSError, RuntimeError):  # it is closed already
        await send({"type": "websocket.close", "code": POLICY_VIOLATION})


# What a log-in proxy says of the person, and how pages get it; a browser cannot set the second.
_PROXY_PERSON, PERSON_HEADER = b"x-forwarded-user", "x-ares-person"
MOST_NAME = 100


class ProxyPersonMiddleware:
    """Passes on the name of the person that a log-in proxy has logged in; of other addresses no name counts.

    Args:
        app: Application that reads `PERSON_HEADER`.
        networks: The trusted proxies, as addresses or networks. This middleware has to see their address, before
            X-Forwarded-For takes its place.
    """

    def __init__(self, app: ASGIApp, networks: Sequence[str]) -> None:
        self._app, self._networks = app, [ip_network(text) for text in networks]
        self._sockets = OpenSockets()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        person = b""
        if is_request(scope):
            names = (_PROXY_PERSON, PERSON_HEADER.encode())
            headers = [(name, value) for name, value in scope["headers"] if name.lower() not in names]
            if person := self._read_person(scope):
                headers.append((names[1], person))
            scope = {**scope, "headers": headers}
        await self._sockets.serve(self._app, scope, receive, send, person, lambda: True)

    def _read_person(self, scope: Scope) -> bytes:
        """The name; b"" where a proxy says none or several, or somebody else says it."""
        try:
            address = ip_address((scope.get("client") or ("", 0))[0])
        except ValueError:
            return b""
        names = [value.strip() for name, value in scope["headers"] if name.lower() == _PROXY_PERSON]
        is_trusted = any(address in network for network in self._networks)
        return names[0] if is_trusted and len(names) == 1 and is_person_name(names[0]) else b""


def is_person_name(name: bytes) -> bool:
    """Whether what a log-in says, in UTF-8, can be the name of a person."""
    return 0 < len(name) <= MOST_NAME and name.decode("utf-8", "replace").isprintable()


def check_person_name(name: str) -> None:
    """Raise RequestError for a text that cannot be the name of a person; "" is nobody's."""
    if len(name) > MOST_NAME or not name.isprintable():
        raise RequestError(
            "the name of a person is too long or cannot be printed",
            f"{name[:40]!r}; at most {MOST_NAME} characters",
        )


class SameOriginMiddleware:
    """Refuses requests sent by foreign pages: a wrong Origin, or a Host that is not this server where it is known.

    The second protects from DNS rebinding.

    Args:
        app: Application behind the check.
        served_host: The name by which browsers come: the Host must be this, an address, which no rebound name is, or a
            name of this machine; that alone where it is "". With None the Host may be any.
    """

    def __init__(self, app: ASGIApp, served_host: str | None) -> None:
        self._app = app
        self._served_host = served_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_request(scope) or self._is_allowed(scope):
            await self._app(scope, receive, send)
        else:
            await refuse(scope, send, 403, "requests from this page or host are not allowed")

    def _is_allowed(self, scope: Scope) -> bool:
        host, origin = header(scope, b"host"), header(scope, b"origin")
        try:
            host_name, origin_host = urlsplit(f"//{host}").hostname or "", urlsplit(origin).netloc
        except ValueError:  # a bracket that is never closed
            return False
        is_address = ":" in host_name or host_name.replace(".", "").isdecimal()
        is_served = self._served_host and (is_address or host_name == self._served_host)
        if self._served_host is not None and not (is_served or is_loopback(host_name)):
            return False
        return not origin or origin_host == host
