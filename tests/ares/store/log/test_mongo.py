"""The MongoDB store: unreachable servers, and writers that die or sleep in the middle of a batch."""

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
from pymongo.errors import OperationFailure

from ares.annotation import Annotation
from ares.errors import StoreError
from ares.store.log import (
    mongo,
    mongo_connection as mongo_client,
    mongo_sequence,
    protocol as serialization,
)
from ares.store.log.mongo import MongoAnnotationStore
from ares.store.log.mongo_connection import MongoConnection

Make = Callable[..., Annotation]


@pytest.fixture
def workspace(mongo_uri: str) -> Iterator[str]:
    """Id of a workspace whose database is dropped afterwards."""
    workspace_id = uuid.uuid4().hex
    yield workspace_id
    with MongoClient[dict[str, object]](mongo_uri) as client:
        client.drop_database(f"ares_{workspace_id[:12]}")


@pytest.fixture
def store(mongo_uri: str, workspace: str) -> Iterator[MongoAnnotationStore]:
    """An empty store."""
    with closing(MongoAnnotationStore(mongo_uri, workspace)) as store:
        yield store


def test_an_unreachable_server_is_told_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongo_client, "_SERVER_SELECTION_MS", 300)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        with pytest.raises(StoreError) as caught:
            MongoAnnotationStore(f"mongodb://user:s3cret@127.0.0.1:{port}/lab?authSource=admin", "abc")
    message = str(caught.value)
    assert message.startswith(f"MongoDB cannot be reached: server '127.0.0.1:{port}'; start it")
    assert "s3cret" not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "uri", ["http://host", "mongodb://user:s3c@ret@host", "mongodb://", "", "mongodb://user:s3cret@host:port"]
)
def test_a_uri_that_cannot_be_read(uri: str) -> None:
    with pytest.raises(StoreError, match="ARES_MONGO_URI cannot be read") as caught:
        MongoAnnotationStore(uri, "abc")
    assert "s3c" not in str(caught.value)


def test_a_wrong_password_is_told_without_it(mongo_uri: str) -> None:
    with pytest.raises(
        StoreError, match=r"^MongoDB rejected an operation: .*user or the password of ARES_MONGO_URI"
    ) as caught:
        MongoAnnotationStore(mongo_uri.replace("mongodb://", "mongodb://nobody:s3cret@"), "abc")
    assert "s3cret" not in str(caught.value)


def test_what_a_server_rejects_is_told_in_its_own_words() -> None:
    def reject() -> None:
        raise OperationFailure("quota of the tenant is used up\nfull trace", code=8000)

    told = r"^MongoDB rejected an operation: server 'host:1': quota of the tenant is used up$"
    with closing(MongoConnection("mongodb://host:1")) as connection, pytest.raises(StoreError, match=told):
        connection.run(reject)


def test_a_server_that_goes_away(
    store: MongoAnnotationStore, make_annotation: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pymongo.errors import AutoReconnect

    def fail(*_: object, **__: object) -> None:
        raise AutoReconnect("connection closed")

    monkeypatch.setattr(store._annotations, "insert_many", fail)
    with pytest.raises(StoreError, match="cannot be reached"):
        store.append([make_annotation("episode1")])
    monkeypatch.undo()
    store.append([make_annotation("episode2")])
    assert [annotation.episode_id for _, annotation in store.read()] == ["episode2"]


def test_the_database_is_named_for_the_workspace(mongo_uri: str, make_annotation: Make) -> None:
    with closing(MongoAnnotationStore(f"{mongo_uri}/lab", "0123456789abcdef")) as store:
        store.append([make_annotation("episode1")])
    with MongoClient[dict[str, object]](mongo_uri) as client:
        assert client["lab_0123456789ab"]["facts"].count_documents({}) == 1
        client.drop_database("lab_0123456789ab")


def test_a_newer_format_is_refused(mongo_uri: str, workspace: str, store: MongoAnnotationStore) -> None:
    store._sequence._log.update_one({"_id": "log"}, {"$set": {"format": 99}})
    with pytest.raises(StoreError, match="format 99"):
        MongoAnnotationStore(mongo_uri, workspace)


def test_a_reader_stops_before_an_open_batch(store: MongoAnnotationStore, make_annotation: Make) -> None:
    store.append([make_annotation("episode1")])
    slow = store._sequence.allocate(2)
    store.append([make_annotation("episode2")])
    assert [annotation.episode_id for _, annotation in store.read()] == ["episode1"]
    assert store.last_sequence() == slow.first - 1

    store._sequence.commit(slow, [])
    assert [annotation.episode_id for _, annotation in store.read()] == ["episode1", "episode2"]


def test_a_silent_batch_is_closed(
    store: MongoAnnotationStore, make_annotation: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    store._sequence.allocate(5)
    store.append([make_annotation("episode2")])
    assert store.read() == []
    monkeypatch.setattr(mongo_sequence, "_TIMEOUT_MS", -1)
    assert [annotation.episode_id for _, annotation in store.read()] == ["episode2"]


def test_a_writer_that_slept_numbers_its_annotations_anew(
    store: MongoAnnotationStore, make_annotation: Make
) -> None:
    """Its batch was closed by another, a reader has passed; the annotations must come up once more."""
    store.append([make_annotation("existing")])
    slept = store._sequence.allocate(3)
    store._sequence._close(slept.first)
    store.append([make_annotation("meanwhile")])
    after = store.read()[-1].sequence

    rows, _ = serialization.annotations_to_rows(
        [make_annotation(episode_id) for episode_id in ("late1", "existing", "late2")]
    )
    late = [mongo._to_document(row) for row in rows]
    for offset, document in enumerate(late):
        document["sequence"] = slept.first + offset
    mongo._insert_new(store._annotations, late)
    store._sequence.commit(slept, [document["_id"] for document in late])
    assert [annotation.episode_id for _, annotation in store.read(after=after)] == ["late1", "late2"]
    assert len(store.read()) == 4


@pytest.mark.slow
def test_a_killed_writer_of_this_machine_holds_up_nobody(
    mongo_uri: str, workspace: str, store: MongoAnnotationStore, make_annotation: Make
) -> None:
    """Its half-written batch is closed soon, and what it wrote are annotations."""
    script = f"""
import os
from ares.annotation import Annotation
from ares.store.log import mongo
store = mongo.MongoAnnotationStore({mongo_uri!r}, {workspace!r})
insert = mongo._insert_new
def insert_and_die(annotations, documents):
    insert(annotations, documents)
    os.kill(os.getpid(), 9)
mongo._insert_new = insert_and_die
store.append([Annotation(episode_id=str(n), name="caption", value={{}}, maker_id="m", subject=str(n),
    start_seconds=0.0, stop_seconds=1.0, created="") for n in range(2500)])
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -9
    store.append([make_annotation("after")])
    episode_ids: list[str] = []
    deadline = time.monotonic() + 300
    while "after" not in episode_ids and time.monotonic() < deadline:
        episode_ids = [annotation.episode_id for _, annotation in store.read()]
    assert episode_ids[-1] == "after"
    assert sorted(episode_ids[:-1], key=int) == [str(number) for number in range(1000)]


@pytest.mark.slow
def test_a_large_batch(store: MongoAnnotationStore, make_annotation: Make) -> None:
    """60 MB in one append are more than one message to the server may hold."""
    store.append([make_annotation(f"{number}", value={"text": "x" * 3_000_000}) for number in range(20)])
    assert len(store.read()) == 20
