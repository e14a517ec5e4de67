"""A mongod that is killed and started again: nothing acknowledged is lost, and whoever waits for it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from ares.annotation import Annotation
from ares.errors import StoreError
from ares.store import server
from ares.store.mongo import MongoStore

Make = Callable[..., Annotation]


@pytest.fixture(autouse=True)
def quick_to_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for a server that is gone takes half a second."""
    monkeypatch.setattr(server, "_WAIT_MS", 500)


class _Writing:
    """A patient writer and a patient reader, each in a thread of its own, until they are told to stop."""

    def __init__(self, uri: str, make_fact: Make) -> None:
        self.told: list[str] = []
        self.seen: list[str] = []
        self.lost: list[BaseException] = []
        self._make = make_fact
        self._stores = [MongoStore(uri, "restart"), MongoStore(uri, "restart")]
        self._stop, self._written = threading.Event(), threading.Event()
        for store in self._stores:
            store.patience_seconds = 60.0
        works = zip((self._write, self._read), self._stores, strict=True)
        self._threads = [threading.Thread(target=self._guarded, args=pair) for pair in works]
        for thread in self._threads:
            thread.start()

    def wait_for(self, more: int) -> None:
        enough = len(self.told) + more
        while len(self.told) < enough and not self.lost:
            time.sleep(0.01)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
            self._written.set()
        for store in self._stores:
            store.close()

    def _guarded(self, work: Callable[[MongoStore], None], store: MongoStore) -> None:
        try:
            work(store)
        except BaseException as error:
            self.lost.append(error)

    def _write(self, store: MongoStore) -> None:
        batch = 0
        while not self._stop.is_set():
            ids = [f"{batch:04}/{n}" for n in range(30)]
            store.append([self._make(each) for each in ids])
            store.put("jobs", {f"{batch:04}": ids[0]})
            self.told.extend(ids)
            batch += 1

    def _read(self, store: MongoStore) -> None:
        after = 0
        while not (self._written.is_set() and after == store.last_sequence()):
            for sequence, fact in store.read(after=after, limit=100):
                assert sequence > after
                after = sequence
                self.seen.append(fact.episode_id)


def test_what_was_acknowledged_before_a_crash_is_there_after_it(
    mongod: Any, make_fact: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """A writer and a reader that are patient go on across two crashes: every fact once, in order, none skipped."""
    writing = _Writing(mongod.uri, make_fact)
    for away in (0.0, 0.7):
        writing.wait_for(90)
        mongod.kill()
        time.sleep(away)
        before = set(writing.told)
        mongod.start()
        with closing(MongoStore(mongod.uri, "restart")) as fresh:
            assert before <= fresh.done(make_fact("").maker_id, list(before))
    writing.wait_for(60)
    writing.stop()
    assert writing.lost == []
    with closing(MongoStore(mongod.uri, "restart")) as store:
        assert [fact.episode_id for _, fact in store.read(limit=10**6)] == writing.told
        assert len(list(store.find("jobs"))) == len(writing.told) // 30
    # A fact whose batch was numbered anew may come up twice; none is left out.
    assert set(writing.seen) == set(writing.told)
    assert "waiting: MongoDB server '127.0.0.1:" in capsys.readouterr().err


def test_without_patience_it_is_one_line_and_the_work_can_be_done_again(mongod: Any, make_fact: Make) -> None:
    facts = [make_fact(f"{number:05}") for number in range(3000)]
    with closing(MongoStore(mongod.uri, "resume")) as store:
        insert, sent = store._insert, list[int]()

        def insert_then_crash(facts: list[dict[str, Any]]) -> None:
            insert(facts)
            sent.append(len(facts))
            if len(sent) == 2:
                mongod.kill()

        store._insert = insert_then_crash  # type: ignore[method-assign]
        with pytest.raises(
            StoreError, match=r"^MongoDB cannot be reached: server '127.0.0.1:\d+'; start it"
        ) as caught:
            store.append(facts)
        assert "\n" not in str(caught.value)
        mongod.start()
        store._insert = insert  # type: ignore[method-assign]
        store.patience_seconds = 60.0
        # What the lost batch had written are facts already; its numbers are closed once it has been silent.
        store._batches._close(1)
        assert [fact for _, fact in store.read()] == facts[:2000]
        store.append(facts)
        assert [fact for _, fact in store.read()] == facts
