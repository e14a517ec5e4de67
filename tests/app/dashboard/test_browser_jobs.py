"""The page Jobs: from an empty workspace to annotated episodes, seen by other pages without a reload."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_app.server import Job, list_all_jobs
from tests.app.dashboard.browser import AXE, SERVE_COMMAND, VIOLATIONS, open_tab, serve, visit
from tests.ingesting import ingest_paths

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    with open_workspace(str(tmp_path_factory.mktemp("jobs") / "w"), Settings(), create=True) as opened:
        ingest_paths(opened.stores, [str(demo_samples / "video")], quiet=True)
        yield opened


@pytest.fixture(scope="module")
def address(workspace: Workspace, demo_samples: Path) -> Iterator[str]:
    with serve(workspace, serve_command(demo_samples)) as address:
        yield address


def serve_command(source_folder: Path) -> str:
    """A server that may read one folder of sources."""
    return SERVE_COMMAND.replace("Settings()", f"Settings(source_dirs=({str(source_folder)!r},))")


def ended(workspace: Workspace, words: str, not_pid: int = 0) -> Job:
    """The job of a command, a pattern, once it has ended; of a later process than one."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        jobs = [job for job in list_all_jobs(workspace.stores) if re.search(words, job.name)]
        if jobs and jobs[0].ended and jobs[0].pid != not_pid:
            return jobs[0]
        time.sleep(0.05)
    pytest.fail(f"{words} does not end")


def test_an_empty_workspace_is_filled_from_the_page(
    browser: Browser, tmp_path: Path, demo_samples: Path
) -> None:
    with (
        open_workspace(str(tmp_path / "w"), Settings(), create=True) as empty,
        serve(empty, serve_command(demo_samples)) as address,
        open_tab(browser, address) as page,
    ):
        fill_workspace(page, address, empty)


def fill_workspace(page: Page, address: str, workspace: Workspace) -> None:
    """Plan and start an ingestion, from the words of an empty page."""
    visit(page, address)
    page.get_by_role("button", name="Ingest from here").click()
    page.get_by_role("textbox", name="File or folder on the server").fill("../../../..")
    page.keyboard.press("Tab")
    expect(page.get_by_text("outside of the allowed folders")).to_be_visible()
    page.get_by_role("textbox", name="File or folder on the server").fill("video")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_text("plan of ingest").first).to_be_visible()
    assert ended(workspace, "ingest.*--dry-run").report["document"]["episodes"] == 12  # type: ignore[index]
    assert workspace.stores.tables.episodes.count() == 0
    page.get_by_role("button", name="Start it").click()
    job = ended(workspace, "ingest.*video$")
    assert job.state == "finished" and job.person
    assert workspace.stores.tables.episodes.count() == 12
    expect(page.get_by_text("Report").first).to_be_visible()
    assert page.evaluate(VIOLATIONS, AXE.read_text()) == []


def test_another_page_says_what_has_changed_and_shows_it(
    page: Page, address: str, workspace: Workspace
) -> None:
    page.goto(address)
    expect(page.get_by_text("12 of 12 episodes")).to_be_visible()
    expect(page.get_by_text("late", exact=True)).to_have_count(0)
    workspace.tag("late", sorted(workspace.stores.tables.episodes.ids())[:1])
    page.get_by_role("button", name=re.compile(r"new changes?, show")).click()
    expect(page.get_by_text("late", exact=True)).not_to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("show$"))).to_have_count(0)


def is_running(job: Job, name: str) -> bool:
    return job.name == name and job.pid != 0 and not job.ended


def test_a_job_is_stopped_killed_and_resumed(page: Page, address: str, workspace: Workspace) -> None:
    visit(page, f"{address}/jobs?job=annotate&names=motion")
    page.get_by_role("button", name="Start", exact=True).click()
    deadline = time.monotonic() + 300
    while not (
        jobs := [job for job in list_all_jobs(workspace.stores) if is_running(job, "annotate motion")]
    ):
        assert time.monotonic() < deadline
    os.kill(jobs[0].pid, signal.SIGKILL)
    expect(page.get_by_text("its process was killed")).to_be_visible()
    page.get_by_role("button", name="Resume").first.click()
    assert ended(workspace, "annotate motion$", jobs[0].pid).state == "finished"
