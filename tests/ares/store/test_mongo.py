"""MongoStore: servers that are not there, and writers that die or sleep in the middle of a batch."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from pymongo import MongoClient

from ares.annotation import Annotation
from ares.errors import StoreError
from ares.store import batches, codec, mongo, server
from ares.store.mongo import MongoStore

Make = Callable[..., Annotation]


@pytest.fixture
def workspace(mongo_uri: str) -> Iterator[str]:
    """Id of a workspace whose database is dropped afterwards."""
    made = uuid.uuid4().hex
    yield made
    with MongoClient[dict[str, object]](mongo_uri) as client:
        client.drop_database(f"ares_{made[:12]}")


@pytest.fixture
def store(mongo_uri: str, workspace: str) -> Iterator[MongoStore]:
    """An empty store."""
    with closing(MongoStore(mongo_uri, workspace)) as opened:
        yield opened


def test_an_unreachable_server_is_told_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_WAIT_MS", 300)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(StoreError) as caught:
            MongoStore(f"mongodb://me:s3cret@127.0.0.1:{port}/lab?authSource=admin", "abc")
    message = str(caught.value)
    assert message.startswith(f"MongoDB cannot be reached: server '127.0.0.1:{port}'; start it")
    assert "s3cret" not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "uri", ["http://host", "mongodb://me:s3c@ret@host", "mongodb://", "", "mongodb://me:s3cret@host:port"]
)
def test_a_uri_that_cannot_be_read(uri: str) -> None:
    with pytest.raises(StoreError, match="ARES_MONGO_URI cannot be read") as caught:
        MongoStore(uri, "abc")
    assert "s3c" not in str(caught.value)


def test_a_wrong_password_is_told_without_it(mongo_uri: str) -> None:
    with pytest.raises(
        StoreError, match=r"^MongoDB refused: .*user or the password of ARES_MONGO_URI"
    ) as caught:
        MongoStore(mongo_uri.replace("mongodb://", "mongodb://nobody:s3cret@"), "abc")
    assert "s3cret" not in str(caught.value)


def test_a_server_that_goes_away(store: MongoStore, make_fact: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from pymongo.errors import AutoReconnect

    def gone(*_: object, **__: object) -> None:
        raise AutoReconnect("connection closed")

    monkeypatch.setattr(store._facts, "insert_many", gone)
    with pytest.raises(StoreError, match="cannot be reached"):
        store.append([make_fact("episode1")])
    monkeypatch.undo()
    store.append([make_fact("episode2")])
    assert [fact.episode_id for _, fact in store.read()] == ["episode2"]


def test_the_database_is_named_for_the_workspace(mongo_uri: str, make_fact: Make) -> None:
    with closing(MongoStore(f"{mongo_uri}/lab", "0123456789abcdef")) as store:
        store.append([make_fact("episode1")])
    with MongoClient[dict[str, object]](mongo_uri) as client:
        assert client["lab_0123456789ab"]["facts"].count_documents({}) == 1
        client.drop_database("lab_0123456789ab")


def test_a_newer_format_is_refused(mongo_uri: str, workspace: str, store: MongoStore) -> None:
    store._batches._log.update_one({"_id": "log"}, {"$set": {"format": 99}})
    with pytest.raises(StoreError, match="format 99"):
        MongoStore(mongo_uri, workspace)


def test_a_reader_stops_before_an_open_batch(store: MongoStore, make_fact: Make) -> None:
    store.append([make_fact("episode1")])
    slow = store._batches.begin(2)
    store.append([make_fact("episode2")])
    assert [fact.episode_id for _, fact in store.read()] == ["episode1"]
    assert store.last_sequence() == slow.first - 1

    store._batches.end(slow, [])
    assert [fact.episode_id for _, fact in store.read()] == ["episode1", "episode2"]


def test_a_silent_batch_is_closed(
    store: MongoStore, make_fact: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    store._batches.begin(5)
    store.append([make_fact("episode2")])
    assert store.read() == []
    monkeypatch.setattr(batches, "_SILENCE_MS", -1)
    assert [fact.episode_id for _, fact in store.read()] == ["episode2"]


def test_a_writer_that_slept_numbers_its_facts_anew(store: MongoStore, make_fact: Make) -> None:
    """Its batch was closed by another, a reader has passed; the facts must come up once more."""
    store.append([make_fact("known")])
    slept = store._batches.begin(3)
    store._batches._close(slept.first)
    store.append([make_fact("meanwhile")])
    after = store.read()[-1].sequence

    rows, _ = codec.to_rows([make_fact(each) for each in ("late1", "known", "late2")])
    late = [mongo._document(row) for row in rows]
    for at, fact in enumerate(late):
        fact["sequence"] = slept.first + at
    mongo._insert_new(store._facts, late)
    store._batches.end(slept, [fact["_id"] for fact in late])
    assert [fact.episode_id for _, fact in store.read(after=after)] == ["late1", "late2"]
    assert len(store.read()) == 4


def test_a_killed_writer_of_this_machine_holds_up_nobody(
    mongo_uri: str, workspace: str, store: MongoStore, make_fact: Make
) -> None:
    """Its half-written batch is closed soon, and what it wrote are facts."""
    script = f"""
import os
from ares.annotation import Annotation
from ares.store import mongo
store = mongo.MongoStore({mongo_uri!r}, {workspace!r})
insert = mongo._insert_new
def insert_and_die(facts, documents):
    insert(facts, documents)
    os.kill(os.getpid(), 9)
mongo._insert_new = insert_and_die
store.append([Annotation(episode_id=str(n), name="caption", value={{}}, maker_id="m", subject=str(n),
    start_seconds=0.0, stop_seconds=1.0, created="") for n in range(2500)])
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -9
    store.append([make_fact("after")])
    found: list[str] = []
    deadline = time.monotonic() + 10
    while "after" not in found and time.monotonic() < deadline:
        found = [fact.episode_id for _, fact in store.read()]
    assert found[-1] == "after"
    assert sorted(found[:-1], key=int) == [str(number) for number in range(1000)]


def test_a_large_batch(store: MongoStore, make_fact: Make) -> None:
    """60 MB in one append are more than one message to the server may hold."""
    store.append([make_fact(f"{number}", value={"text": "x" * 3_000_000}) for number in range(20)])
    assert len(store.read()) == 20
