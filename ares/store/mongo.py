"""MongoStore: the annotation log on a MongoDB server that several machines share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, Maker
from ares.episode import Json
from ares.store import codec
from ares.store.annotations import INDEXES, Logged
from ares.store.batches import Batches
from ares.store.filters import chunks
from ares.store.lease import Lease
from ares.store.server import Server

if TYPE_CHECKING:
    from pymongo.collection import Collection

Document = dict[str, Any]

# Facts sent at once, between two signs of life; ids asked for at once.
_CHUNK = 1000
_IDS = 10_000
_INDEXES = {"facts_sequence": ("sequence",), **INDEXES}


class MongoStore:
    """An AnnotationStore in the database "<database of the URI, or ares>_<workspace>"; needs no replica set.

    Args:
        uri: Server, with user and password where it asks for them.
        workspace_id: Whose annotations these are.

    Raises:
        StoreError: The server cannot be reached, or does not let us in.
    """

    def __init__(self, uri: str, workspace_id: str) -> None:
        self._server = Server(uri)
        database = self._server.database(workspace_id)
        self._facts, self._makers = database["facts"], database["makers"]
        self._documents = database["documents"]
        self._ask = self._server.ask
        self._batches = Batches(database["log"], self._facts, self._ask)
        self._lease = Lease(database["leases"], self._ask)
        try:
            self._batches.prepare()
            self.make_indexes()
        except BaseException:
            self._server.close()
            raise

    def __repr__(self) -> str:
        return f"MongoStore({self._server.host!r})"

    @property
    def patience_seconds(self) -> float:
        """How long an operation waits for a server that went away."""
        return self._server.patience_seconds

    @patience_seconds.setter
    def patience_seconds(self, seconds: float) -> None:
        self._server.patience_seconds = seconds

    def append(self, annotations: Sequence[Annotation | codec.Row]) -> int:
        """Store facts as one batch, ignoring those already there; the log's last sequence number.

        Raises:
            Refused: Some can be held by no store; all others are stored.
            StoreError: The server cannot be reached; what it has of the batch stays, and counts as facts.
        """
        self._lease.check()
        rows, refused = codec.to_rows(annotations)
        if rows:
            self._write([_document(row) for row in rows])
        last = self._batches.complete()
        if refused:
            raise codec.Refused(refused)
        return last

    def read(self, after: int = 0, limit: int = 10_000) -> list[Logged]:
        """Facts with a sequence number above `after`, in order, up to the first batch still being written."""
        span = {"$gt": after, "$lte": self._batches.complete()}
        found = self._ask(lambda: list(self._facts.find({"sequence": span}).sort("sequence").limit(limit)))
        return [Logged(each["sequence"], _fact(each)) for each in found]

    def last_sequence(self) -> int:
        """Sequence number up to which `read` is complete; 0 for an empty log."""
        return self._batches.complete()

    def done(self, maker_id: str, subjects: Sequence[str]) -> set[str]:
        """Of these subjects, those that this maker has already done."""
        wanted: Document = {"maker_id": maker_id}
        return {each["subject"] for each in self._of(wanted, "subject", subjects, {"_id": 0, "subject": 1})}

    def made(self, episode_ids: Sequence[str], name: str) -> list[str]:
        """The annotation_id of each fact of that name about these episodes."""
        return [each["_id"] for each in self._of({"name": name}, "episode_id", episode_ids, {"_id": 1})]

    def about(self, episode_ids: Sequence[str], names: Sequence[str] = ()) -> list[Annotation]:
        """Facts about these episodes in order of the log, of the given names only when there are any."""
        ids = list(dict.fromkeys(episode_ids))
        named: Document = {"name": {"$in": list(names)}} if names else {}
        found = self._of(named, "episode_id", ids)
        return [_fact(each) for each in sorted(found, key=lambda each: int(each["sequence"]))]

    def counts(self) -> dict[str, int]:
        """Number of different episodes per annotation name."""
        pipeline: list[Document] = [
            # Sorted first, so that the index alone answers.
            {"$sort": {"name": 1, "episode_id": 1}},
            {"$group": {"_id": {"name": "$name", "episode_id": "$episode_id"}}},
            {"$group": {"_id": "$_id.name", "episodes": {"$sum": 1}}},
            {"$sort": {"_id": 1}},
        ]
        found = self._ask(lambda: list(self._facts.aggregate(pipeline, allowDiskUse=True)))
        return {each["_id"]: each["episodes"] for each in found}

    def add_maker(self, maker: Maker) -> None:
        """Remember what a maker_id stands for."""
        document = {"_id": maker.maker_id, "body": codec.maker_to_text(maker)}
        self._ask(lambda: self._makers.replace_one({"_id": maker.maker_id}, document, upsert=True))

    def makers(self) -> dict[str, Maker]:
        """Every maker by its id."""
        found = self._ask(lambda: list(self._makers.find().sort("_id")))
        return {each["_id"]: codec.maker_from_text(each["body"]) for each in found}

    def put(self, collection: str, documents: Mapping[str, Json]) -> None:
        """Write keyed documents; the last write of a key wins."""
        from pymongo import ReplaceOne

        texts, refused = codec.to_texts(documents)
        writes = []
        for key, text in texts.items():
            place = {"collection": collection, "key": key}
            writes.append(ReplaceOne({"_id": place}, {"_id": place, "body": text}, upsert=True))
        for at in range(0, len(writes), _CHUNK):
            self._send(writes[at : at + _CHUNK])
        if refused:
            raise codec.Refused(refused)

    def claim(self, collection: str, key: str, document: Json) -> bool:
        """Write a document if its key is free; of several who try at once one is told True."""
        from uuid import uuid4

        place, mine = {"collection": collection, "key": key}, uuid4().hex
        fresh = {"$setOnInsert": {"body": codec.to_text(document), "claim": mine}}
        self._ask(lambda: self._documents.update_one({"_id": place}, fresh, upsert=True))
        # Read back and not counted: the answer to the first try may have been lost with the connection.
        found = self._ask(lambda: self._documents.find_one({"_id": place}, {"claim": 1}))
        return found is not None and found.get("claim") == mine

    def get(self, collection: str, key: str) -> Json:
        """One document, or None."""
        place = {"collection": collection, "key": key}
        found = self._ask(lambda: self._documents.find_one({"_id": place}))
        return codec.from_text(found["body"]) if found else None

    def find(self, collection: str, prefix: str = "") -> Iterator[tuple[str, Json]]:
        """Documents whose key starts with `prefix`, in order of key, a page at a time."""
        span: Document = {"$gte": {"collection": collection, "key": prefix}}
        size = 1
        while page := self._page(span, size):
            size = codec.next_page(size, sum(len(each["body"]) for each in page))
            for each in page:
                place = each["_id"]
                if place["collection"] != collection or not place["key"].startswith(prefix):
                    return
                yield place["key"], codec.from_text(each["body"])
            span = {"$gt": page[-1]["_id"]}

    def drop(self, collection: str, keys: Iterable[str]) -> None:
        """Remove documents; a key that is not there is no error."""
        places = [{"collection": collection, "key": key} for key in keys]
        for at in range(0, len(places), _CHUNK):
            self._remove(places[at : at + _CHUNK])

    def hold(self, who: str, wait: bool = True) -> AbstractContextManager[None]:
        """Hold the workspace for writing, as `hold_folder` does where there is a folder. Raises Busy."""
        return self._lease.hold(who, wait)

    def missing_indexes(self) -> list[str]:
        """Names of declared indexes that the server lacks."""
        there = self._ask(self._facts.index_information).values()
        found = {tuple(column for column, _ in index["key"]) for index in there}
        return [name for name, columns in _INDEXES.items() if columns not in found]

    def make_indexes(self) -> None:
        """Make the declared indexes that the server lacks."""
        from pymongo import IndexModel

        models = [IndexModel(list(_INDEXES[name]), name=name) for name in self.missing_indexes()]
        if models:
            self._ask(lambda: self._facts.create_indexes(models))

    def close(self) -> None:
        """Release the connection."""
        self._server.close()

    def _write(self, facts: list[Document]) -> None:
        batch = self._batches.begin(len(facts))
        try:
            for sequence, fact in enumerate(facts, start=batch.first):
                fact["sequence"] = sequence
            for at in range(0, len(facts), _CHUNK):
                if at:
                    self._batches.renew(batch)
                self._insert(facts[at : at + _CHUNK])
        except Exception:
            self._batches.abandon(batch)
            raise
        self._batches.end(batch, [fact["_id"] for fact in facts])

    def _insert(self, facts: list[Document]) -> None:
        self._ask(lambda: _insert_new(self._facts, facts))

    def _of(
        self, wanted: Document, column: str, values: Sequence[str], shown: Document | None = None
    ) -> Iterator[Document]:
        """Facts whose column is one of some values, asked for in messages of bounded size."""
        for chunk in chunks(values, _IDS):
            yield from self._all({**wanted, column: {"$in": chunk}}, shown)

    def _all(self, wanted: Document, shown: Document | None = None) -> list[Document]:
        return self._ask(lambda: list(self._facts.find(wanted, shown)))

    def _page(self, span: Document, size: int) -> list[Document]:
        return self._ask(lambda: list(self._documents.find({"_id": span}).sort("_id").limit(size)))

    def _send(self, writes: list[Any]) -> None:
        self._ask(lambda: self._documents.bulk_write(writes, ordered=False))

    def _remove(self, places: list[Document]) -> None:
        self._ask(lambda: self._documents.delete_many({"_id": {"$in": places}}))


def _document(row: codec.Row) -> Document:
    return {
        "_id": row.annotation_id,
        "episode_id": row.episode_id,
        "name": row.name,
        "maker_id": row.maker_id,
        "subject": row.subject,
        "body": row.body,
    }


def _fact(found: Document) -> Annotation:
    return codec.fact_from_text(
        found["body"],
        episode_id=found["episode_id"],
        name=found["name"],
        maker_id=found["maker_id"],
        subject=found["subject"],
    )


def _insert_new(facts: Collection[Document], documents: list[Document]) -> None:
    from pymongo.errors import BulkWriteError

    try:
        facts.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        failed = [each for each in error.details["writeErrors"] if each["code"] != 11000]
        if failed or error.details.get("writeConcernErrors"):
            raise
