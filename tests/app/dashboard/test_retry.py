"""Failed work that is tried again from the page."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ares.annotation import Producer
from ares.curation import list_failures
from ares.errors import ModelError, RequestError
from ares.jobs import FailureLog
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from ares_annotators.caption import CaptionAnnotator
from ares_app.dashboard import cached_reads
from ares_app.server import PLAN, Job, find_job_path, resume_job, start_command, stop_job
from ares_app.server.jobs import take_job_lock, write_job
from tests.app.dashboard.browser import SERVE_COMMAND, act_on_row, open_tab, serve, wait_until_drawn
from tests.app.drawn import draw
from tests.app.job_waiting import wait_for_job

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A model that replies the rest of its name.
FREE, WORDS = "stub:open the drawer", ("annotate", "caption", "--retry-failed")
REASON = "model server cannot be reached"


@pytest.fixture
def free(tmp_path: Path, demo_samples: Path) -> Iterator[Workspace]:
    """Three episodes whose captions have failed."""
    settings = Settings(caption_model=FREE)
    workspace = open_workspace(str(tmp_path / "free"), settings)
    workspace.ingest(demo_samples / "video", limit=3, quiet=True)
    producer = CaptionAnnotator(Options(settings=settings, load_models=False), workspace.stores).producer
    workspace.stores.annotations.add_producer(producer)
    error = ModelError(REASON, "after 30 s")
    log = FailureLog(workspace.stores.annotations, f"caption/{producer.maker_id}")
    log.record(dict.fromkeys(workspace.stores.tables.episodes.ids(), error), ())
    yield workspace
    workspace.close()


@pytest.mark.slow
def test_a_button_tries_a_failed_caption_again_and_another_all_of_an_annotator(
    browser: Browser, free: Workspace
) -> None:
    first, *_rest = sorted(free.stores.tables.episodes.ids())
    command = SERVE_COMMAND.replace("Settings()", f"Settings(caption_model={FREE!r})")
    with serve(free, command) as address, open_tab(browser, address) as page:
        page.goto(f"{address}/episode?episode={first}")
        page.get_by_text(REASON).wait_for()
        wait_until_drawn(page)
        page.get_by_role("button", name="Try caption again").click()
        expect(page.get_by_label("Only episodes of this filter")).to_have_value(re.compile(first))
        page.get_by_role("button", name="Start", exact=True).click()
        page.get_by_text("done, started").wait_for()
        page.goto(f"{address}/episode?episode={first}")
        expect(page.get_by_label("Caption", exact=True)).to_have_value(re.compile("open the drawer"))
        expect(page.get_by_text(REASON)).to_have_count(0)
        assert len(list(list_failures(free.stores))) == 2
        page.goto(f"{address}/quality")
        act_on_row(page, "quality-failures")
        page.get_by_role("button", name="Try caption again").wait_for()
        # The table of the failures behind a reason: a button opens the episode of its row.
        act_on_row(page, "quality-failed")
        page.wait_for_url(re.compile("/episode.episode="))
        page.get_by_text(REASON).wait_for()
        page.go_back()
        # What was selected is shown still; the page before has a button of the same name.
        page.locator(".st-key-quality-failed-table canvas").first.wait_for()
        wait_until_drawn(page)
        page.get_by_role("button", name="Try caption again").click()
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.get_by_text("done, started")).to_have_count(2)
    assert not list(list_failures(free.stores))
    assert free.stores.tables.episodes.count("caption = 'open the drawer'") == 3


def _suspend(job: Job) -> bool:
    if job.pid:
        os.kill(job.pid, signal.SIGSTOP)
    return bool(job.pid)


@pytest.mark.slow
def test_a_try_is_stopped_and_its_end_is_seen_by_another_server(free: Workspace) -> None:
    start_command(free.stores, [*WORDS, PLAN], "Ada")
    plan = wait_for_job(free.stores, "annotate", "")
    assert plan.document["planned"] == 3
    started = resume_job(free.stores, plan, "Ada")
    job = wait_for_job(free.stores, "annotate", "", _suspend)
    with pytest.raises(RequestError, match="is running"):
        resume_job(free.stores, plan, "Ada")
    stop_job(free.stores, started, "Ben")
    os.kill(job.pid, signal.SIGCONT)
    assert wait_for_job(free.stores, "annotate", "").state == "stopped"
    cached_reads.use_workspace(free)
    assert any(caption.value.startswith("stopped by Ben, started") for caption in draw("jobs").caption)


def test_a_job_without_a_document_is_drawn(free: Workspace) -> None:
    """As its output may be, of an earlier version too, where a plug-in has printed into it."""
    job = Job(words=WORDS, started="2026-01-01", state="finished")
    write_job(find_job_path(free.stores, WORDS), job, report={"status": 0, "document": {}})
    cached_reads.use_workspace(free)
    app = draw("jobs")
    assert not app.exception and not app.error
    assert any(caption.value.startswith("done, started 2026-01-01") for caption in app.caption)


def test_a_running_job_says_its_count_its_rate_and_the_time_left(free: Workspace) -> None:
    path = find_job_path(free.stores, WORDS)
    lock = take_job_lock(path)  # as the process of the job holds it
    job = Job(words=WORDS, started="2026-01-01", step="caption", done=40, total=100, left_seconds=30.0)
    write_job(path, job)
    cached_reads.use_workspace(free)
    (progress,) = draw("jobs").get("progress")
    os.close(lock)
    assert progress.proto.text.replace("\\", "") == "caption: 40 of 100, 2 a second, about 30 s left"


def test_failed_work_of_an_annotator_that_is_gone_is_shown(free: Workspace) -> None:
    episode_id = min(free.stores.tables.episodes.ids())
    producer = Producer(annotator="gone", version="1")
    free.stores.annotations.add_producer(producer)
    log = FailureLog(free.stores.annotations, f"gone/{producer.maker_id}")
    log.record({episode_id: ModelError(REASON, "")}, ())
    cached_reads.use_workspace(free)
    app = draw("episode", {"episode": episode_id})
    assert any("gone failed" in box.value for box in app.warning) and not app.error
    assert [button.label for button in app.button if button.label.startswith("Try ")] == ["Try caption again"]
