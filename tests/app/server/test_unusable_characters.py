"""A character that nothing can store is refused in one line, in every field of every request of the HTTP API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from app.server.api import make_api
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace

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
