"""A workspace under several jobs: two at once, a page beside a job, an index that one of them brings up to date."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from annotators.base import Annotator, Options, Result, Work
from annotators.facts import fact
from annotators.run import annotate
from ares import registry
from ares.annotation import Maker
from ares.doctor import examine
from ares.errors import AresError, RequestError
from ares.settings import from_environment
from ares.store import server
from ares.store.index import applied_sequence, forget_log
from ares.workspace import Workspace, open_workspace
from ingest.load import load

SETTINGS = from_environment({})


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    with closing(open_workspace(str(tmp_path / "workspace"), SETTINGS)) as opened:
        yield opened


def _start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "app.cli.main", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def test_jobs_at_once_do_all_the_work_once(ws: Workspace, demo_samples: Path) -> None:
    """Four real processes on one workspace: the same source twice, the same annotator twice."""
    load(ws, [str(demo_samples / "video")], quiet=True)
    jobs = [["ingest", str(demo_samples / "rlds")], ["annotate", "motion"]] * 2
    running = [_start(*job, "-w", ws.path, "--json") for job in jobs]
    told = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0] * 4, told
    assert sum("waiting: ares " in one for one in told) >= 1

    annotate(ws, ["motion"], Options(settings=SETTINGS), quiet=True)
    ids = [
        each for batch in ws.tables.episodes.scan(["episode_id"]) for each in batch["episode_id"].to_pylist()
    ]
    assert len(ids) == len(set(ids)) == ws.tables.trajectories.count() == 24
    assert ws.annotations.counts()["motion"] == 24
    assert len(ws.annotations.about(ids, ["motion"])) == 24
    assert applied_sequence(ws.tables) == ws.annotations.last_sequence()


def test_the_index_is_left_to_the_job_that_writes(ws: Workspace, demo_samples: Path) -> None:
    load(ws, [str(demo_samples / "video")], quiet=True)
    with closing(open_workspace(ws.path, SETTINGS)) as page:
        forget_log(ws.tables)
        with ws.writing("a job"):
            assert page.sync() == 0
            assert ws.sync() == 12
            forget_log(ws.tables)
        assert page.sync() == 12
        assert page.sync() == 0


def test_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RequestError, match="is no workspace: give an empty or a new folder"):
        open_workspace(str(tmp_path), SETTINGS)


def test_a_job_goes_on_when_its_database_is_killed_and_started_again(
    mongod: Any, demo_samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_WAIT_MS", 500)
    monkeypatch.setattr("annotators.write._FACTS_PER_WRITE", 2)
    maker, calls = Maker(annotator="mark", version="1"), list[str]()
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
        return [Result(annotations=[fact(work, maker, value={"n": len(calls)})]) for work in works]

    annotator = Annotator(maker=maker, process=answer, batch=1)
    monkeypatch.setattr(registry.annotators, "get", lambda name: lambda options, ws: annotator)
    with closing(
        open_workspace(str(tmp_path / "mongo"), from_environment({"ARES_MONGO_URI": mongod.uri}))
    ) as ws:
        load(ws, [str(demo_samples / "video")], quiet=True)
        (document,) = annotate(ws, ["mark"], Options(settings=SETTINGS), quiet=True)
        assert [document[name] for name in ("planned", "kept", "failed")] == [12, 12, 0]
        assert len(ws.annotations.about(sorted(ws.tables.episodes.ids()), ["mark"])) == 12
        assert examine(ws) == []
    ended.set()
    crasher.join()
