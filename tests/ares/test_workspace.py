"""A workspace with several jobs: two at once, a page beside a job, tables that one of them updates."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from annotators.base import Options, Result, Work, new_annotation
from ares import registry
from ares.annotation import Producer
from ares.doctor import run_checks
from ares.errors import AresError, RequestError
from ares.settings import settings_from_environment
from ares.store import applied_sequence, reset_applied_sequence
from ares.store.log import mongo_connection as mongo_client
from ares.workspace import Workspace, open_workspace
from tests.annotators.runs import annotate
from tests.ingesting import ingest_paths

SETTINGS = settings_from_environment({})


def _start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "app.cli.main", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


@pytest.mark.nightly
def test_jobs_at_once_do_all_the_work_once(video_ws: Workspace, demo_samples: Path) -> None:
    """Four real processes on one workspace: the same source twice, the same annotator twice."""
    ws = video_ws
    jobs = [["ingest", str(demo_samples / "rlds")], ["annotate", "motion"]] * 2
    processes = [_start(*job, "-w", ws.path, "--json") for job in jobs]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, errors
    assert sum("waiting: ares " in error for error in errors) >= 1

    annotate(ws.stores, ["motion"], Options(settings=SETTINGS), quiet=True)
    ids = ws.stores.tables.episodes.read_columns(["episode_id"])["episode_id"].to_pylist()
    assert len(ids) == len(set(ids)) == ws.stores.tables.trajectories.count() == 24
    assert ws.stores.annotations.count_episodes()["motion"] == 24
    assert len(ws.stores.annotations.find_annotations(ids, ["motion"])) == 24
    assert applied_sequence(ws.stores.tables) == ws.stores.annotations.last_sequence()


def test_the_index_is_left_to_the_job_that_writes(video_ws: Workspace) -> None:
    with closing(open_workspace(video_ws.path, SETTINGS)) as page:
        reset_applied_sequence(video_ws.stores.tables)
        with video_ws.stores.write_lock("a job"):
            assert page.sync() == 0
            assert video_ws.sync() == 12
            reset_applied_sequence(video_ws.stores.tables)
        assert page.sync() == 12
        assert page.sync() == 0


def test_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(RequestError, match="is not a workspace: choose an empty folder"):
        open_workspace(str(tmp_path), SETTINGS)


@pytest.mark.nightly
def test_a_job_goes_on_when_its_database_is_killed_and_started_again(
    mongod: Any, demo_samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo_client, "_SERVER_SELECTION_MS", 500)
    monkeypatch.setattr("annotators.runner.writer._ANNOTATIONS_PER_WRITE", 2)
    producer, calls = Producer(annotator="fragile", version="1"), list[str]()
    crash, ended = threading.Event(), threading.Event()

    def kill_and_start() -> None:
        crash.wait()
        mongod.kill()
        time.sleep(1.5)
        mongod.start()
        ended.wait()  # the server dies with the thread that started it

    crasher = threading.Thread(target=kill_and_start, daemon=True)
    crasher.start()

    def answer(works: Sequence[Work]) -> list[Result | AresError]:
        calls.append("")
        if len(calls) == 3:
            crash.set()
        return [
            Result(annotations=[new_annotation(work, producer, value={"n": len(calls)})]) for work in works
        ]

    annotator = SimpleNamespace(producer=producer, process=answer, batch_size=1)
    monkeypatch.setattr(registry.annotators, "get", lambda name: lambda options, stores: annotator)
    settings = settings_from_environment({"ARES_MONGO_URI": mongod.uri})
    with closing(open_workspace(str(tmp_path / "mongo"), settings)) as ws:
        ingest_paths(ws.stores, [str(demo_samples / "video")], quiet=True)
        (report,) = annotate(ws.stores, ["fragile"], Options(settings=SETTINGS), quiet=True)
        assert (report.planned, report.kept, report.failed) == (12, 12, 0)
        ids = sorted(ws.stores.tables.episodes.ids())
        assert len(ws.stores.annotations.find_annotations(ids, ["fragile"])) == 12
        assert run_checks(ws.stores) == []
    ended.set()
    crasher.join()
