"""Queries of pages end in time, few run at once, and a slow one leaves room for the next."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from app.dashboard.cached_reads import MAX_QUERIES, forget_slow_filters, run_with_time_limit
from ares.deadline import check_deadline
from ares.errors import QueryTimeout, RequestError


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
