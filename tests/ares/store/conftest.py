"""Fixtures of the store tests: annotation stores of every kind."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pymongo import MongoClient

from ares.store import AnnotationStore
from ares.store.log.mongo import MongoAnnotationStore
from ares.store.log.sqlite import SqliteAnnotationStore

OpenStore = Callable[[], AnnotationStore]


@pytest.fixture(params=["sqlite", "mongo"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the annotation store of this test, each time one more handle on the same log.

    Its `code` is the Python code with which another process opens it.
    """
    if request.param == "sqlite":
        yield from _open_sqlite(tmp_path / "annotations.sqlite")
    else:
        yield from _open_mongo(request.getfixturevalue("mongo_uri"))


def _open_sqlite(path: Path) -> Iterator[OpenStore]:
    with ExitStack() as stores:

        def open_handle() -> AnnotationStore:
            return stores.enter_context(closing(SqliteAnnotationStore(path)))

        open_handle.code = (  # type: ignore[attr-defined]
            "from pathlib import Path\n"
            "from ares.store.log.sqlite import SqliteAnnotationStore\n"
            f"store = SqliteAnnotationStore(Path({str(path)!r}))\n"
        )
        yield open_handle


def _open_mongo(uri: str) -> Iterator[OpenStore]:
    workspace = uuid.uuid4().hex
    with ExitStack() as stores:

        def open_handle() -> AnnotationStore:
            return stores.enter_context(closing(MongoAnnotationStore(uri, workspace)))

        open_handle.code = (  # type: ignore[attr-defined]
            "from ares.store.log.mongo import MongoAnnotationStore\n"
            f"store = MongoAnnotationStore({uri!r}, {workspace!r})\n"
        )
        yield open_handle
    with MongoClient[dict[str, object]](uri) as client:
        client.drop_database(f"ares_{workspace[:12]}")


@pytest.fixture
def open_database(open_store: OpenStore) -> OpenStore:
    """The same, for what several processes share."""
    return open_store


@pytest.fixture
def store(open_store: OpenStore) -> AnnotationStore:
    """An empty annotation store."""
    return open_store()
