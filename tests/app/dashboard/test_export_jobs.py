"""Exports of the page: in separate processes that can be stopped, and that another server sees."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ares.curation import CurationSet
from ares.errors import RequestError
from ares.workspace import Workspace
from ares_app.server import Job, make_export_words, start_command, stop_job
from tests.app.job_waiting import wait_for_job


@pytest.fixture
def frozen(workspace: Workspace) -> CurationSet:
    return workspace.sets.create("exported", sorted(workspace.stores.tables.episodes.ids()), {})


def _start(workspace: Workspace, frozen: CurationSet, format: str, folder: Path) -> Job:
    words = make_export_words(frozen.label, folder, format, "instruction")
    return start_command(workspace.stores, words, "Ada", frozen.label)


def _suspend(job: Job) -> bool:
    """Halt the process of a job as soon as it has a number; whether it has."""
    if job.pid:
        os.kill(job.pid, signal.SIGSTOP)
    return bool(job.pid)


@pytest.mark.slow
def test_an_export_is_stopped_and_leaves_nothing(
    workspace: Workspace, frozen: CurationSet, tmp_path: Path
) -> None:
    """Also where the server ignores interrupts, as one of `nohup ares app &` does: a process inherits that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        started = _start(workspace, frozen, "lerobot", tmp_path / "stopped")
    finally:
        signal.signal(signal.SIGINT, before)
    job = wait_for_job(workspace.stores, "export", frozen.label, _suspend)
    with pytest.raises(RequestError, match="is running"):
        _start(workspace, frozen, "lerobot", tmp_path / "stopped")
    stop_job(workspace.stores, started, "Ben")
    os.kill(job.pid, signal.SIGCONT)
    ended = wait_for_job(workspace.stores, "export", frozen.label)
    assert (ended.state, ended.person, ended.stopped_by) == ("stopped", "Ada", "Ben")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_killed_export_is_seen_as_such_and_can_be_started_again(
    workspace: Workspace, frozen: CurationSet, tmp_path: Path
) -> None:
    _start(workspace, frozen, "parquet", tmp_path / "killed")
    job = wait_for_job(workspace.stores, "export", frozen.label, _suspend)
    os.kill(job.pid, signal.SIGKILL)
    assert wait_for_job(workspace.stores, "export", frozen.label).state == "lost"
    _start(workspace, frozen, "parquet", tmp_path / "killed")
    job = wait_for_job(workspace.stores, "export", frozen.label)
    assert job.state == "finished" and job.report == {"status": 0, "document": job.document}
    assert job.document["episodes"] + job.document["failed"] == frozen.episodes
