"""While an action is being applied, or was interrupted, page and HTTP API say so, or show what came of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest

from ares.curation import purge
from ares.errors import StoreError
from ares.settings import Settings
from ares.store.sync import apply
from ares.workspace import Workspace, open_workspace
from ares_app.cli.main import main
from ares_app.dashboard import cached_reads
from ares_app.server.api import make_api

_ALL = "num_steps > 0"


def _warnings() -> list[str]:
    app = AppTest.from_file(str(Path("app/dashboard/main.py").resolve()), default_timeout=300).run()
    assert not app.exception
    return [warning.value for warning in app.warning]


def test_what_another_process_is_applying_is_said(copied: Workspace) -> None:
    served, writer, person = (open_workspace(copied.path, Settings()) for _ in range(3))
    cached_reads.use_workspace(served)
    with TestClient(make_api(served)) as client, writer.stores.write_lock("ares annotate"):
        assert "x-ares-lag" not in client.get("/status").headers
        person.remove(where=_ALL)
        said = client.get("/status").headers["x-ares-lag"]
        assert re.match(r"the tables do not show action \d+ yet, as ares annotate \(process", said)
        assert _warnings() == [said]
        writer.stores.sync()
        assert "x-ares-lag" not in client.get("/status").headers
        assert _warnings() == []


def test_what_a_killed_command_left_is_completed(copied: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    served, person = (open_workspace(copied.path, Settings()) for _ in range(2))
    cached_reads.use_workspace(served)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with TestClient(make_api(served)) as client:
        assert client.get("/episodes").json()["total"] == 25
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(apply, "move_out_removed_episodes", stop)
            person.remove(where=_ALL)
        assert client.get("/episodes").json()["total"] == 0
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(apply, "forget_restored_episodes", stop)
        person.undo()
    assert _warnings() == []
    assert cached_reads.count_episodes("") == 25


def test_a_request_completes_a_purge_that_was_interrupted(
    copied: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = open_workspace(copied.path, Settings())

    def stop(*_: object) -> None:
        raise StoreError("the disk failed")

    with TestClient(make_api(served)) as client:
        assert client.get("/episodes").json()["total"] == 25
        with monkeypatch.context() as patch:
            patch.setattr(purge, "delete_rows_of", stop)
            assert main(["remove", "--purge", "--where", _ALL, "--yes", "-w", copied.path]) == 2
        assert client.get("/episodes").json()["total"] == 0
    assert not served.stores.annotations.position().has_purge
