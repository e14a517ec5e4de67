"""The hub of models: an error is an answer, silence is none, and what `ares models --check` says of each."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from annotators.models.inventory import check_hub_has_model
from ares.io import ask_hub

_ANSWERS = {
    "/api/models/lab/open": (200, b'{"gated": false}'),
    "/api/models/lab/gated": (200, b'{"gated": "auto"}'),
    "/api/models/lab/page": (200, b"<html>"),
    "/api/models/lab/busy": (503, b""),
}


class _Hub(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = _ANSWERS.get(self.path, (404, b""))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.send_response(405)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    monkeypatch.setattr("ares.io.model_hub.hub_url", lambda: f"http://127.0.0.1:{server.server_address[1]}")
    yield
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.usefixtures("hub")
def test_an_error_is_an_answer() -> None:
    assert ask_hub(5.0).status == 405
    assert ask_hub(5.0, "/api/models/lab/open").content == b'{"gated": false}'


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("open", "the hub has it"),
        ("gated", "the hub has it, on request"),
        ("page", "the hub answers no JSON"),
        ("busy", "the hub answers 503"),
        ("none", "the hub does not have it"),
    ],
)
def test_the_hub_says_whether_it_has_a_model(model: str, text: str) -> None:
    assert check_hub_has_model(f"lab/{model}") == text


def test_a_silent_hub_is_waited_for_no_longer_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts, and never answers
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setattr("ares.io.model_hub.hub_url", lambda: address)
        with pytest.raises(ConnectionError, match=r"no answer within 0\.05 s|timed out"):
            ask_hub(0.05)


def test_an_address_that_the_client_cannot_read_is_said_in_one_line() -> None:
    """In a process of its own: the client reads the address when it is imported."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "ares", "models"],
        env=os.environ | {"HF_ENDPOINT": "http://[::1/v1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "ares models: HF_ENDPOINT cannot be read: Invalid IPv6 URL\n"
