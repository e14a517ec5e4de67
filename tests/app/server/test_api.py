"""The HTTP API: each request gives what the same request gives in Python, and an error is one object with a reason."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from ares.search import compute_facets
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_app.server.api import make_api


@pytest.fixture(scope="module")
def client(workspace: Workspace) -> Iterator[TestClient]:
    with TestClient(make_api(workspace)) as opened:
        yield opened


def _read(client: TestClient, path: str, **parameters: Any) -> Any:
    response = client.get(path, params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


def test_episodes_are_those_of_the_view_in_pages(client: TestClient, workspace: Workspace) -> None:
    view = workspace.episodes.where("num_steps > 20").sort("num_steps", descending=True)
    query = {
        "where": "num_steps > 20",
        "sort": "num_steps",
        "descending": True,
        "columns": "episode_id,num_steps",
    }
    first = _read(client, "/episodes", **query, limit=3)
    second = _read(client, "/episodes", **query, limit=3, offset=3)
    assert first["total"] == len(view)
    rows = [*first["episodes"], *second["episodes"]]
    assert rows == view.take(6).to_arrow(["episode_id", "num_steps"]).to_pylist()
    assert all(row["episode_id"] for row in _read(client, "/episodes", limit=5)["episodes"])


def test_an_episode_is_what_show_prints_with_addresses_of_its_videos(
    client: TestClient, workspace: Workspace
) -> None:
    episode = next(iter(workspace.episodes.where("dataset = 'metaworld_sawyer'")))
    document = _read(client, f"/episodes/{episode.episode_id}")
    media = document.pop("media")
    assert document == json.loads(json.dumps(episode.to_json(), default=lambda value: value.isoformat()))
    assert set(media) == set(episode.camera_names)
    assert media[episode.camera_names[0]]["video"].startswith(f"/api/media/{episode.episode_id}/")


def test_signals_are_the_values_of_the_steps_that_are_named(client: TestClient, workspace: Workspace) -> None:
    episode = next(iter(workspace.episodes.where("dataset = 'metaworld_sawyer'")))
    state = episode.trajectory.state
    assert state is not None
    part = _read(client, f"/episodes/{episode.episode_id}/signals/state", start=2, stop=5)
    assert part["names"] == list(state.names)
    assert part["values"] == state.values[2:5].tolist()
    assert part["seconds"] == episode.trajectory.timestamps[2:5].tolist()
    answer = client.get(f"/episodes/{episode.episode_id}/signals/torque")
    assert answer.status_code == 404
    assert "state" in answer.json()["detail"], "what there is, is named"


def test_searches_and_facets_are_those_of_python(client: TestClient, workspace: Workspace) -> None:
    hits = _read(client, "/search", text="drawer", by="captions", limit=4)["hits"]
    assert [hit["episode_id"] for hit in hits] == [
        hit.episode_id for hit in workspace.search("drawer", by="captions", limit=4)
    ]
    facets = _read(client, "/facets", where="success", columns="dataset,split")["facets"]
    counted = compute_facets(workspace.stores, "success", ["dataset", "split"])
    expected = [facet.to_json() for facet in counted]
    assert facets == json.loads(json.dumps(expected))


def test_groups_are_counted_under_a_filter(client: TestClient, workspace: Workspace) -> None:
    document = _read(client, "/statistics", by="dataset", where="success")
    view = workspace.episodes.where("success")
    assert (
        document["total"]["episodes"] == sum(group["episodes"] for group in document["groups"]) == len(view)
    )
    assert [group["value"] for group in document["groups"]] == [
        group.value for group in view.count_by("dataset")
    ]


@pytest.mark.parametrize(
    ("path", "parameters", "status", "words"),
    [
        ("/episodes", {"where": "num_steps >"}, 400, "filter"),
        ("/episodes", {"where": "1=1; DROP TABLE episodes"}, 400, "filter"),
        ("/episodes", {"limit": 0}, 400, "limit"),
        ("/episodes", {"limit": "many"}, 400, "limit"),
        ("/episodes", {"sort": "nothing"}, 400, "nothing"),
        ("/episodes/0000000000000000", {}, 404, "0000000000000000"),
        ("/episodes", {"wher": "num_steps < 3"}, 400, "where"),
        ("/search", {}, 400, "text"),
        ("/search", {"image": "/etc/passwd"}, 400, "stored frame"),
        ("/search", {"text": "a", "by": "nothing"}, 400, "nothing"),
        ("/sets/none", {}, 404, "none"),
        ("/episode", {}, 404, "openapi.json"),
    ],
)
def test_an_error_says_what_was_wrong(
    client: TestClient, path: str, parameters: dict[str, object], status: int, words: str
) -> None:
    answer = client.get(path, params=parameters)  # type: ignore[arg-type]
    assert answer.status_code == status
    assert words in f"{answer.json()['reason']} {answer.json()['detail']}"


def test_the_place_of_a_mistake_in_a_filter_is_given(client: TestClient) -> None:
    answer = client.get("/episodes", params={"where": "num_steps = = 3"}).json()
    assert isinstance(answer["position"], int)


def test_a_ruling_is_stored_seen_and_taken_back(copied: Workspace) -> None:
    episode_id = next(iter(copied.episodes)).episode_id
    ruling = {"question": "success", "subject_id": episode_id, "verdict": "failure", "person": "Ada <b>"}
    with TestClient(make_api(copied)) as client:
        answer = client.post("/rulings", json=ruling)
        assert answer.status_code == 201, answer.text
        stored = _read(client, "/rulings", person="Ada <b>")["rulings"]
        assert [(row["subject_id"], row["verdict"]) for row in stored] == [(episode_id, "failure")]
        taken_back = client.delete(f"/rulings/{answer.json()['ruling_id']}", params={"person": "Ada <b>"})
        assert taken_back.status_code == 200
        assert not _read(client, "/rulings", person="Ada <b>")["rulings"]


@pytest.mark.parametrize(
    "change",
    [{"verdict": "perhaps"}, {"person": ""}, {"colour": "red"}, {"subject_id": "0" * 16}, {"slots": [1]}],
)
def test_a_wrong_ruling_is_refused_and_stores_nothing(
    client: TestClient, workspace: Workspace, change: dict[str, object]
) -> None:
    before = len(workspace.review.answers())
    ruling = {
        "question": "success", "subject_id": next(iter(workspace.episodes)).episode_id, "verdict": "success",
        "person": "Ada", **change,
    }  # fmt: skip
    answer = client.post("/rulings", json=ruling)
    assert answer.status_code == 400, answer.text
    assert answer.json()["reason"]
    assert len(workspace.review.answers()) == before


def test_a_set_is_frozen_read_in_pages_deleted_and_brought_back(
    client: TestClient, workspace: Workspace
) -> None:
    made = client.post("/sets", json={"name": "by-api", "where": "dataset = 'video'"})
    assert made.status_code == 201, made.text
    expected = list(workspace.episodes.where("dataset = 'video'").ids())
    pages = [
        _read(client, "/sets/by-api", offset=offset, limit=2)["ids"] for offset in range(0, len(expected), 2)
    ]
    assert sorted(chain.from_iterable(pages)) == sorted(expected)
    assert _read(client, "/episodes", where="in_set('by-api') AND NOT reviewed()")["total"] == len(expected)
    assert client.delete("/sets/by-api").status_code == 200
    assert "by-api" in client.get("/episodes", params={"where": "in_set('by-api')"}).json()["reason"]
    assert client.get("/sets/by-api").status_code == 404
    assert client.post("/undo").status_code == 200
    assert "by-api" in workspace.sets
    workspace.sets.delete("by-api")


def test_tags_follow(client: TestClient, workspace: Workspace) -> None:
    ids = list(workspace.episodes.take(2).ids())
    assert client.post("/tags/by-api", json={"ids": ids}).status_code == 200
    assert {tag["tag"]: tag["episodes"] for tag in _read(client, "/tags")["tags"]}["by-api"] == 2
    assert client.request("DELETE", "/tags/by-api", json={"ids": ids}).status_code == 200
    assert "by-api" not in {tag["tag"] for tag in _read(client, "/tags")["tags"]}
    assert client.post("/tags/by-api", json={}).status_code == 400, "nothing says which episodes"


def test_numbers_that_are_none_are_null() -> None:
    from ares_app.server.api import _as_json

    text = bytes(_as_json({"a": [math.nan, 1.0], "b": {"c": -math.inf}}).body)
    assert json.loads(text) == {"a": [None, 1.0], "b": {"c": None}}


def test_every_request_is_described(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len(operations) >= 18
    assert all(operation["summary"] for operation in operations)
    ruling = document["components"]["schemas"]["NewRuling"]
    assert {"question", "subject_id", "verdict", "person"} <= set(ruling["required"])
    limit = next(
        part for part in document["paths"]["/episodes"]["get"]["parameters"] if part["name"] == "limit"
    )
    assert limit["schema"]["maximum"] == 1_000


def test_a_query_has_the_time_of_a_page(workspace: Workspace) -> None:
    hurried = open_workspace(workspace.path, Settings(query_seconds=1e-6))
    with TestClient(make_api(hurried)) as client:
        answer = client.get("/facets")
    hurried.close()
    assert answer.status_code == 503
    assert "longer than" in answer.json()["reason"]


def test_names_are_those_of_python(client: TestClient, workspace: Workspace) -> None:
    episode = next(iter(workspace.episodes))
    for text in (episode.episode_id[:8], episode.key, "metaworld", "%", "' OR 1=1 --"):
        expected = [hit.to_json() for hit in workspace.find(text, limit=5)]
        assert _read(client, "/find", text=text, limit=5)["hits"] == expected
    assert _read(client, "/find", text=episode.episode_id)["hits"][0]["name"] == episode.episode_id
    assert client.get("/find", params={"text": "x" * 500}).status_code == 400
    assert client.get("/find", params={"text": "x", "limit": 0}).status_code == 400
    assert "text" in client.get("/find", params={"txt": "x"}).json()["detail"]


_UNUSABLE = ("\0", "\x1b", "\x7f", "\ud800")


def _requests(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, str], Any]]:
    """Method, path, parameters and body of a request for each text field that any request has, with "MARK" in it."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            names = [item["name"] for item in operation.get("parameters", ())]
            body: dict[str, Any] | None = None
            if "requestBody" in operation:
                reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                body = document["components"]["schemas"][reference.rpartition("/")[2]]["properties"]
            usual = dict.fromkeys(names, "1")
            for name in names:
                yield method, path, {**usual, name: "MARK"}, body and {}
            for name in (*(body or ()), "MARK"):
                for value in ("MARK", ["MARK"], {"MARK": "MARK"}):
                    yield method, path, usual, {name: value}


