"""A mongod that is killed and started again: nothing acknowledged is lost, and waiting clients go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from ares.annotation import Annotation
from ares.store.log import mongo_connection as mongo_client
from ares.store.log.mongo import MongoAnnotationStore

Make = Callable[..., Annotation]


@pytest.fixture(autouse=True)
def quick_to_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for a server that is gone takes half a second."""
    monkeypatch.setattr(mongo_client, "_SERVER_SELECTION_MS", 500)


class _Writing:
    """A patient writer and a patient reader, each in a separate thread, until they are told to stop."""

    def __init__(self, uri: str, make_annotation: Make) -> None:
        self.written: list[str] = []
        self.seen: list[str] = []
        self.errors: list[BaseException] = []
        self._make = make_annotation
        self._stores = [MongoAnnotationStore(uri, "restart"), MongoAnnotationStore(uri, "restart")]
        self._stop, self._all_written = threading.Event(), threading.Event()
        for store in self._stores:
            store.retry_seconds = 600.0
        works = zip((self._write, self._read), self._stores, strict=True)
        self._threads = [threading.Thread(target=self._record_errors, args=pair) for pair in works]
        for thread in self._threads:
            thread.start()

    def wait_for(self, more: int) -> None:
        enough = len(self.written) + more
        while len(self.written) < enough and not self.errors:
            time.sleep(0.01)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
            self._all_written.set()
        for store in self._stores:
            store.close()

    def _record_errors(
        self, work: Callable[[MongoAnnotationStore], None], store: MongoAnnotationStore
    ) -> None:
        try:
            work(store)
        except BaseException as error:
            self.errors.append(error)

    def _write(self, store: MongoAnnotationStore) -> None:
        batch = 0
        while not self._stop.is_set():
            ids = [f"{batch:04}/{n}" for n in range(30)]
            store.append([self._make(episode_id) for episode_id in ids])
            store.put_documents("jobs", {f"{batch:04}": ids[0]})
            self.written.extend(ids)
            batch += 1

    def _read(self, store: MongoAnnotationStore) -> None:
        after = 0
        while not (self._all_written.is_set() and after == store.last_sequence()):
            for sequence, annotation in store.read(after=after, limit=100):
                assert sequence > after
                after = sequence
                self.seen.append(annotation.episode_id)


@pytest.mark.slow
def test_what_was_acknowledged_before_a_crash_is_there_after_it(
    mongod: Any, make_annotation: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """A writer and a reader that retry go on across two crashes: every annotation once, in order, none skipped."""
    writing = _Writing(mongod.uri, make_annotation)
    for away in (0.0, 0.7):
        writing.wait_for(90)
        mongod.kill()
        time.sleep(away)
        before = set(writing.written)
        mongod.start()
        with closing(MongoAnnotationStore(mongod.uri, "restart")) as fresh:
            assert before <= fresh.find_done_subjects(make_annotation("").maker_id, list(before))
    writing.wait_for(60)
    writing.stop()
    assert writing.errors == []
    with closing(MongoAnnotationStore(mongod.uri, "restart")) as store:
        assert [annotation.episode_id for _, annotation in store.read(limit=10**6)] == writing.written
        assert len(list(store.find_documents("jobs"))) == len(writing.written) // 30
    # An annotation whose batch was numbered again may come up twice; none is left out.
    assert set(writing.seen) == set(writing.written)
    assert "waiting: MongoDB server '127.0.0.1:" in capsys.readouterr().err
