"""`ares search` is answered by a running dashboard of the same workspace and user, with the same answer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from app.server import command_searches
from app.server.command_searches import ask_dashboard_to_search, serve_command_searches
from ares.search import Query, search
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace

_SEARCHES = [
    ["green drawer"],
    ["green drawer", "--limit", "3", "--where", "dataset = 'metaworld_sawyer'"],
    ["nothing of this kind", "--by", "captions"],
    ["button", "--by", "captions=2"],
]


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of caches whose path is short enough for a socket."""
    folder = Path(f"/tmp/ares-{os.getpid()}-{tmp_path_factory.mktemp('cache').name}")
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def served(workspace: Workspace, cache: Path) -> Iterator[Workspace]:
    """The workspace with that cache, as a dashboard opens it."""
    opened = open_workspace(workspace.path, Settings(cache=str(cache)))
    yield opened
    opened.close()


def _sockets(cache: Path) -> list[Path]:
    return sorted(cache.glob("dashboards/*.sock"))


def _ask(workspace: Workspace, **query: object) -> list[Any] | None:
    return ask_dashboard_to_search(workspace.location, workspace.settings, query)


def test_the_answer_is_that_of_the_own_search(served: Workspace, cache: Path) -> None:
    assert _ask(served, text="drawer") is None
    with serve_command_searches(served):
        assert _ask(served, text="drawer") == search(served.stores, Query(text="drawer"))
        first = next(iter(served.episodes)).episode_id
        query: dict[str, Any] = {
            "text": "drawer",
            "like": first,
            "by": "captions",
            "limit": 4,
            "where": "success",
        }
        assert _ask(served, **query) == search(served.stores, Query(**query))
    assert _ask(served, text="drawer") is None and not _sockets(cache)


def test_errors_are_left_to_the_own_search(served: Workspace) -> None:
    with serve_command_searches(served):
        for query in ({"text": ""}, {"text": "a", "where": "nonsense ="}, {"text": "a", "colour": 1}, {}):
            assert _ask(served, **query) is None
        assert _ask(served, text="drawer")


def test_only_the_owner_may_enter(served: Workspace, cache: Path) -> None:
    with serve_command_searches(served):
        folder = cache / "dashboards"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        folder.chmod(0o755)
        assert _ask(served, text="drawer") is None, "another user could have put a socket there"


def test_the_answer_of_another_version_is_not_read(
    served: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_command_searches(served):
        assert _ask(served, text="drawer")
        monkeypatch.setattr(command_searches, "__version__", "0.0.1")
        assert _ask(served, text="drawer") is None


def test_a_second_dashboard_leaves_the_first_alone(served: Workspace, cache: Path) -> None:
    with serve_command_searches(served):
        with serve_command_searches(served):
            assert _ask(served, text="drawer")
        assert _ask(served, text="drawer")
    assert not _sockets(cache)


@pytest.mark.parametrize("line", [b"", b"\n", b"[]\n", b"{\n", b"\xff\n", b"x" * 2_000_000])
def test_other_lines_do_no_harm(served: Workspace, cache: Path, line: bytes) -> None:
    with serve_command_searches(served):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(str(_sockets(cache)[0]))
            try:
                client.sendall(line)
                client.shutdown(socket.SHUT_WR)
                assert b"hits" not in client.makefile("rb").readline()
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before it was read to its end
        assert _ask(served, text="drawer")


def test_a_path_that_is_too_long_is_not_used(workspace: Workspace, tmp_path: Path) -> None:
    settings = Settings(cache=str(tmp_path / ("long" * 30)))
    opened = open_workspace(workspace.path, settings)
    with serve_command_searches(opened):
        assert _ask(opened, text="drawer") is None
    assert not Path(settings.cache).exists()


def _ares(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command."""
    monkeypatch.setenv("ARES_CACHE", str(cache))
    status = main(list(arguments))
    return status, *capsys.readouterr()


@contextmanager
def _dashboard(workspace: Workspace, cache: Path) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "app.cli.main",
        "app",
        "-w",
        workspace.path,
        "--port",
        "0",
        "--no-browser",
    ]
    environ = {**os.environ, "ARES_CACHE": str(cache)}
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, bufsize=1, env=environ)
    try:
        assert server.stderr is not None
        next(line for line in server.stderr if "ARES dashboard" in line)
        while not _sockets(cache):
            assert server.poll() is None
        yield server
    finally:
        server.kill()
        server.communicate()


@pytest.fixture
def ares(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Exit status, standard output and standard error of a command, which needs no process of its own."""
    return partial(_ares, cache, monkeypatch, capsys)


def test_the_command_asks_the_dashboard(
    workspace: Workspace, cache: Path, ares: Callable[..., tuple[int, str, str]]
) -> None:
    searches = [["search", *words, "--json", "-w", workspace.path] for words in _SEARCHES]
    alone = [ares(*words)[1] for words in searches]
    with _dashboard(workspace, cache) as server:
        assert [ares(*words)[1] for words in searches] == alone
        assert len(json.loads(alone[1])) == 3
        code = (
            "import sys; from app.cli.main import main; sys.argv = ['ares', *sys.argv[1:]]; main();"
            "print(sorted({'lance', 'pyarrow', 'numpy'} & {*sys.modules}), file=sys.stderr)"
        )
        command = [sys.executable, "-c", code, *searches[0]]
        environ = {**os.environ, "ARES_CACHE": str(cache)}
        loaded = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environ)
        assert (loaded.stdout, loaded.stderr.strip()) == (alone[0], "[]"), "it searched by itself"
        status, _, errors = ares("search", "a", "--where", "colour = 1", "-w", workspace.path)
        assert status == 2 and "colour" in errors
        server.send_signal(signal.SIGTERM)
        server.wait(300)
        assert not _sockets(cache)
        assert ares(*searches[0])[1] == alone[0]


@pytest.mark.nightly
def test_a_killed_dashboard_is_no_obstacle(
    workspace: Workspace, cache: Path, ares: Callable[..., tuple[int, str, str]]
) -> None:
    arguments = ["search", "green drawer", "--json", "-w", workspace.path]
    alone = ares(*arguments)[1]
    with _dashboard(workspace, cache) as server:
        server.kill()
        server.wait(300)
        assert _sockets(cache)
        assert ares(*arguments)[1] == alone
        with _dashboard(workspace, cache):
            assert ares(*arguments)[1] == alone
