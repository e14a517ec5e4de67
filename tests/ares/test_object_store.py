"""A workspace on an object store, over a real S3 server and a real mongod: all commands, and many writers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ares.errors import RequestError, StoreError
from ares.io import parse_path
from ares.settings import settings_from_environment
from ares.workspace import open_workspace
from ares_app.cli.main import main

Ares = Callable[..., Any]


@pytest.fixture
def workspace_uri(
    s3_environ: Any, mongo_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """URI of a new workspace, with the environment that it needs."""
    monkeypatch.setenv("ARES_MONGO_URI", f"{mongo_uri}/s3_{uuid.uuid4().hex[:8]}")
    monkeypatch.setenv("ARES_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    yield f"s3://{s3_environ.bucket()}/lab/ws"


@pytest.fixture
def ares(workspace_uri: str, capsys: pytest.CaptureFixture[str]) -> Ares:
    """Runs a command on the workspace; its JSON document."""

    def run(*arguments: str, status: int = 0) -> Any:
        capsys.readouterr()
        assert main([*arguments, "-w", workspace_uri, "--json"]) == status, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run


@pytest.mark.slow
def test_the_whole_job(
    ares: Ares, workspace_uri: str, demo_samples: Path, reference_models: Path, tmp_path: Path
) -> None:
    source, clip = str(demo_samples / "video"), f"local-dir:{reference_models / 'reference-clip'}"
    assert ares("ingest", source)["kept"] == 12
    assert ares("ingest", source)["already"] == 12
    assert ares("annotate", "motion")["kept"] == 12
    assert ares("annotate", "embed", "--model", clip)["kept"] == 12
    hits = ares("search", "open the drawer", "--limit", "3")
    assert len(hits) == 3
    assert ares("search", "--like", hits[0]["episode_id"], "--limit", "2")
    assert ares("set", "create", "few", "--where", "num_steps > 0")["episodes"] == 12
    exported = ares("export", "few", str(tmp_path / "out"), "--format", "parquet")
    assert exported["episodes"] == 12
    status = ares("status")
    assert (status["workspace"], status["episodes"], status["sets"]) == (workspace_uri, 12, {"few": 12})
    assert status["annotations"]["embed"]["done"] == 12
    assert ares("doctor", "--repair") == []
    assert not any(tmp_path.rglob("*.lance")) and not any(tmp_path.rglob("annotations.sqlite"))


@pytest.mark.nightly
def test_a_table_whose_creator_was_killed_is_created_again(
    ares: Ares, workspace_uri: str, demo_samples: Path, s3_environ: Any
) -> None:
    assert ares("ingest", str(demo_samples / "rlds"))["kept"] == 12
    folder = f"{workspace_uri.removeprefix('s3://')}/lance/vectors_hash-8.lance"
    s3_environ.put(f"{folder}/_transactions/0-a.txn", b"half")
    assert ares("status")["episodes"] == 12
    assert ares("annotate", "embed", "--model", "hash:8")["kept"] == 12
    with open_workspace(workspace_uri, settings_from_environment()) as ws:
        assert ws.stores.tables.vectors("hash-8").count() > 12


@pytest.mark.slow
def test_without_mongodb_it_is_one_line_and_nothing_is_made(
    workspace_uri: str,
    demo_samples: Path,
    s3_environ: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ARES_MONGO_URI")
    assert main(["ingest", str(demo_samples / "video"), "-w", workspace_uri]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "keeps its annotations in MongoDB: set ARES_MONGO_URI" in line
    assert not any(method == "PUT" for method, _, _ in s3_environ.asked[1:])
    assert main(["status", "-w", workspace_uri]) == 2
    assert "there is no workspace at" in capsys.readouterr().err


def test_copies_and_strange_places_are_refused_in_one_line(
    workspace_uri: str, demo_samples: Path, s3_environ: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ingest", str(demo_samples / "video"), "-w", workspace_uri, "--media", "copy"]) == 2
    assert "videos cannot be copied to an object store" in capsys.readouterr().err
    s3_environ.put(f"{workspace_uri.removeprefix('s3://').rpartition('/')[0]}/notes/notes.txt", b"notes")
    with pytest.raises(RequestError, match="is not a workspace"):
        open_workspace(workspace_uri.rpartition("/")[0] + "/notes", settings_from_environment())
    s3_environ.broken.add("workspace.json")
    with pytest.raises(StoreError, match="the workspace cannot be reached"):
        open_workspace(workspace_uri, settings_from_environment())


def _run_concurrently(*scripts: str) -> list[str]:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        for script in scripts
    ]
    outputs = [process.communicate()[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return outputs


class _KillingList(list[tuple[str, str, str]]):
    """Requests of a server; a process is killed by the first that writes an object of a name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.processes: list[subprocess.Popen[bytes]] = []

    def append(self, request: tuple[str, str, str]) -> None:
        super().append(request)
        if request[0] == "PUT" and re.search(self.name, request[1]) and self.processes:
            self.processes.pop().kill()


