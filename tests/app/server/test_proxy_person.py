"""Who does something: the name that a trusted log-in proxy says, and no name of anybody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.server.protection import PERSON_HEADER, ProxyPersonMiddleware

_NETWORKS = ["10.0.0.0/24", "2001:db8::1/128"]


def read_person(client: tuple[str, int] | None, headers: list[tuple[bytes, bytes]]) -> list[str]:
    """The names that the application gets."""
    got: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        names = (PERSON_HEADER.encode(), b"x-forwarded-user")
        got.extend(value.decode("utf-8") for name, value in scope["headers"] if name.lower() in names)

    scope = {"type": "websocket", "client": client, "headers": headers}
    asyncio.run(ProxyPersonMiddleware(app, _NETWORKS)(scope, None, None))  # type: ignore[arg-type]
    return got


@pytest.mark.parametrize("address", ["10.0.0.2", "2001:db8::1"])
def test_a_trusted_proxy_says_who_it_is(address: str) -> None:
    assert read_person((address, 5), [(b"x-forwarded-user", "Zoë@lab".encode())]) == ["Zoë@lab"]


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        (("10.0.1.2", 5), [(b"x-forwarded-user", b"Ada")]),
        (("10.0.1.2", 5), [(b"x-ares-person", b"Ada")]),
        (("10.0.0.2", 5), [(b"X-Ares-Person", b"Ada")]),
        (("10.0.0.2", 5), [(b"x-forwarded-user", b"Ada"), (b"X-Forwarded-User", b"Eve")]),
        (("10.0.0.2", 5), [(b"x-forwarded-user", b"A" * 101)]),
        (("10.0.0.2", 5), [(b"x-forwarded-user", b"Ada\x00")]),
        (("10.0.0.2", 5), [(b"x-forwarded-for", b"10.0.0.3")]),
        (("not an address", 5), [(b"x-forwarded-user", b"Ada")]),
        (None, [(b"x-forwarded-user", b"Ada")]),
    ],
)
def test_nobody_else_does(client: tuple[str, int] | None, headers: list[tuple[bytes, bytes]]) -> None:
    assert read_person(client, headers) == []
