"""The server: it makes a workspace that is missing, asks for a password that is set, and closes idle connections."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from ares.errors import RequestError
from ares.settings import Settings
from ares.store import workspace_exists
from ares.workspace import Workspace, new_workspace, open_workspace
from ares_app.dashboard import make_served_pages
from ares_app.server import serve
from ares_app.server.connection_bounds import make_bounded_protocol

# A connection of which nothing is heard for so long fails the test; none of these seconds are waited for.
PATIENCE = 60


def test_beyond_loopback_a_password_is_needed(workspace: Workspace) -> None:
    with pytest.raises(RequestError, match="needs a login"):
        serve(workspace, make_served_pages(), host="0.0.0.0")


@contextmanager
def start_app(*arguments: object, **options: Any) -> Iterator[tuple[list[str], int]]:
    """`ares app` in a process of its own: what it says before its address, and its port."""
    program = "import sys; from ares_app.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-O", "-P", "-c", program, "app", *map(str, arguments)]
    command += ["--port", "0", "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options) as server:
        try:
            lines = list[str]()
            assert server.stderr is not None
            for line in server.stderr:
                if match := re.search(r"http://127.0.0.1:(\d+)", line):
                    yield lines, int(match[1])
                    return
                if not line.endswith(" so far\n"):  # as a busy machine says of any command
                    lines.append(line)
            pytest.fail("".join(lines))
        finally:
            server.terminate()
            server.communicate(timeout=PATIENCE)


def request(port: int, path: str = "/", **options: Any) -> httpx2.Response:
    return httpx2.get(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE, **options)


@pytest.mark.slow
def test_a_dashboard_without_a_workspace_makes_it(tmp_path: Path) -> None:
    with start_app("-w", tmp_path / "lab") as (lines, port):
        assert lines == [f"a new workspace is made at {tmp_path / 'lab'}\n"]
        assert workspace_exists(str(tmp_path / "lab")), "also without assertions"
        assert request(port, "/api/health").json()["status"] == "ok"


@pytest.mark.parametrize("path", ["other", "other/file.txt", "other/file.txt/below"])
def test_a_workspace_is_made_beside_nothing_else(path: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file.txt").touch()
    with pytest.raises(RequestError, match="workspace"):
        serve(new_workspace(tmp_path / path, Settings()), make_served_pages(), port=0)


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of `ares app` on loopback with a password, started where a stranger has left a file for Streamlit."""
    folder = tmp_path_factory.mktemp("dashboard")
    open_workspace(str(folder / "ws"), Settings()).close()
    stranger = folder / ".streamlit" / "config.toml"
    stranger.parent.mkdir()
    stranger.write_text('[theme]\nbase = "http://127.0.0.1:9/stranger.toml"\n')
    (folder / "own.toml").write_text('app_password = "s3cret"\n')
    (folder / "own.toml").chmod(0o600)
    with start_app("-w", "ws", "--config", "own.toml", cwd=folder) as ((line,), port):
        assert line.startswith(f"{stranger} is ignored: only ")
        yield port


_AUTH = """
[auth]
redirect_uri = "http://127.0.0.1/oauth2callback"
cookie_secret = "a secret of more than thirty-two characters"
client_id = "ares"
client_secret = "of the test"
server_metadata_url = "http://127.0.0.1:9/.well-known/openid-configuration"
"""


@pytest.mark.slow
def test_where_people_log_in_the_file_is_named_and_the_host_is_checked(tmp_path: Path) -> None:
    open_workspace(str(tmp_path / "ws"), Settings()).close()
    own, other = (tmp_path / name / ".streamlit" / "secrets.toml" for name in ("home", "start"))
    for file, text in ((own, _AUTH), (other, "[of_a_page]")):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    environ = {**os.environ, "HOME": str(tmp_path / "home")}
    with start_app("-w", tmp_path / "ws", cwd=tmp_path / "start", env=environ) as (lines, port):
        assert lines == [f"{other} is ignored: only {own} is read\n", f"people log in by [auth] of {own}\n"]
        for host, expected in (("127.0.0.1", 200), ("10.0.0.5:8501", 200), ("rebound.example", 403)):
            assert request(port, "/_stcore/health", headers={"Host": host}).status_code == expected


@pytest.mark.slow
def test_a_password_that_is_set_is_asked_for_on_loopback(dashboard: int) -> None:
    for path in ("/", "/_stcore/health", "/media/none"):
        assert request(dashboard, path).status_code == 401
    assert request(dashboard, auth=("user", "s3cret")).status_code == 200
    assert request(dashboard, auth=("user", "wrong")).status_code == 401


@pytest.mark.slow
def test_of_many_half_open_connections_the_oldest_are_closed_and_pages_still_come(dashboard: int) -> None:
    with ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection(("127.0.0.1", dashboard), timeout=PATIENCE))
            for _ in range(300)
        ]
        assert request(dashboard, auth=("user", "s3cret")).status_code == 200
        # The other 256 have their seconds left, unless this machine was slow: nothing is said of them.
        assert [connection.recv(1) for connection in opened[:40]] == [b""] * 40


@contextmanager
def small_server(app: Any) -> Iterator[int]:
    """The port of a server whose connections are bounded as those of the dashboard."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, http=make_bounded_protocol(), log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the body of the request."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([b""], id="nothing"),
        pytest.param([b"GET / HTTP/1.1\r\nHost: a\r\nX: "], id="a part of the head"),
        pytest.param(
            [b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234"], id="a part of the body"
        ),
        pytest.param([b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HT"], id="a part of a second head"),
    ],
)
def test_a_connection_that_stops_in_a_request_is_closed(
    sent: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_HEAD_SECONDS", "_BODY_SECONDS"):
        monkeypatch.setattr(f"ares_app.server.connection_bounds.{name}", 0.2)
    with small_server(echo) as port, socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        for part in sent[:-1]:
            connection.sendall(part)
            assert connection.recv(1)
        connection.sendall(sent[-1])
        while connection.recv(100):
            pass


@pytest.mark.slow
def test_bytes_that_trickle_win_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares_app.server.connection_bounds._HEAD_SECONDS", 0.2)
    with small_server(echo) as port, socket.create_connection(("127.0.0.1", port), 0.01) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(100 * PATIENCE):
            try:
                connection.sendall(b"x")
                assert connection.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                pass
            return
    pytest.fail("a head that comes byte by byte keeps its connection")


@pytest.mark.slow
def test_a_request_that_is_complete_may_be_answered_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_HEAD_SECONDS", "_BODY_SECONDS"):
        monkeypatch.setattr(f"ares_app.server.connection_bounds.{name}", 0.05)

    async def answer_slowly(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.5)
        await echo(scope, receive, send)

    with small_server(answer_slowly) as port:
        assert request(port).status_code == 200
