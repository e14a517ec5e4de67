"""Pages over a store that does not answer: each page ends in time with one line, and works again afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from ares.deadline import check_deadline
from ares.errors import QueryTimeout, RequestError
from ares.store import EpisodeSnapshot
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.workspace import Workspace
from ares_app.dashboard import cached_reads
from ares_app.dashboard.cached_reads import MAX_QUERIES, forget_slow_filters, run_with_time_limit
from ares_app.dashboard.user_limits import UserLimits
from ares_app.dashboard.views import review
from tests.app.drawn import draw

_PAGES = ("browse", "map", "quality", "episode", "sets")


@pytest.fixture
def release(mapped: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let no read of the tables and of the log end before this is set."""
    ids = sorted(mapped.stores.tables.episodes.ids())
    mapped.sets.create("all", ids, {})
    cached_reads.use_workspace(mapped, UserLimits(query_seconds=0.3))
    event = threading.Event()
    for cls, names in (
        (EpisodeSnapshot, ("count", "scan", "row_mask", "columns")),
        (SqliteAnnotationStore, ("_rows",)),
    ):
        for name in names:
            monkeypatch.setattr(cls, name, _blocked(getattr(cls, name), event))
    yield event
    event.set()
    forget_slow_filters()


def _blocked(method: object, event: threading.Event) -> object:
    def wait_and_call(*args: object, **kwargs: object) -> object:
        event.wait(120)
        return method(*args, **kwargs)  # type: ignore[operator]

    return wait_and_call


@pytest.mark.parametrize("page", _PAGES)
def test_a_page_over_a_store_that_hangs_is_one_line(
    page: str, release: threading.Event, mapped: Workspace
) -> None:
    app = draw(page, {"episode": "0" * 16} if page == "episode" else {})
    assert [error.value.split("\n")[0] for error in app.error] == ["**the query took longer than 0\\.3 s**"]
    release.set()
    cached_reads.use_workspace(mapped, UserLimits(query_seconds=600))
    episode_id = min(mapped.stores.tables.episodes.ids())
    assert not draw(page, {"episode": episode_id} if page == "episode" else {}).error


@pytest.mark.slow
def test_the_tables_follow_once_for_answers_that_come_close_to_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = threading.Semaphore(0)
    stores = SimpleNamespace(location="here", sync=written.release)
    monkeypatch.setattr(review, "_PAUSE_SECONDS", 0.5)
    for _ in range(3):
        review._follow_answers(stores)  # type: ignore[arg-type]
    assert written.acquire(timeout=60)
    assert not written.acquire(timeout=1.0)
    review._follow_answers(stores)  # type: ignore[arg-type]
    assert written.acquire(timeout=60)


@pytest.mark.slow
def test_the_tables_follow_while_people_go_on_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    written = threading.Semaphore(0)
    stores = SimpleNamespace(location="busy", sync=written.release)
    monkeypatch.setattr(review, "_PAUSE_SECONDS", 0.5)
    for _ in range(2):  # the second time the first answer is another
        deadline = time.monotonic() + 60
        while not written.acquire(timeout=0.1):
            assert time.monotonic() < deadline
            review._follow_answers(stores)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _no_slow_filters() -> Iterator[None]:
    forget_slow_filters()
    yield
    forget_slow_filters()


def test_a_query_gives_its_result_or_its_own_error() -> None:
    assert run_with_time_limit(lambda: 42, 60) == 42

    def fail() -> None:
        raise RequestError("no column")

    with pytest.raises(RequestError, match="no column"):
        run_with_time_limit(fail, 60)


def test_a_slow_query_is_one_line_and_ends_at_its_next_check() -> None:
    ended = threading.Event()

    def crawl() -> None:
        try:
            while True:
                threading.Event().wait(0.01)
                check_deadline()
        finally:
            ended.set()

    with pytest.raises(QueryTimeout, match=r"longer than 0\.1 s: use a simpler filter"):
        run_with_time_limit(crawl, 0.1)
    assert ended.wait(300)
    assert run_with_time_limit(lambda: "next", 60) == "next"


def test_queries_that_cannot_be_ended_do_not_pile_up() -> None:
    release = threading.Event()
    try:
        for _ in range(MAX_QUERIES):
            with pytest.raises(QueryTimeout):
                run_with_time_limit(release.wait, 0.02)
        with pytest.raises(QueryTimeout, match="busy with 8 other queries"):
            run_with_time_limit(lambda: 1, 0.02)
        assert sum(thread.name == "query" for thread in threading.enumerate()) == MAX_QUERIES
    finally:
        release.set()
    assert run_with_time_limit(lambda: 1, 20) == 1


def test_a_filter_that_was_too_slow_is_refused_without_a_try() -> None:
    release = threading.Event()
    with pytest.raises(QueryTimeout):
        run_with_time_limit(release.wait, 0.02, where="slow")
    release.set()
    tries: list[str] = []
    with pytest.raises(QueryTimeout):
        run_with_time_limit(lambda: tries.append("slow"), 20, where="slow")
    assert not tries
    run_with_time_limit(lambda: tries.append("other"), 20, where="other")
    forget_slow_filters()
    run_with_time_limit(lambda: tries.append("slow"), 20, where="slow")
    assert tries == ["other", "slow"]
