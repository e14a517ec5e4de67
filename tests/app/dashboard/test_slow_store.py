"""Pages over a store that does not answer: each page ends in time with one line, and works again afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from app.dashboard import cached_reads
from app.dashboard.cached_reads import forget_slow_filters
from app.dashboard.user_limits import UserLimits
from app.dashboard.views import review
from ares.store import EpisodeSnapshot
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.workspace import Workspace
from tests.app.drawn import draw

_PAGES = ("browse", "map", "statistics", "episode", "sets", "health", "status")


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


def test_the_tables_follow_while_people_go_on_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    written = threading.Semaphore(0)
    stores = SimpleNamespace(location="busy", sync=written.release)
    monkeypatch.setattr(review, "_PAUSE_SECONDS", 0.5)
    monkeypatch.setattr(review, "_MOST_SECONDS", 1.0)
    for _ in range(2):  # the second time the first answer is another
        deadline = time.monotonic() + 60
        while not written.acquire(timeout=0.1):
            assert time.monotonic() < deadline
            review._follow_answers(stores)  # type: ignore[arg-type]
