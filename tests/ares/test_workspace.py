"""A workspace under several jobs: two at once, a page beside a job, an index that one of them brings up to date."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from annotators.base import Options
from annotators.run import annotate
from ares.errors import RequestError
from ares.settings import from_environment
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
