"""The real server: byte ranges, posters, refusals, and who may ask."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.dashboard.guard import Login, SameSite, is_loopback
from app.dashboard.routes import poster_url, routes, video_url
from app.dashboard.server import build
from ares.errors import RequestError
from ares.workspace import Workspace


@pytest.fixture(scope="module")
def client(workspace: Workspace) -> TestClient:
    return TestClient(Starlette(routes=routes(workspace)))


def test_a_video_answers_ranges(client: TestClient, workspace: Workspace) -> None:
    episode = next(workspace.episodes("dataset = 'metaworld_sawyer'"))
    url = video_url(episode, episode.cameras[0].name)
    part = client.get(url, headers={"Range": "bytes=4-11"})
    assert part.status_code == 206
    assert len(part.content) == 8
    assert part.content[:4] == b"ftyp"
    assert client.get(url).headers["content-type"] == "video/mp4"


def test_posters_are_of_their_own_episode_and_second(client: TestClient, workspace: Workspace) -> None:
    episodes = list(workspace.episodes("dataset = 'video'", limit=3))
    urls = [poster_url(episode, "front", second) for episode in episodes for second in (0.0, 2.0)]
    pictures = [client.get(url) for url in urls]
    assert {picture.headers["content-type"] for picture in pictures} == {"image/jpeg"}
    assert len({picture.content for picture in pictures}) > len(episodes)


@pytest.mark.parametrize(
    "path",
    [
        "/api/media/0000000000000000/front.mp4",
        "/api/media/..%2f..%2fetc/passwd.mp4",
        "/api/media/nonsense/front.mp4",
        "/api/thumb/{id}/no-such-camera.jpg",
        "/api/thumb/{id}/..%2F..%2Fsecret.jpg",
        "/api/thumb/{id}/front.jpg?t=nan",
    ],
)
def test_what_is_not_there_is_404_with_one_line(client: TestClient, workspace: Workspace, path: str) -> None:
    some = next(workspace.episodes("dataset = 'video'"))
    answer = client.get(path.replace("{id}", some.episode_id))
    assert answer.status_code == 404
    assert len(answer.text.strip().splitlines()) == 1


def test_health_answers(client: TestClient) -> None:
    assert client.get("/api/health").json()["status"] == "ok"


def test_beyond_loopback_a_password_is_needed(workspace: Workspace) -> None:
    with pytest.raises(RequestError, match="needs a login"):
        build(workspace.path, workspace.settings, host="0.0.0.0")
    build(workspace.path, replace(workspace.settings, app_password="s3cret"), host="0.0.0.0")


@pytest.mark.parametrize(
    ("host", "is_one"),
    [
        ("localhost", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_which_hosts_are_loopback(host: str, is_one: bool) -> None:
    assert is_loopback(host) is is_one


def _ask(guard: Any, kind: str, headers: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """What a guard answers itself, or [{"type": "passed"}]."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": kind, "headers": [(name.encode(), value.encode()) for name, value in headers]}
    asyncio.run(guard(scope, None, send))
    return sent


async def _inside(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def _status(answer: list[dict[str, Any]]) -> int:
    return int(answer[0]["status" if "status" in answer[0] else "code"])


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_login_guards_pages_and_websockets(kind: str) -> None:
    guard = Login(_inside, password="s3cret")
    refused = 401 if kind == "http" else 1008
    wrong, right = (base64.b64encode(f"me:{word}".encode()).decode() for word in ("s3cre", "s3cret"))
    assert _status(_ask(guard, kind, [])) == refused
    assert _status(_ask(guard, kind, [("authorization", f"Basic {wrong}")])) == refused
    assert _status(_ask(guard, kind, [("authorization", "Basic ***")])) == refused
    assert _status(_ask(guard, kind, [("cookie", "ares_login=guess")])) == refused
    entered = _ask(guard, kind, [("authorization", f"Basic {right}")])
    assert _status(entered) == 200
    cookie = dict(entered[0]["headers"])[b"set-cookie"].decode().split(";")[0]
    assert _status(_ask(guard, kind, [("cookie", f"other=1; {cookie}")])) == 200


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ([("host", "127.0.0.1:8501")], True),
        ([("host", "localhost:9"), ("origin", "http://localhost:9")], True),
        ([("host", "rebound.example:8501")], False),
        ([("host", "localhost:8501"), ("origin", "http://evil.example")], False),
        ([("host", "localhost:8501"), ("origin", "null")], False),
    ],
)
def test_foreign_pages_and_rebound_names_are_refused(headers: list[tuple[str, str]], passes: bool) -> None:
    for kind in ("http", "websocket"):
        answer = _ask(SameSite(_inside, loopback_only=True), kind, headers)
        assert (_status(answer) == 200) is passes