@pytest.mark.slow
@pytest.mark.parametrize("name", [r"out\.tmp/\w+/data", "out/data", "out/manifest.json"])
def test_an_export_that_is_killed_is_whole_after_the_same_command(
    ares: Ares, workspace_uri: str, demo_samples: Path, s3_environ: Any, name: str, tmp_path: Path
) -> None:
    bucket = workspace_uri.removesuffix("/lab/ws")
    s3_environ.upload(demo_samples / "video", f"{bucket.removeprefix('s3://')}/source")
    assert ares("ingest", f"{bucket}/source")["kept"] == 12
    assert ares("set", "create", "all", "--where", "num_steps > 0")["episodes"] == 12
    command = ["export", "all", f"{bucket}/out", "--format", "lerobot"]
    asked, s3_environ.asked = s3_environ.asked, _KillingList(name)
    program = (
        f"from ares_app.cli.main import main\nraise SystemExit(main({[*command, '-w', workspace_uri]!r}))"
    )
    s3_environ.asked.processes.append(process := subprocess.Popen([sys.executable, "-c", program]))
    assert process.wait(timeout=120) == -signal.SIGKILL
    s3_environ.asked = asked
    exported = ares(*command)
    assert (exported["path"], exported["episodes"]) == (f"{bucket}/out", 12)
    with open_workspace(str(tmp_path / "again"), settings_from_environment()) as again:
        again.ingest(f"{bucket}/out", quiet=True)
        hashes = {episode.content_hash for episode in again.episodes}
    with open_workspace(workspace_uri, settings_from_environment()) as ws:
        assert hashes == {episode.content_hash for episode in ws.episodes}
    assert not parse_path(f"{bucket}/out.tmp").exists()


_OPEN = "from ares.settings import settings_from_environment as settings\nfrom ares.workspace import open_workspace\n"
_APPEND = """
import numpy as np
from ares_annotators.base import FrameVectors
for number in range(8):
    frames = {"seconds": np.zeros(5), "vectors": np.ones((5, 4), np.float32)}
    rows = FrameVectors(episode_id=f"{writer}/{number}", camera="c", **frames)
    ws.stores.tables.vectors("four").add([rows])
"""


@pytest.mark.slow
def test_two_who_make_it_at_once_make_one(workspace_uri: str) -> None:
    ids = _run_concurrently(
        *[f"{_OPEN}print(open_workspace({workspace_uri!r}, settings()).stores.workspace_id)"] * 3
    )
    assert len(set(ids)) == 1


@pytest.mark.nightly
def test_two_who_append_at_once_lose_no_row(workspace_uri: str) -> None:
    """Without any lock of ours: the store's own conditional writes make the commits follow one another."""
    open_workspace(workspace_uri, settings_from_environment()).close()
    _run_concurrently(
        *[
            f"{_OPEN}ws, writer = open_workspace({workspace_uri!r}, settings()), {writer}\n{_APPEND}"
            for writer in range(2)
        ]
    )
    ws = open_workspace(workspace_uri, settings_from_environment())
    assert ws.stores.tables.vectors("four").count() == 2 * 8 * 5
    ws.close()


@pytest.mark.slow
def test_two_jobs_at_once_wait_for_each_other(workspace_uri: str, demo_samples: Path) -> None:
    command = ["ingest", str(demo_samples / "video"), "-w", workspace_uri]
    _run_concurrently(*[f"from ares_app.cli.main import main\nassert main({command!r}) == 0"] * 2)
    with open_workspace(workspace_uri, settings_from_environment()) as ws:
        assert ws.stores.tables.episodes.count() == ws.stores.tables.trajectories.count() == 12
