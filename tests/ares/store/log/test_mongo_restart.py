"""A mongod that is killed and started again: nothing acknowledged is lost, and waiting clients go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from ares.annotation import Annotation
from ares.errors import StoreError
from ares.store.log import mongo_connection
from ares.store.log.mongo import MongoAnnotationStore


@pytest.mark.slow
def test_what_was_acknowledged_before_a_crash_is_there_after_it(
    mongod: Any,
    make_annotation: Callable[..., Annotation],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A writer and a reader that retry go on across two crashes: every annotation once, in order, none skipped."""
    monkeypatch.setattr(mongo_connection, "_SERVER_SELECTION_MS", 500)
    written, seen, stop = list[str](), list[str](), threading.Event()

    def write() -> None:
        with closing(MongoAnnotationStore(mongod.uri, "restart")) as store:
            store.retry_seconds = 600.0
            while not stop.is_set():
                ids = [f"{len(written):06}/{number}" for number in range(30)]
                store.append([make_annotation(episode_id) for episode_id in ids])
                store.put_documents("jobs", {ids[0]: ids[0]})
                written.extend(ids)

    def read() -> None:
        with closing(MongoAnnotationStore(mongod.uri, "restart")) as store:
            store.retry_seconds, after = 600.0, 0
            while not (writing.done() and after == store.last_sequence()):
                for sequence, annotation in store.read(after=after, limit=100):
                    assert sequence > after
                    after = sequence
                    seen.append(annotation.episode_id)

    with ThreadPoolExecutor(2) as threads:
        writing = threads.submit(write)
        reading = threads.submit(read)

        def wait_for_more(count: int) -> None:
            enough = len(written) + count
            while len(written) < enough and not writing.done():
                time.sleep(0.01)

        try:
            for away in (0.0, 0.7):
                wait_for_more(90)
                mongod.kill()
                time.sleep(away)
                before = set(written)
                mongod.start()
                with closing(MongoAnnotationStore(mongod.uri, "restart")) as fresh:
                    assert before <= fresh.find_done_subjects(make_annotation("").maker_id, list(before))
            wait_for_more(60)
        finally:
            stop.set()
        writing.result(300)
        reading.result(300)
    with closing(MongoAnnotationStore(mongod.uri, "restart")) as store:
        assert [annotation.episode_id for _, annotation in store.read(limit=10**6)] == written
        assert len(list(store.find_documents("jobs"))) == len(written) // 30
    # An annotation whose batch was numbered again may come up twice; none is left out.
    assert set(seen) == set(written)
    assert "waiting: MongoDB server '127.0.0.1:" in capsys.readouterr().err


@pytest.mark.slow
def test_without_patience_it_is_one_line_and_the_work_can_be_done_again(
    mongod: Any, make_annotation: Callable[..., Annotation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo_connection, "_SERVER_SELECTION_MS", 500)
    annotations = [make_annotation(f"{number:05}") for number in range(3000)]
    with closing(MongoAnnotationStore(mongod.uri, "resume")) as store:
        insert, sent = store._insert, list[int]()

        def insert_then_crash(documents: list[dict[str, Any]]) -> None:
            insert(documents)
            sent.append(len(documents))
            if len(sent) == 2:
                mongod.kill()

        store._insert = insert_then_crash  # type: ignore[method-assign]
        says = r"^MongoDB cannot be reached: server '127.0.0.1:\d+'; start it[^\n]*$"
        with pytest.raises(StoreError, match=says):
            store.append(annotations)
        mongod.start()
        store._insert = insert  # type: ignore[method-assign]
        store.retry_seconds = 600.0
        # What the lost batch had written are annotations already; its numbers are closed once it has been silent.
        store._sequence._close(1)
        assert [annotation for _, annotation in store.read()] == annotations[:2000]
        store.append(annotations)
        assert [annotation for _, annotation in store.read()] == annotations
