"""MongoStore: the annotation log on a MongoDB server that several machines share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, Maker
from ares.episode import Json
from ares.errors import StoreError
from ares.store import codec
from ares.store.annotations import Logged
from ares.store.batches import Batches

if TYPE_CHECKING:
    from pymongo.collection import Collection

Document = dict[str, Any]

_WAIT_MS = 5000
# Facts sent at once, between two signs of life; ids asked for at once.
_CHUNK = 1000
_IDS = 10_000
# A MongoDB document holds 16 MiB.
_FACT_BYTES = 15 * 2**20


class MongoStore:
    """An AnnotationStore in the database "<database of the URI, or ares>_<workspace>"; needs no replica set.

    Args:
        uri: Server, with user and password where it asks for them.
        workspace_id: Whose annotations these are.

    Raises:
        StoreError: The server cannot be reached, or does not let us in.
    """

    def __init__(self, uri: str, workspace_id: str) -> None:
        from pymongo import MongoClient, ReadPreference, WriteConcern
        from pymongo.errors import PyMongoError

        # Whatever stands before an "@" may be a password; it is never told.
        self._host = uri.rsplit("@", 1)[-1].split("://")[-1].split("/")[0].split("?")[0]
        try:
            self._client: MongoClient[Document] = MongoClient(uri, serverSelectionTimeoutMS=_WAIT_MS)
            name = self._client.get_default_database("ares").name
        except (PyMongoError, ValueError):
            remedy = "give mongodb://USER:PASSWORD@HOST:PORT with special characters percent-encoded"
            raise StoreError("ARES_MONGO_URI cannot be read", f"server {self._host!r}; {remedy}") from None
        # A reader of a secondary could miss a batch that is closed already.
        database = self._client.get_database(
            f"{name}_{workspace_id[:12]}",
            read_preference=ReadPreference.PRIMARY,
            write_concern=WriteConcern(w="majority"),
        )
        self._facts, self._makers = database["facts"], database["makers"]
        self._documents = database["documents"]
        self._batches = Batches(database["log"], self._facts)
        try:
            self._prepare()
        except BaseException:
            self._client.close()
            raise

    def __repr__(self) -> str:
        return f"MongoStore({self._host!r})"

    def append(self, annotations: Sequence[Annotation]) -> int:
        """Store facts as one batch, ignoring those already there; the log's last sequence number.

        Raises:
            StoreError: The server cannot be reached; what it has of the batch stays, and counts as facts.
        """
        facts = [_document(fact) for fact in annotations]
        with self._readable():
            if facts:
                self._write(facts)
            return self._batches.complete()

    def read(self, after: int = 0, limit: int = 10_000) -> list[Logged]:
        """Facts with a sequence number above `after`, in order, up to the first batch still being written."""
        with self._readable():
            span = {"$gt": after, "$lte": self._batches.complete()}
            found = self._facts.find({"sequence": span}).sort("sequence").limit(limit)
            return [Logged(each["sequence"], _fact(each)) for each in found]

    def last_sequence(self) -> int:
        """Sequence number up to which `read` is complete; 0 for an empty log."""
        with self._readable():
            return self._batches.complete()

    def done(self, maker_id: str) -> set[str]:
        """Subjects that this maker has already done."""
        with self._readable():
            found = self._facts.find({"maker_id": maker_id}, {"_id": 0, "subject": 1})
            return {each["subject"] for each in found}

    def about(self, episode_ids: Sequence[str], names: Sequence[str] = ()) -> list[Annotation]:
        """Facts about these episodes in order of the log, of the given names only when there are any."""
        ids = list(dict.fromkeys(episode_ids))
        wanted: Document = {"name": {"$in": list(names)}} if names else {}
        found: list[Document] = []
        with self._readable():
            for at in range(0, len(ids), _IDS):
                found += self._facts.find({"episode_id": {"$in": ids[at : at + _IDS]}, **wanted})
        return [_fact(each) for each in sorted(found, key=lambda each: int(each["sequence"]))]

    def counts(self) -> dict[str, int]:
        """Number of different episodes per annotation name."""
        pipeline: list[Document] = [
            {"$group": {"_id": {"name": "$name", "episode_id": "$episode_id"}}},
            {"$group": {"_id": "$_id.name", "episodes": {"$sum": 1}}},
            {"$sort": {"_id": 1}},
        ]
        with self._readable():
            found = self._facts.aggregate(pipeline, allowDiskUse=True)
            return {each["_id"]: each["episodes"] for each in found}

    def add_maker(self, maker: Maker) -> None:
        """Remember what a maker_id stands for."""
        document = {"_id": maker.maker_id, "body": codec.maker_to_text(maker)}
        with self._readable():
            self._makers.replace_one({"_id": maker.maker_id}, document, upsert=True)

    def makers(self) -> dict[str, Maker]:
        """Every maker by its id."""
        with self._readable():
            return {
                each["_id"]: codec.maker_from_text(each["body"]) for each in self._makers.find().sort("_id")
            }

    def put(self, collection: str, documents: Mapping[str, Json]) -> None:
        """Write keyed documents; the last write of a key wins."""
        from pymongo import ReplaceOne

        writes = []
        for key, document in documents.items():
            place = {"collection": collection, "key": key}
            writes.append(
                ReplaceOne({"_id": place}, {"_id": place, "body": codec.to_text(document)}, upsert=True)
            )
        with self._readable():
            for at in range(0, len(writes), _CHUNK):
                self._documents.bulk_write(writes[at : at + _CHUNK], ordered=False)

    def get(self, collection: str, key: str) -> Json:
        """One document, or None."""
        with self._readable():
            found = self._documents.find_one({"_id": {"collection": collection, "key": key}})
        return codec.from_text(found["body"]) if found else None

    def find(self, collection: str, prefix: str = "") -> Iterator[tuple[str, Json]]:
        """Documents whose key starts with `prefix`, in order of key, a page at a time."""
        span: Document = {"$gte": {"collection": collection, "key": prefix}}
        while True:
            with self._readable():
                page = list(self._documents.find({"_id": span}).sort("_id").limit(_CHUNK))
            for each in page:
                place = each["_id"]
                if place["collection"] != collection or not place["key"].startswith(prefix):
                    return
                yield place["key"], codec.from_text(each["body"])
            if len(page) < _CHUNK:
                return
            span = {"$gt": page[-1]["_id"]}

    def drop(self, collection: str, keys: Iterable[str]) -> None:
        """Remove documents; a key that is not there is no error."""
        places = [{"collection": collection, "key": key} for key in keys]
        with self._readable():
            for at in range(0, len(places), _CHUNK):
                self._documents.delete_many({"_id": {"$in": places[at : at + _CHUNK]}})

    def close(self) -> None:
        """Release the connection."""
        self._client.close()

    def _write(self, facts: list[Document]) -> None:
        from pymongo.errors import PyMongoError

        batch = self._batches.begin(len(facts))
        try:
            for sequence, fact in enumerate(facts, start=batch.first):
                fact["sequence"] = sequence
            for at in range(0, len(facts), _CHUNK):
                _insert_new(self._facts, facts[at : at + _CHUNK])
                self._batches.renew(batch)
        except Exception:
            # Without the server even this fails; the next reader closes the batch then.
            with suppress(PyMongoError):
                self._batches.abandon(batch)
            raise
        self._batches.end(batch, [fact["_id"] for fact in facts])

    def _prepare(self) -> None:
        from pymongo import IndexModel

        with self._readable():
            self._batches.prepare()
            self._facts.create_indexes(
                [
                    IndexModel("sequence"),
                    IndexModel(["maker_id", "subject"]),
                    IndexModel(["episode_id", "name"]),
                    IndexModel(["name", "episode_id"]),
                ]
            )

    @contextmanager
    def _readable(self) -> Iterator[None]:
        from pymongo.errors import ConnectionFailure, InvalidOperation, OperationFailure, PyMongoError

        try:
            yield
        except InvalidOperation:
            raise
        except ConnectionFailure as error:
            remedy = "start it, or set ARES_MONGO_URI to the right one; what is stored is safe"
            raise StoreError("MongoDB cannot be reached", f"server {self._host!r}; {remedy}") from error
        except OperationFailure as error:
            raise StoreError("MongoDB refused", f"server {self._host!r}: {_told(error)}") from error
        except PyMongoError as error:
            raise StoreError("MongoDB failed", f"server {self._host!r}: {type(error).__name__}") from error


def _told(error: Any) -> str:
    if error.code in (13, 18):
        return "the user or the password of ARES_MONGO_URI is wrong, or may not use this database"
    return str(error).splitlines()[0][:300]


def _document(fact: Annotation) -> Document:
    body = codec.fact_to_text(fact)
    if len(body) > _FACT_BYTES:
        raise StoreError(
            "a fact is too large for MongoDB",
            f"{fact.name} of episode {fact.episode_id} has {len(body)} bytes",
        )
    return {
        "_id": fact.annotation_id,
        "episode_id": fact.episode_id,
        "name": fact.name,
        "maker_id": fact.maker_id,
        "subject": fact.subject,
        "body": body,
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
