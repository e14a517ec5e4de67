"""Failed work that is tried again from the page, after a plan has said what that costs."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ares.annotation import Producer
from ares.curation import list_failures
from ares.episode import Json
from ares.errors import ModelError, ReadOnlyWorkspace, RequestError
from ares.jobs import FailureLog
from ares.registry import annotators
from ares.settings import Price, Settings
from ares.store import Stores
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from ares_annotators.caption import CaptionAnnotator
from ares_annotators.options import AnnotatorOptions, takes_options
from ares_app.cli.option_models import read_annotator_options
from ares_app.dashboard import Retry, cached_reads
from ares_app.dashboard.failed_work import ALL_FAILURES, plan_retry
from ares_app.server import PLAN, Job, find_job_path, resume_job, start_command, stop_job
from ares_app.server.jobs import take_job_lock, write_job
from tests.app.dashboard.browser import SERVE_COMMAND, act_on_row, open_tab, serve
from tests.app.drawn import commands, draw
from tests.app.job_waiting import wait_for_job

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A model that replies the rest of its name; and a paid one behind a server that does not listen.
FREE, PAID = "stub:open the drawer", "openai:gpt-4o@http://127.0.0.1:9/v1"
REASON = "model server cannot be reached"


def _open(folder: Path, samples: Path, settings: Settings) -> tuple[Workspace, Retry]:
    """Three episodes whose captions have failed, and what tries them again."""
    workspace = open_workspace(str(folder), settings)
    workspace.ingest(samples / "video", limit=3, quiet=True)
    producer = CaptionAnnotator(Options(settings=settings, load_models=False), workspace.stores).producer
    workspace.stores.annotations.add_producer(producer)
    error = ModelError(REASON, "after 30 s")
    log = FailureLog(workspace.stores.annotations, f"caption/{producer.maker_id}")
    log.record(dict.fromkeys(workspace.stores.tables.episodes.ids(), error), ())
    return workspace, Retry(work="caption", maker_id=producer.maker_id)


@pytest.fixture
def free(tmp_path: Path, demo_samples: Path) -> Iterator[tuple[Workspace, Retry]]:
    workspace, retry = _open(tmp_path / "free", demo_samples, Settings(caption_model=FREE))
    yield workspace, retry
    workspace.close()


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[tuple[Workspace, Retry]]:
    settings = Settings(caption_model=PAID, price=Price(usd_per_mtok_in=2.5, usd_per_mtok_out=10.0))
    workspace, retry = _open(tmp_path_factory.mktemp("paid") / "w", demo_samples, settings)
    yield workspace, retry
    workspace.close()


OWN, STRANGER = "openai:m@http://127.0.0.1:9/v1", "openai:m@http://stranger.example/v1"
UNREADABLE = "openai:m@http://[::1/v1"


@pytest.mark.parametrize(
    ("judge", "work", "settings", "flags"),
    [
        # A workspace does not choose the server of another try.
        (OWN, "grade", {"judge": [STRANGER], "rubric": "caption"}, []),
        # A producer holds an id or a hash where a person gives a path.
        (FREE, "success", {"combination": "clip 1.0.0", "combination_hash": "1f"}, []),
        (FREE, "motion", {"end_effector": "tool0"}, []),
        (FREE, "caption", {"layout": "gone"}, []),
        (FREE, "grade", {"rubric": "of-the-lab"}, []),
        (FREE, "grade", {"per": "segment", "rubric": "of-the-lab"}, []),
    ],
)
def test_options_that_no_run_takes_are_left_out_of_another_try(
    judge: str, work: str, settings: dict[str, Json], flags: list[str], tmp_path: Path
) -> None:
    given = Settings(caption_model=FREE, judge_model=judge)
    with open_workspace(str(tmp_path / "w"), given) as workspace:
        producer = Producer(annotator=work, version="1", settings=settings)
        workspace.stores.annotations.add_producer(producer)
        words = Retry(work=work, maker_id=producer.maker_id).words(workspace.stores)
    assert words == ["annotate", work, "--retry-failed", *flags]


def test_the_command_line_beside_the_button_is_what_the_button_runs(free: tuple[Workspace, Retry]) -> None:
    workspace, _ = free
    episode_id = min(workspace.stores.tables.episodes.ids())
    producer = Producer(annotator="caption", version="1", settings={"layout": "tiles"})
    workspace.stores.annotations.add_producer(producer)
    log = FailureLog(workspace.stores.annotations, f"caption/{producer.maker_id}")
    log.record({episode_id: ModelError("no reply", "")}, ())
    retry = Retry(work="caption", maker_id=producer.maker_id, episode_id=episode_id)
    words = retry.words(workspace.stores)
    assert words[-1] == '--options={"annotators": {"caption": {"layout": "tiles"}}}'
    cached_reads.use_workspace(workspace)
    lines = commands(draw("episode", {"episode": episode_id}))
    assert shlex.join(["ares", *words, "--workspace", workspace.path]) in lines


@pytest.mark.slow
def test_a_button_tries_a_failed_caption_again_and_another_all_of_a_reason(
    browser: Browser, free: tuple[Workspace, Retry]
) -> None:
    workspace, _ = free
    first, *_rest = sorted(workspace.stores.tables.episodes.ids())
    command = SERVE_COMMAND.replace("Settings()", f"Settings(caption_model={FREE!r})")
    with serve(workspace, command) as address, open_tab(browser, address) as page:
        page.goto(f"{address}/episode?episode={first}")
        page.get_by_text(REASON).wait_for()
        page.get_by_role("button", name="Try caption again").click()
        page.get_by_role("button", name="Start it").click()
        page.get_by_text("caption again: 1 done, none failed").wait_for()
        page.get_by_text(REASON).wait_for(state="detached")
        expect(page.get_by_label("Caption", exact=True)).to_have_value(re.compile("open the drawer"))
        assert len(list(list_failures(workspace.stores))) == 2
        page.goto(f"{address}/quality")
        act_on_row(page, "quality-failures")
        page.get_by_role("button", name="Try all of them again with caption").wait_for()
        # The table of the failures behind a reason: a button opens the episode of its row.
        act_on_row(page, "quality-failed")
        page.wait_for_url(re.compile("/episode.episode="))
        page.get_by_text(REASON).wait_for()
        page.go_back()
        act_on_row(page, "quality-failures")
        page.get_by_role("button", name="Try all of them again with caption").click()
        page.get_by_role("button", name="Start it").click()
        page.get_by_text("caption again: 2 done, none failed").wait_for()
        page.get_by_role("heading", name="Work that failed").wait_for(state="detached")
    assert not list(list_failures(workspace.stores))
    assert workspace.stores.tables.episodes.count("caption = 'open the drawer'") == 3


def _suspend(job: Job) -> bool:
    if job.pid:
        os.kill(job.pid, signal.SIGSTOP)
    return bool(job.pid)


@pytest.mark.slow
def test_a_try_is_stopped_and_its_end_is_seen_by_another_server(free: tuple[Workspace, Retry]) -> None:
    workspace, retry = free
    plan_retry(workspace.stores, retry, "Ada")
    plan = wait_for_job(workspace.stores, "annotate", ALL_FAILURES)
    assert plan.document["planned"] == 3
    started = resume_job(workspace.stores, plan, "Ada")
    job = wait_for_job(workspace.stores, "annotate", ALL_FAILURES, _suspend)
    with pytest.raises(RequestError, match="is running"):
        resume_job(workspace.stores, plan, "Ada")
    stop_job(workspace.stores, started, "Ben")
    os.kill(job.pid, signal.SIGCONT)
    assert wait_for_job(workspace.stores, "annotate", ALL_FAILURES).state == "stopped"
    cached_reads.use_workspace(workspace)
    assert any(caption.value.startswith("stopped by Ben, started") for caption in draw("quality").caption)


@pytest.mark.slow
def test_what_another_try_costs_is_said_before_it_starts(paid: tuple[Workspace, Retry]) -> None:
    workspace, _ = paid
    cached_reads.use_workspace(workspace)
    episode_id = min(workspace.stores.tables.episodes.ids())
    app = draw("episode", {"episode": episode_id})
    next(button for button in app.button if button.label == "Try caption again").click().run()
    plan = wait_for_job(workspace.stores, "annotate", episode_id)
    assert PLAN in plan.words and (plan.document["planned"], plan.document["calls"]) == (1, 1)
    assert plan.document["usd"] > 0
    app = draw("episode", {"episode": episode_id})
    next(button for button in app.button if button.label == "Start it").click().run()
    job = wait_for_job(workspace.stores, "annotate", episode_id)
    assert (job.state, job.reason) == ("failed", REASON)


@pytest.mark.slow
def test_a_try_with_another_model_than_the_run_that_failed_is_no_success(
    free: tuple[Workspace, Retry],
) -> None:
    workspace, retry = free
    words = retry.words(workspace.stores)
    with open_workspace(workspace.path, Settings(caption_model="stub:close the drawer")) as other:
        start_command(other.stores, words, "Ada", ALL_FAILURES)
        assert wait_for_job(other.stores, "annotate", ALL_FAILURES).state == "finished"
    cached_reads.use_workspace(workspace)
    app = draw("quality")
    (error,) = [box.value for box in app.error]
    assert "nothing was tried" in error and "had another model" in error
    assert not [box.value for box in app.success if "caption again" in box.value]
    assert len(list(list_failures(workspace.stores))) == 3


def test_a_job_without_a_document_is_drawn(free: tuple[Workspace, Retry]) -> None:
    """As its output may be, of an earlier version too, where a plug-in has printed into it."""
    workspace, retry = free
    words = tuple(retry.words(workspace.stores))
    job = Job(words=words, subject=ALL_FAILURES, started="2026-01-01", state="finished")
    write_job(find_job_path(workspace.stores, words), job, report={"status": 0, "document": {}})
    cached_reads.use_workspace(workspace)
    app = draw("quality")
    assert not app.exception and not app.error
    assert any(caption.value.startswith("done, started 2026-01-01") for caption in app.caption)


def test_a_running_job_says_its_count_its_rate_and_the_time_left(free: tuple[Workspace, Retry]) -> None:
    workspace, _ = free
    words = ("annotate", "caption")
    path = find_job_path(workspace.stores, words)
    lock = take_job_lock(path)  # as the process of the job holds it
    job = Job(words=words, started="2026-01-01", step="caption", done=40, total=100, left_seconds=30.0)
    write_job(path, job)
    cached_reads.use_workspace(workspace)
    (progress,) = draw("jobs").get("progress")
    os.close(lock)
    assert progress.proto.text.replace("\\", "") == "caption: 40 of 100, 2 a second, about 30 s left"


class _Options(AnnotatorOptions):
    """Options of an annotator of others."""

    is_strict: bool = True
    votes: int = 3
    share: float = 0.5
    hint: str = "all"
    views: tuple[str, ...] = ()
    usual: str = "as it is"


def test_another_try_has_every_option_that_is_not_the_default(tmp_path: Path) -> None:
    annotators.add("mine", takes_options(_Options)(lambda options, stores: None))
    options: dict[str, Json] = {
        "is_strict": False, "votes": 0, "share": 0.0, "hint": "", "views": ["a", "b"], "usual": "as it is",
    }  # fmt: skip
    with open_workspace(str(tmp_path / "w"), Settings()) as workspace:
        producer = Producer(annotator="mine", version="1", settings=options)
        workspace.stores.annotations.add_producer(producer)
        words = Retry(work="mine", maker_id=producer.maker_id).words(workspace.stores)
    _, values = read_annotator_options(words[-1].partition("=")[2], ["mine"])
    own = {name.partition(".")[2]: value for name, value in values.items()}
    assert _Options.model_validate(own) == _Options.model_validate(options)
    assert "usual" not in own


@pytest.mark.slow
def test_failures_of_another_model_say_so_and_start_nothing(paid: tuple[Workspace, Retry]) -> None:
    workspace, _ = paid
    other = open_workspace(workspace.path, Settings(caption_model=FREE))
    words = ["annotate", "caption", "--retry-failed", PLAN]
    start_command(other.stores, words, "Ada", ALL_FAILURES)
    wait_for_job(other.stores, "annotate", ALL_FAILURES)
    cached_reads.use_workspace(other)
    assert any("nothing would be tried" in box.value for box in draw("quality").error)


def test_failed_work_of_an_annotator_that_is_gone_is_shown(free: tuple[Workspace, Retry]) -> None:
    workspace, _ = free
    episode_id = min(workspace.stores.tables.episodes.ids())
    producer = Producer(annotator="gone", version="1")
    workspace.stores.annotations.add_producer(producer)
    log = FailureLog(workspace.stores.annotations, f"gone/{producer.maker_id}")
    log.record({episode_id: ModelError(REASON, "")}, ())
    cached_reads.use_workspace(workspace)
    app = draw("episode", {"episode": episode_id})
    assert not app.error
    next(button for button in app.button if button.label == "Try gone again").click().run()
    assert any("gone" in box.value for box in app.error) and not app.exception


def test_a_read_only_workspace_offers_no_other_try(
    paid: tuple[Workspace, Retry], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, retry = paid
    monkeypatch.setattr(Stores, "is_writable", False)
    cached_reads.use_workspace(workspace)
    app = draw("episode", {"episode": min(workspace.stores.tables.episodes.ids())})
    assert [button.disabled for button in app.button if button.label == "Try caption again"] == [True]
    with pytest.raises(ReadOnlyWorkspace):
        plan_retry(workspace.stores, retry, "Ada")