@pytest.mark.parametrize("character", _UNUSABLE)
def test_no_request_takes_an_unusable_character(character: str, copied: Workspace, tmp_path: Path) -> None:
    own = open_workspace(copied.path, Settings(source_dirs=(str(tmp_path),)))
    with own, TestClient(make_api(own), raise_server_exceptions=False) as client:
        before = own.status().to_json()
        sent = 0
        for method, path, parameters, body in _requests(client.get("/openapi.json").json()):
            values = {name: quote(value.replace("MARK", f"a{character}b").encode("utf-8", "surrogatepass"), safe="")
                      for name, value in parameters.items()}  # fmt: skip
            url = path
            for name in [name for name in values if f"{{{name}}}" in path]:
                url = url.replace(f"{{{name}}}", values.pop(name))
            query = "&".join(f"{name}={value}" for name, value in values.items())
            content = (
                None if body is None else json.dumps(body).replace("MARK", json.dumps(f"a{character}b")[1:-1])
            )
            answer = client.request(
                method.upper(),
                f"{url}?{query}",
                content=content,
                headers={"content-type": "application/json"},
            )
            assert answer.status_code == 400, (method, url, query, content, answer.text)
            assert "\n" not in answer.json()["reason"] + answer.json()["detail"]
            sent += 1
        assert sent > 100 and own.status().to_json() == before


def test_texts_of_several_lines_are_stored_and_a_refusal_is_one_line(copied: Workspace) -> None:
    with TestClient(make_api(copied)) as client:
        said = {"question": "success", "verdict": "success", "person": "Zoë", "reason": "dark\n\tand 🤖 ß"}
        ruling = {**said, "subject_id": next(iter(copied.episodes)).episode_id}
        assert client.post("/rulings", json=ruling).status_code == 201
        assert copied.review.answers(person="Zoë")[0].to_json()["reason"] == said["reason"]
        for wrong in ({**ruling, "question": "a\nb"}, {**ruling, "a\nb": "c"}):
            answer = client.post("/rulings", json=wrong)
            line = " ".join(answer.json().values())
            assert (answer.status_code, "a\\nb" in line, "\n" in line) == (400, True, False), line
