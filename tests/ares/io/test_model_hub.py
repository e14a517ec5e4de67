"""The hub of models: an error is an answer, silence is none."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ares.io import ask_hub


class _Hub(BaseHTTPRequestHandler):
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
    ask_hub(5.0)  # raises nothing


def test_a_silent_hub_is_waited_for_no_longer_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts, and never answers
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setattr("ares.io.model_hub.hub_url", lambda: address)
        with pytest.raises(ConnectionError, match=r"no answer within 0\.05 s|timed out"):
            ask_hub(0.05)


def test_an_address_that_the_client_cannot_read_is_said_in_one_line() -> None:
    """In a process of its own: the client reads the address when it is imported."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from ares.io import ask_hub; ask_hub(1.0)"],
        env=os.environ | {"HF_ENDPOINT": "http://[::1/v1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.endswith("RequestError: HF_ENDPOINT cannot be read: Invalid IPv6 URL\n")
