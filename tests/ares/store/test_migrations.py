"""A workspace of an older layout is migrated when it is opened, also after a migration that was killed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
from pymongo import MongoClient

import ares
from ares.doctor import run_checks
from ares.episode import Record
from ares.errors import StoreError
from ares.settings import settings_from_environment
from ares.store import open_stores, stores as opened_stores
from ares.store.folder_lock import WorkspaceBusy, lock_folder
from ares.store.log.mongo import MongoAnnotationStore
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.store.manifest import FORMAT
from tests.workspaces import CommandResult

FIXTURE = Path(__file__).parents[2] / "fixtures" / "workspace_v1.tar.xz"
# Keys of producers and of their columns that layout 1 did not have.
_NEW_KEYS = ("kind", "subject_kind", "after", "fills_segments", "rollup", "needs_current_maker", "is_outcome")

# Opens a workspace, and kills itself just before or after the Nth call of a function.
KILLER = """
import importlib, os, signal, sys
from ares.settings import settings_from_environment
import ares.store.sync.apply, ares.store.stores
ares.store.sync.apply._READ_BATCH, ares.store.sync.apply._WRITE_BATCH = 40, 40
path, module, name, after, calls_until_death = *sys.argv[1:4], sys.argv[4] == "after", int(sys.argv[5])
owner = importlib.import_module(module)
*parents, leaf = name.split(".")
for parent in parents:
    owner = getattr(owner, parent)
real, calls = getattr(owner, leaf), [0]
def dying(*arguments, **options):
    calls[0] += 1
    if calls[0] == calls_until_death and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    result = real(*arguments, **options)
    if calls[0] == calls_until_death:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, leaf, dying)
from ares.store import open_stores
open_stores(path, settings_from_environment({}))
"""
OPENER = """
import sys
from ares.settings import settings_from_environment
from ares.store import open_stores
open_stores(sys.argv[1], settings_from_environment({})).close()
"""
MIGRATIONS, EPISODES = "ares.store.stores", "ares.store.lance.episodes"
# One of each kind of write; `make torture` kills migrations anywhere.
KILL_POINTS = [
    ("ares.store.lance_tables", "LanceConnection.drop_table", "before", 1),
    ("ares.store.sync.apply", "write_changes", "after", 1),
    ("ares.store.sync.apply", "save_applied_state", "before", 2),
    (MIGRATIONS, "write_format", "before", 2),
    (EPISODES, "EpisodeTable._add_columns", "after", 1),
    ("pathlib", "Path.replace", "before", 1),
]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of layout 1, which is only copied."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "workspace"


@pytest.fixture
def old_workspace(unpacked: Path, tmp_path: Path) -> Path:
    """A workspace of layout 1."""
    return Path(shutil.copytree(unpacked, tmp_path / "workspace"))


@pytest.fixture(scope="module")
def migrated(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a workspace holds after a migration that nothing disturbed."""
    return content(Path(shutil.copytree(unpacked, tmp_path_factory.mktemp("complete") / "workspace")))


