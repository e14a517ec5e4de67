"""Routes beside the pages: byte ranges of videos, posters, and one line for what does not exist."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from ares.workspace import Workspace
from ares_app.dashboard.cards import make_poster_url, make_video_url
from ares_app.server.media_routes import build_media_routes


@pytest.fixture(scope="module")
def client(workspace: Workspace) -> TestClient:
    return TestClient(Starlette(routes=build_media_routes(workspace.stores)))


def test_a_video_answers_ranges(client: TestClient, workspace: Workspace) -> None:
    episode = next(workspace.stores.tables.episodes.read("dataset = 'metaworld_sawyer'"))
    url = make_video_url(episode, episode.cameras[0].name)
    part = client.get(url, headers={"Range": "bytes=4-11"})
    assert part.status_code == 206
    assert len(part.content) == 8
    assert part.content[:4] == b"ftyp"
    assert client.get(url).headers["content-type"] == "video/mp4"


def test_posters_are_of_their_own_episode_and_second(client: TestClient, workspace: Workspace) -> None:
    episodes = list(workspace.stores.tables.episodes.read("dataset = 'video'", limit=3))
    urls = [make_poster_url(episode, "front", second) for episode in episodes for second in (0.0, 2.0)]
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
    episode = next(workspace.stores.tables.episodes.read("dataset = 'video'"))
    answer = client.get(path.replace("{id}", episode.episode_id))
    assert answer.status_code == 404
    assert len(answer.text.strip().splitlines()) == 1


def test_health_answers(client: TestClient) -> None:
    assert client.get("/api/health").json()["status"] == "ok"
