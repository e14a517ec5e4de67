"""The annotation log on a shared MongoDB server, with a lease so that one job at a time writes."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, Producer
from ares.console import print_message
from ares.episode import Json
from ares.errors import StoreError
from ares.store.folder_lock import WorkspaceBusy, job_label
from ares.store.log.mongo_connection import MongoConnection
from ares.store.log.mongo_sequence import SequenceAllocator, current_process, is_dead_process
from ares.store.log.protocol import (
    ACTIONS,
    INDEXES,
    PINS,
    PURGES,
    AnnotationRow,
    LogEntry,
    LogPosition,
    UnstorableError,
    annotation_from_text,
    annotations_to_rows,
    decode_json,
    encode_json,
    find_outdated_subjects,
    next_page_size,
    producer_from_text,
    producer_to_text,
    serialize_documents,
)
from ares.store.sql import batched

if TYPE_CHECKING:
    from pymongo.collection import Collection

    from ares.store.log.mongo_sequence import RunWithRetries


Document = dict[str, Any]

_LEASE_SECONDS = 60.0
_RENEW_SECONDS = 10.0
_POLL_SECONDS = 1.0
_ID: Document = {"_id": "writing"}
# Documents per write, between two renewals of the range; ids per query.
_WRITE_BATCH = 1000
_IDS_PER_QUERY = 10_000
_INDEXES = {"facts_sequence": ("sequence",), **INDEXES}


class WriteLease:
    """The right to write; only the server's clock decides when a lease that was not renewed has expired.

    Args:
        leases: Collection of the one document.
        run: Runs an operation on the server, with retries.
    """

    def __init__(self, leases: Collection[Document], run: RunWithRetries) -> None:
        self._leases = leases
        self._run = run
        self._new_owner = ""

    @contextmanager
    def acquire(self, job_name: str, wait: bool = True) -> Iterator[None]:
        """Own the lease inside a `with` block; a thread renews it.

        Args:
            job_name: Name of the job, shown to those who wait.
            wait: Whether to wait for another writer, and print its name.

        Raises:
            WorkspaceBusy: Another job writes, and `wait` is off.
        """
        token = uuid.uuid4().hex
        self._wait_for_lease(token, job_name, wait)
        stop = threading.Event()
        renewal = threading.Thread(target=self._renew, args=[token, job_name, stop], daemon=True)
        renewal.start()
        try:
            yield
        finally:
            stop.set()
            renewal.join()
            self._new_owner = ""
            self._run(lambda: self._leases.update_one({**_ID, "token": token}, {"$set": {"token": ""}}))

    def require_ownership(self) -> None:
        """Raise StoreError when another job has taken over the lease of this process: two must not write."""
        if self._new_owner:
            raise StoreError("another job took over the workspace", f"{self._new_owner}; run this job again")

    def _wait_for_lease(self, token: str, job_name: str, wait: bool) -> None:
        new_document = {"$setOnInsert": {"token": ""}}
        self._run(lambda: self._leases.update_one(_ID, new_document, upsert=True))
        is_printed = False
        while not self._try_acquire(token, job_name):
            owner = self._current_owner()
            if owner is None:
                continue
            if not wait:
                raise WorkspaceBusy(owner)
            if not is_printed:
                print_message(f"waiting: {owner} is writing to the workspace")
                is_printed = True
            time.sleep(_POLL_SECONDS)

    def _try_acquire(self, token: str, job_name: str) -> bool:
        """Take or renew the lease. Returns whether this token owns it now; repeating it gives the same answer."""
        until = {"$add": ["$$NOW", int(_LEASE_SECONDS * 1000)]}
        lease = {
            "token": token,
            "who": {"$literal": job_label(job_name)},
            "until": until,
            **current_process(),
        }
        is_available = {"$or": [{"token": {"$in": ["", token]}}, {"$expr": {"$lt": ["$until", "$$NOW"]}}]}
        result = self._run(lambda: self._leases.update_one({**_ID, **is_available}, [{"$set": lease}]))
        return result.matched_count == 1

    def _current_owner(self) -> str | None:
        """Return the job that owns the lease, or None when it is free; a dead process of this machine loses it."""
        lease = self._run(lambda: self._leases.find_one(_ID))
        if not lease or not lease["token"]:
            return None
        if is_dead_process(lease):
            dead_lease = {**_ID, "token": lease["token"]}
            self._run(lambda: self._leases.update_one(dead_lease, {"$set": {"token": ""}}))
            return None
        return str(lease["who"])

    def _renew(self, token: str, job_name: str, stop: threading.Event) -> None:
        while not stop.wait(_RENEW_SECONDS):
            try:
                if not self._try_acquire(token, job_name):
                    self._new_owner = self._current_owner() or "a job that has ended since"
                    return
            except StoreError:
                # The server is away; every operation that needs it is retried, and so is this one.
                continue


class MongoAnnotationStore:
    """An AnnotationStore in the database "<database of the URI, or ares>_<workspace>"; needs no replica set.

    Args:
        uri: Server, with user and password where it needs them.
        workspace_id: The workspace that owns the annotations.

    Raises:
        StoreError: The server cannot be reached, or rejects the login.
    """

    def __init__(self, uri: str, workspace_id: str) -> None:
        self._server = MongoConnection(uri)
        database = self._server.database(workspace_id)
        self._annotations, self._producers = database["facts"], database["makers"]
        self._documents = database["documents"]
        self._run = self._server.run
        self._sequence = SequenceAllocator(database["log"], self._annotations, self._run)
        self._lease = WriteLease(database["leases"], self._run)
        try:
            self._sequence.prepare()
            self._create_indexes()
        except BaseException:
            self._server.close()
            raise

    def __repr__(self) -> str:
        return f"MongoAnnotationStore({self._server.host!r})"

    @property
    def retry_seconds(self) -> float:
        """How long an operation waits for a server that went away."""
        return self._server.retry_seconds

    @retry_seconds.setter
    def retry_seconds(self, seconds: float) -> None:
        self._server.retry_seconds = seconds

    def append(self, annotations: Sequence[Annotation | AnnotationRow]) -> int:
        """Append annotations as one range, ignoring existing ones. Returns the last sequence number.

        Raises:
            UnstorableError: Some cannot be stored; all others are stored.
            StoreError: The server cannot be reached; what it has received of the range stays and is valid.
        """
        self._lease.require_ownership()
        rows, errors = annotations_to_rows(annotations)
        if rows:
            self._write([_to_document(row) for row in rows])
        last_sequence = self._sequence.last_complete()
        if errors:
            raise UnstorableError(errors)
        return last_sequence

    def read(self, after: int = 0, limit: int = 10_000) -> list[LogEntry]:
        """Return annotations with a sequence number above `after`, in order, up to the first open range."""
        bounds = {"$gt": after, "$lte": self._sequence.last_complete()}
        documents = self._run(
            lambda: list(self._annotations.find({"sequence": bounds}).sort("sequence").limit(limit))
        )
        return [LogEntry(document["sequence"], _to_annotation(document)) for document in documents]

    def last_sequence(self) -> int:
        """Return the sequence number up to which `read` is complete; 0 for an empty log."""
        return self._sequence.last_complete()

    def position(self) -> LogPosition:
        """Return how far the log has come, whatever its size, in a few reads by key."""
        return LogPosition(
            sequence=self.last_sequence(),
            action=int(self._last_key(ACTIONS) or 0),
            pins={name: str(maker_id) for name, maker_id in self.find_documents(PINS)},
            has_purge=bool(self._last_key(PURGES)),
        )

    def atomic(self) -> AbstractContextManager[None]:
        """Return a block without effect: what it writes is stored in order, each part by itself."""
        return nullcontext()

    def find_done_subjects(self, maker_id: str, subjects: Sequence[str]) -> set[str]:
        """Return those of the subjects that this producer has annotated, and is not to annotate again."""
        documents = self._find_any({"maker_id": maker_id}, "subject", subjects, {"_id": 0, "subject": 1})
        done = {document["subject"] for document in documents}
        return done - find_outdated_subjects(self, maker_id, done) if done else done

    def find_annotations(
        self, episode_ids: Sequence[str], names: Sequence[str] = (), *, maker_ids: Sequence[str] = ()
    ) -> list[Annotation]:
        """Return the annotations of these episodes, in order of the log; with names or producers only those."""
        ids = list(dict.fromkeys(episode_ids))
        condition: Document = {"name": {"$in": list(names)}} if names else {}
        condition |= {"maker_id": {"$in": list(maker_ids)}} if maker_ids else {}
        documents = self._find_any(condition, "episode_id", ids)
        return [
            _to_annotation(document)
            for document in sorted(documents, key=lambda document: int(document["sequence"]))
        ]

    def get_annotation(self, annotation_id: str) -> Annotation | None:
        """Return the annotation of an id, or None."""
        document = self._run(lambda: self._annotations.find_one({"_id": annotation_id}))
        return _to_annotation(document) if document else None

    def find_episodes(self, name: str, maker_id: str = "") -> list[str]:
        """Return the episodes with an annotation of that name, sorted; with a producer, those with one by it."""
        by_producer = {"maker_id": maker_id} if maker_id else {}
        pipeline: list[Document] = [
            {"$match": {"name": name, **by_producer}},
            {"$sort": {"name": 1, "episode_id": 1}},
            {"$group": {"_id": "$episode_id"}},
        ]
        groups = self._run(lambda: list(self._annotations.aggregate(pipeline, allowDiskUse=True)))
        return sorted(group["_id"] for group in groups)

    def count_episodes(self, episode_ids: Sequence[str] | None = None) -> dict[str, int]:
        """Return the number of different episodes per annotation name; with ids, of these."""
        of_episodes: Document = {"$match": {"episode_id": {"$in": list(episode_ids or ())}}}
        pipeline: list[Document] = [
            *([] if episode_ids is None else [of_episodes]),
            # Sorted first, so that the index alone answers.
            {"$sort": {"name": 1, "episode_id": 1}},
            {"$group": {"_id": {"name": "$name", "episode_id": "$episode_id"}}},
            {"$group": {"_id": "$_id.name", "episodes": {"$sum": 1}}},
            {"$sort": {"_id": 1}},
        ]
        groups = self._run(lambda: list(self._annotations.aggregate(pipeline, allowDiskUse=True)))
        return {group["_id"]: group["episodes"] for group in groups}

    def count_annotations(self, maker_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of annotations by maker_id; a producer without annotations is left out."""
        pipeline: list[Document] = [
            {"$match": {"maker_id": {"$in": list(maker_ids)}}},
            {"$group": {"_id": "$maker_id", "annotations": {"$sum": 1}}},
        ]
        groups = self._run(lambda: list(self._annotations.aggregate(pipeline)))
        return {group["_id"]: group["annotations"] for group in groups}

    def add_producer(self, producer: Producer) -> None:
        """Store a producer under its maker_id."""
        document = {"_id": producer.maker_id, "body": producer_to_text(producer)}
        self._run(lambda: self._producers.replace_one({"_id": producer.maker_id}, document, upsert=True))

    def producers(self) -> dict[str, Producer]:
        """Return every producer by its id."""
        documents = self._run(lambda: list(self._producers.find().sort("_id")))
        return {document["_id"]: producer_from_text(document["body"]) for document in documents}

    def put_documents(self, collection: str, documents: Mapping[str, Json]) -> None:
        """Write keyed documents; the last write of a key wins."""
        from pymongo import ReplaceOne

        texts, errors = serialize_documents(documents)
        writes = []
        for key, text in texts.items():
            document_id = {"collection": collection, "key": key}
            writes.append(ReplaceOne({"_id": document_id}, {"_id": document_id, "body": text}, upsert=True))
        for start in range(0, len(writes), _WRITE_BATCH):
            self._write_documents(writes[start : start + _WRITE_BATCH])
        if errors:
            raise UnstorableError(errors)

    def claim_document(self, collection: str, key: str, document: Json) -> bool:
        """Write a document if its key is free; of several concurrent callers exactly one gets True."""
        from uuid import uuid4

        document_id, token = {"collection": collection, "key": key}, uuid4().hex
        new_document = {"$setOnInsert": {"body": encode_json(document), "claim": token}}
        self._run(lambda: self._documents.update_one({"_id": document_id}, new_document, upsert=True))
        # Read back instead of counted: the answer to the first try may have been lost with the connection.
        stored = self._run(lambda: self._documents.find_one({"_id": document_id}, {"claim": 1}))
        return stored is not None and stored.get("claim") == token

    def get_document(self, collection: str, key: str) -> Json:
        """Return one document, or None."""
        document_id = {"collection": collection, "key": key}
        document = self._run(lambda: self._documents.find_one({"_id": document_id}))
        return decode_json(document["body"]) if document else None

    def get_documents(self, collection: str, keys: Sequence[str]) -> Iterator[Json]:
        """Yield the documents of some keys in order of key; a key that does not exist is left out."""
        for chunk in batched(sorted(set(keys), key=str.encode), _IDS_PER_QUERY):
            ids = {"$in": [{"collection": collection, "key": key} for key in chunk]}
            for document in self._document_page(ids, len(chunk)):
                yield decode_json(document["body"])

    def find_documents(self, collection: str, prefix: str = "") -> Iterator[tuple[str, Json]]:
        """Stream the documents whose key starts with `prefix`, in order of key, page by page."""
        bounds: Document = {"$gte": {"collection": collection, "key": prefix}}
        page_size = 1
        while page := self._document_page(bounds, page_size):
            page_size = next_page_size(page_size, sum(len(document["body"]) for document in page))
            for document in page:
                document_id = document["_id"]
                if document_id["collection"] != collection or not document_id["key"].startswith(prefix):
                    return
                yield document_id["key"], decode_json(document["body"])
            bounds = {"$gt": page[-1]["_id"]}

    def drop_documents(self, collection: str, keys: Iterable[str]) -> None:
        """Delete documents; a key that does not exist is ignored."""
        document_ids = [{"collection": collection, "key": key} for key in keys]
        for start in range(0, len(document_ids), _WRITE_BATCH):
            self._delete_documents(document_ids[start : start + _WRITE_BATCH])

    def collections(self) -> list[str]:
        """Return the names of all collections that have documents, sorted."""
        return sorted(self._run(lambda: self._documents.distinct("_id.collection")))

    def delete_episodes(self, episode_ids: Sequence[str]) -> int:
        """Delete every annotation of some episodes. Returns their number."""
        return self._delete_where("episode_id", episode_ids)

    def delete_annotations(self, annotation_ids: Sequence[str]) -> None:
        """Delete some annotations."""
        self._delete_where("_id", annotation_ids)

    def erase_deleted(self) -> None:
        """Do nothing: the server reuses the space of deleted annotations; its files and backups are its operator's."""

    def write_lease(self, job_name: str, wait: bool = True) -> AbstractContextManager[None]:
        """Lock the workspace for one writer, as `lock_folder` does in a folder. Raises WorkspaceBusy."""
        return self._lease.acquire(job_name, wait)

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def _create_indexes(self) -> None:
        """Create the declared indexes that the server lacks."""
        from pymongo import IndexModel

        indexes = self._run(self._annotations.index_information).values()
        existing = {tuple(column for column, _ in index["key"]) for index in indexes}
        models = [
            IndexModel(list(columns), name=name)
            for name, columns in _INDEXES.items()
            if columns not in existing
        ]
        if models:
            self._run(lambda: self._annotations.create_indexes(models))

    def _write(self, documents: list[Document]) -> None:
        sequence_range = self._sequence.allocate(len(documents))
        try:
            for sequence, document in enumerate(documents, start=sequence_range.first):
                document["sequence"] = sequence
            for start in range(0, len(documents), _WRITE_BATCH):
                if start:
                    self._sequence.renew(sequence_range)
                self._insert(documents[start : start + _WRITE_BATCH])
        except Exception:
            self._sequence.abandon(sequence_range)
            raise
        self._sequence.commit(sequence_range, [document["_id"] for document in documents])

    def _insert(self, documents: list[Document]) -> None:
        self._run(lambda: _insert_new(self._annotations, documents))

    def _find_any(
        self, condition: Document, column: str, values: Sequence[str], projection: Document | None = None
    ) -> Iterator[Document]:
        """Yield annotations whose column has one of the values, in queries of bounded size."""
        for chunk in batched(values, _IDS_PER_QUERY):
            yield from self._find({**condition, column: {"$in": chunk}}, projection)

    def _find(self, condition: Document, projection: Document | None = None) -> list[Document]:
        return self._run(lambda: list(self._annotations.find(condition, projection)))

    def _last_key(self, collection: str) -> str:
        bounds = {
            "$gte": {"collection": collection, "key": ""},
            "$lt": {"collection": collection, "key": "\uffff"},
        }
        newest = self._run(lambda: self._documents.find_one({"_id": bounds}, {"_id": 1}, sort=[("_id", -1)]))
        return str(newest["_id"]["key"]) if newest else ""

    def _document_page(self, bounds: Document, size: int) -> list[Document]:
        return self._run(lambda: list(self._documents.find({"_id": bounds}).sort("_id").limit(size)))

    def _write_documents(self, writes: list[Any]) -> None:
        self._run(lambda: self._documents.bulk_write(writes, ordered=False))

    def _delete_where(self, field: str, values: Sequence[str]) -> int:
        conditions = ({field: {"$in": list(chunk)}} for chunk in batched(values, _IDS_PER_QUERY))
        return sum(map(self._delete_annotations, conditions))

    def _delete_annotations(self, condition: Document) -> int:
        return self._run(lambda: self._annotations.delete_many(condition).deleted_count)

    def _delete_documents(self, document_ids: list[Document]) -> None:
        self._run(lambda: self._documents.delete_many({"_id": {"$in": document_ids}}))


def _to_document(row: AnnotationRow) -> Document:
    return {
        "_id": row.annotation_id,
        "episode_id": row.episode_id,
        "name": row.name,
        "maker_id": row.maker_id,
        "subject": row.subject,
        "body": row.body,
    }


def _to_annotation(document: Document) -> Annotation:
    return annotation_from_text(
        document["body"],
        episode_id=document["episode_id"],
        name=document["name"],
        maker_id=document["maker_id"],
        subject=document["subject"],
    )


def _insert_new(annotations: Collection[Document], documents: list[Document]) -> None:
    from pymongo.errors import BulkWriteError

    try:
        annotations.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        failures = [failure for failure in error.details["writeErrors"] if failure["code"] != 11000]
        if failures or error.details.get("writeConcernErrors"):
            raise