def content(path: Path, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Everything that a migration writes, and what the doctor says of it."""
    stores = open_stores(str(path), settings_from_environment(environment or {}))
    columns = sorted(set(stores.tables.episodes.columns()) - {"ingested"})
    batches = stores.tables.episodes.scan(columns, order_by="episode_id")
    held = {
        "format": json.loads((path / "workspace.json").read_text())["format"],
        "rows": [row for batch in batches for row in batch.to_pylist()],
        "segments": stores.tables.segments.read().to_pylist(),
        "makers": stores.annotations.producers(),
        "findings": [finding for finding in run_checks(stores) if "source file" not in finding.check],
    }
    stores.close()
    return held


def test_an_old_workspace_is_migrated(migrated: dict[str, Any]) -> None:
    assert migrated["format"] == 3 and migrated["findings"] == []
    assert any(row["acceptable"] for row in migrated["rows"])
    assert all(row["segment_id"] for row in migrated["segments"])


@pytest.mark.slow
@pytest.mark.parametrize("kill_point", KILL_POINTS)
def test_a_killed_migration_is_taken_up(
    kill_point: tuple[str, str, str, int], old_workspace: Path, migrated: dict[str, Any]
) -> None:
    command = [sys.executable, "-c", KILLER, str(old_workspace), *map(str, kill_point)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert content(old_workspace) == migrated


def test_a_value_that_fits_no_column_is_told_and_stops_nothing(
    old_workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = SqliteAnnotationStore(old_workspace / "annotations.sqlite")
    motion = next(entry.annotation for entry in log.read() if entry.annotation.name == "motion")
    log.append([replace(motion, value={"path_length": "far"}, start_seconds=0.5)])
    log.close()
    stores = open_stores(str(old_workspace), settings_from_environment({}))
    assert "'path_length' is float64, but got 'far'" in capsys.readouterr().err
    assert json.loads((old_workspace / "workspace.json").read_text())["format"] == 3
    assert stores.tables.segments.count() > 0
    stores.close()


@pytest.mark.slow
def test_two_processes_migrate_at_once(old_workspace: Path, migrated: dict[str, Any]) -> None:
    command = [sys.executable, "-c", OPENER, str(old_workspace)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    messages = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], messages
    assert [message.count("migrating") for message in messages] in ([0, FORMAT - 1], [FORMAT - 1, 0])
    assert content(old_workspace) == migrated


@pytest.mark.slow
def test_mongodb_of_layout_1(
    old_workspace: Path, migrated: dict[str, Any], mongo_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((old_workspace / "workspace.json").read_text())
    manifest |= {"workspace_id": uuid.uuid4().hex, "annotations": "mongo"}
    log = SqliteAnnotationStore(old_workspace / "annotations.sqlite")
    store = MongoAnnotationStore(mongo_uri, manifest["workspace_id"])
    store.append([annotation for _, annotation in log.read()])
    for name in ("sets", "failures", "jobs", "spaces"):
        store.put_documents(name, dict(log.find_documents(name)))
    for maker_id, body in log._rows("SELECT maker_id, body FROM makers"):
        assert not any(f'"{name}"' in body for name in _NEW_KEYS), "the fixture is of layout 1"
        store._producers.insert_one({"_id": maker_id, "body": body})
    for opened in (log, store):
        opened.close()
    (old_workspace / "annotations.sqlite").unlink()
    (old_workspace / "workspace.json").write_text(json.dumps(manifest))
    held = content(old_workspace, {"ARES_MONGO_URI": mongo_uri})
    with MongoClient[dict[str, Any]](mongo_uri) as client:
        client.drop_database(f"ares_{manifest['workspace_id'][:12]}")
    for name in ("format", "rows", "segments", "makers"):
        assert held[name] == migrated[name], name
    assert "migrating" in capsys.readouterr().err


@pytest.mark.parametrize("layout", [FORMAT + 1, True, "3", 2.0, 0, None])
def test_a_layout_that_cannot_be_read_is_one_line_and_nothing_is_touched(
    old_workspace: Path, layout: object, run_ares: Callable[..., CommandResult]
) -> None:
    manifest = json.loads((old_workspace / "workspace.json").read_text())
    (old_workspace / "workspace.json").write_text(json.dumps(manifest | {"format": layout, "ares": "9.1.0"}))
    before = _hashes(old_workspace)
    result = run_ares("status", "-w", old_workspace)
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert f"the workspace has format {layout!r}, written by ARES 9.1.0" in result.err
    assert f"this is ARES {ares.__version__}, which reads formats 1 to {FORMAT}" in result.err
    assert _hashes(old_workspace) == before


def test_a_workspace_says_which_version_wrote_its_layout(old_workspace: Path, tmp_path: Path) -> None:
    for path in (old_workspace, tmp_path / "new"):
        open_stores(str(path), settings_from_environment({})).close()
        assert json.loads((path / "workspace.json").read_text())["ares"] == ares.__version__
        assert not list(path.glob("workspace.json?*")), "what was written on the way is gone"


def _hashes(folder: Path) -> dict[str, str]:
    """Hash of every file, by its path in the folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_workspace_that_cannot_be_written_is_reported(
    old_workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    run_ares: Callable[..., CommandResult],
) -> None:
    """Whoever runs the tests may write everywhere, so that the system refuses it here by itself."""
    open_file = os.open

    def refuse(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if str(path).startswith(str(old_workspace)) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(number, os.strerror(number), str(path))
        return open_file(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    result = run_ares("status", "-w", old_workspace)
    assert result.status != 0 and result.err.count("\n") == 1
    assert "cannot be written here" in result.err and os.strerror(number) in result.err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("flock") is None, reason="macOS has no flock")
def test_a_copy_under_flock_and_a_job_wait_for_each_other(old_workspace: Path) -> None:
    """The command of docs/operations.md takes the lock that jobs take."""
    stores = open_stores(str(old_workspace), settings_from_environment({}))
    copy = ["flock", "-n", str(old_workspace / ".writing.lock"), "true"]
    with stores.write_lock("a job"):
        assert subprocess.run(copy, timeout=300).returncode == 1
    assert subprocess.run(copy, timeout=300).returncode == 0
    with (
        subprocess.Popen(
            [*copy[:1], *copy[2:3], "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as held,
        pytest.raises(WorkspaceBusy),
    ):
        assert held.stdin is not None and held.stdout is not None
        held.stdin.write(b"locked\n")
        held.stdin.flush()
        assert held.stdout.readline() == b"locked\n"
        with lock_folder(old_workspace, "another job", wait=False):
            pass
    stores.close()


def test_an_episode_whose_trajectory_is_missing_keeps_its_rate(old_workspace: Path) -> None:
    table = lance.dataset(str(old_workspace / "lance" / "episodes.lance"))
    before = table.to_table(["episode_id", "rate_hz", "rate_source"]).to_pylist()[0]
    where = f"episode_id = '{before['episode_id']}'"
    lance.dataset(str(old_workspace / "lance" / "trajectories.lance")).delete(where)
    stores = open_stores(str(old_workspace), settings_from_environment({}))
    [row] = stores.tables.episodes.read_columns([*before, "frame_pairing"], where).to_pylist()
    stores.close()
    assert row.pop("frame_pairing") in ("index", "stamp") and row == before


@pytest.mark.parametrize(
    ("format", "rate_source", "pairing", "rate_hz"),
    [
        ("lerobot", "spec", "index", 20.0),
        ("mcap", "source", "stamp", 20.0),
        ("rlds", "source", "index", 10.0),  # the stamps that are there were counted by the rate
        ("lerobot", "assumed", "index", 10.0),
    ],
)
def test_a_migration_lets_stored_stamps_decide_the_rate_where_they_are_those_of_the_source(
    make_record: Callable[..., Record], format: str, rate_source: str, pairing: str, rate_hz: float
) -> None:
    record = make_record(1, steps=41, format=format, rate_source=rate_source, cameras=())
    trajectory = replace(record.trajectory, timestamps=np.arange(41) / 20)
    settled = opened_stores._settle_stored_clock(record.episode, trajectory)
    assert settled.frame_pairing == pairing and settled.rate_hz == pytest.approx(rate_hz)


@pytest.mark.parametrize(
    ("text", "detail"),
    [("{", "Expecting"), ("[1]", "it needs"), ('{"format": 3}', "it needs"), ("[" * 100_000, "recursion")],
)
def test_a_workspace_file_that_is_none_is_told_in_one_line(tmp_path: Path, text: str, detail: str) -> None:
    (tmp_path / "workspace.json").write_text(text)
    with pytest.raises(StoreError, match=rf"workspace\.json' cannot be read: .*{detail}"):
        open_stores(str(tmp_path), settings_from_environment({}))
