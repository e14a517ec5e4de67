"""Open websockets: those of a log-in end with it at once, and one person cannot have all that a server takes."""

from __future__ import annotations

import asyncio
from string import ascii_letters, digits
from typing import Any

import pytest

from ares_app.server.identity_login import IdentityLoginMiddleware
from ares_app.server.login import LoginMiddleware
from ares_app.server.protection import MOST_SOCKETS, ProxyPersonMiddleware
from tests.app.server.asgi_client import send_request, status_of
from tests.app.server.test_identity_login import _PROVIDER, cookie
from tests.app.server.test_login import _cookie, _post

Header = tuple[str, str]


class Server:
    """An application whose pages say nothing, and the middleware before it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.ended: list[str] = []
        if kind == "password":
            self.middleware: Any = LoginMiddleware(self._answer, password="s3cret")
        elif kind == "provider":
            self.middleware = IdentityLoginMiddleware(self._answer, _PROVIDER)
        else:
            self.middleware = ProxyPersonMiddleware(self._answer, ["192.0.2.0/24"])

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            return
        await send({"type": "websocket.accept"})
        message = await receive()
        await send({"type": "websocket.send", "text": "of the next run"})
        self.ended.append(message["type"])

    def log_in(self, person: str) -> Header:
        """The header of the requests of somebody."""
        if self.kind == "proxy":
            return "x-forwarded-user", person
        return (
            cookie(email=person)
            if self.kind == "provider"
            else ("cookie", _cookie(_post(self.middleware, "s3cret")))
        )

    async def log_out(self, header: Header) -> None:
        path = "/auth/logout" if self.kind == "provider" else "/api/logout"
        await self.middleware(scope_of("http", header, path), None, _drop)


def scope_of(kind: str, header: Header, path: str = "/api/changes") -> dict[str, Any]:
    name, value = header
    client = ("192.0.2.7", 5)
    return {"type": kind, "path": path, "client": client, "headers": [(name.encode(), value.encode())]}


async def _drop(message: Any) -> None:
    pass


class Socket:
    """A websocket of a browser that says nothing; as with uvicorn, its end reaches the application."""

    def __init__(self, server: Server, header: Header) -> None:
        self.sent: list[Any] = []
        self.opened, self._messages = asyncio.Event(), asyncio.Queue[Any]()
        self.task = asyncio.create_task(
            server.middleware(scope_of("websocket", header), self._messages.get, self._send)
        )

    async def _send(self, message: Any) -> None:
        self.sent.append((message["type"], message.get("code")))
        self.opened.set()
        if message["type"] == "websocket.close":
            self.leave()

    def leave(self) -> None:
        self._messages.put_nowait({"type": "websocket.disconnect", "code": 1008})


@pytest.mark.parametrize("kind", ["password", "provider"])
def test_a_log_out_closes_the_websockets_of_its_log_in_at_once(kind: str) -> None:
    server = Server(kind)
    mine, other = server.log_in("ada@lab.example"), server.log_in("ben@lab.example")

    async def talk() -> None:
        closed, stays = Socket(server, mine), Socket(server, other)
        await closed.opened.wait()
        await stays.opened.wait()
        await server.log_out(mine)
        await closed.task
        assert closed.sent == [("websocket.accept", None), ("websocket.close", 1008)]
        assert stays.sent == [("websocket.accept", None)] and not stays.task.done()
        stays.leave()
        await stays.task

    asyncio.run(talk())
    assert server.ended == ["websocket.disconnect"] * 2


def test_other_spellings_of_a_cookie_count_as_one_log_in() -> None:
    server = Server("password")
    name, cookie_text = server.log_in("ada@lab.example")
    spellings = [(name, cookie_text[:-1] + character) for character in ascii_letters + digits + "-_"]

    async def talk() -> None:
        sockets = [Socket(server, header) for header in spellings * MOST_SOCKETS]
        for socket in sockets:
            await socket.opened.wait()
            assert socket.sent
        opened = [socket for socket in sockets if socket.sent[0][0] == "websocket.accept"]
        assert len(opened) == MOST_SOCKETS
        for socket in opened:
            socket.leave()
        await asyncio.gather(*(socket.task for socket in sockets))

    asyncio.run(talk())


@pytest.mark.parametrize("kind", ["password", "provider", "proxy"])
def test_one_person_cannot_open_all_websockets(kind: str) -> None:
    server = Server(kind)
    mine, other = server.log_in("ada@lab.example"), server.log_in("ben@lab.example")

    async def talk() -> None:
        opened = [Socket(server, mine) for _ in range(MOST_SOCKETS)]
        for socket in opened:
            await socket.opened.wait()
        refused, allowed = Socket(server, mine), Socket(server, other)
        await refused.task
        await allowed.opened.wait()
        assert (refused.sent, allowed.sent) == ([("websocket.close", 1008)], [("websocket.accept", None)])
        opened[0].leave()
        await opened[0].task
        again = Socket(server, mine)
        await again.opened.wait()
        assert again.sent == [("websocket.accept", None)]
        for socket in (*opened[1:], allowed, again):
            socket.leave()
            await socket.task

    asyncio.run(talk())
    assert status_of(send_request(server.middleware, "http", [mine], "/api/episodes")) == 200
