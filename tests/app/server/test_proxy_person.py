"""Who does something: the name that a trusted log-in proxy says, and no name of anybody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.testclient import TestClient

from ares.workspace import Workspace
from ares_app.server.api import make_api
from ares_app.server.protection import PERSON_HEADER, ProxyPersonMiddleware

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


def test_a_request_acts_in_no_other_name_than_that_of_the_log_in(copied: Workspace) -> None:
    app = ProxyPersonMiddleware(make_api(copied, people_by_login=True), _NETWORKS)
    ids = list(copied.episodes.take(1).ids())
    ruling = {"question": "success", "subject_id": ids[0], "verdict": "failure"}
    ada = {"X-Forwarded-User": "Ada"}
    with (
        TestClient(app, client=("10.0.0.2", 5), headers=ada) as client,
        TestClient(app, client=("10.0.0.2", 5)) as nobody,
        TestClient(app, client=("10.9.9.9", 5), headers=ada) as stranger,
    ):
        assert client.post("/rulings", json={**ruling, "person": "Ada"}).status_code == 201
        made = client.post("/sets", json={"name": "hers", "ids": ids})
        assert made.json()["person"] == "Ada", made.text
        assert client.post("/tags/hers", json={"ids": ids}).json()["person"] == "Ada"
        assert client.post("/undo", params={"person": "Ada"}).json()["person"] == "Ada"
        refused = [
            client.post("/rulings", json={**ruling, "person": "Eve"}),
            client.post("/tags/hers", json={"ids": ids, "person": "Eve"}),
            client.delete("/sets/hers", params={"person": "Eve"}),
            client.post("/jobs", json={"command": "check", "person": "Eve"}),
            nobody.post("/undo"),
            stranger.post("/undo"),
        ]
    assert [answer.status_code for answer in refused] == [403] * len(refused)
    assert {"Eve" in answer.json()["detail"] for answer in refused[:4]} == {True}
    assert {"X-Forwarded-User" in answer.json()["detail"] for answer in refused[4:]} == {True}
    assert "hers" in copied.sets and not copied.tags


def test_without_a_proxy_a_request_says_who_acts(copied: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_PERSON", "who runs the server")
    ids = list(copied.episodes.take(1).ids())
    with TestClient(make_api(copied)) as client:
        assert client.post("/tags/t", json={"ids": ids, "person": "Ben"}).json()["person"] == "Ben"
        assert client.post("/undo").status_code == 400, (
            "the last of the user of the server, who has done none"
        )
        assert client.post("/undo", params={"person": "Ben"}).status_code == 200
        assert client.post("/tags/t", json={"ids": ids}).json()["person"] == "who runs the server"
        wrong = client.post("/tags/t", json={"ids": ids, "person": "Ben\n"})
        assert (wrong.status_code, "printed" in wrong.json()["reason"]) == (400, True)
