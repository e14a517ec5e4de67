"""An annotation log in memory: the double of the tests; nothing is written to disk."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice

from ares.annotation import Annotation, Producer
from ares.episode import Json
from ares.store.log.protocol import (
    ACTIONS,
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
    producer_from_text,
    producer_to_text,
    serialize_documents,
)


class MemoryAnnotationStore:
    """An AnnotationStore in memory, shared by any number of threads.

    Values are stored as JSON text, so they have the same limits and come back in the same types as from a database.
    """

    def __init__(self) -> None:
        # Unused: memory is always reachable.
        self.retry_seconds = 0.0
        self._lock = threading.RLock()
        # The sequence number is the position + 1; None was deleted.
        self._rows: list[AnnotationRow | None] = []
        self._annotation_ids: set[str] = set()
        self._positions: dict[str, list[int]] = {}  # by episode_id
        self._done: Counter[tuple[str, str]] = Counter()  # annotations by maker_id and subject
        self._producers: dict[str, str] = {}
        self._documents: dict[str, dict[str, str]] = {}  # by collection and key

    def __repr__(self) -> str:
        return f"MemoryAnnotationStore({len(self._rows)} annotations)"

    def append(self, annotations: Sequence[Annotation | AnnotationRow]) -> int:
        """Append annotations, ignoring existing ones. Returns the last sequence number.

        Raises:
            UnstorableError: Some cannot be stored; all others are stored.
        """
        rows, errors = annotations_to_rows(annotations)
        with self._lock:
            for row in rows:
                if row.annotation_id not in self._annotation_ids:
                    self._append_row(row)
            last_sequence = len(self._rows)
        if errors:
            raise UnstorableError(errors)
        return last_sequence

    def _append_row(self, row: AnnotationRow) -> None:
        self._annotation_ids.add(row.annotation_id)
        self._positions.setdefault(row.episode_id, []).append(len(self._rows))
        self._done[row.maker_id, row.subject] += 1
        self._rows.append(row)

    def read(self, after: int = 0, limit: int = 10_000) -> list[LogEntry]:
        """Return annotations with a sequence number above `after`, in order."""
        with self._lock:
            rows = enumerate(self._rows[after:], after + 1)
            entries = islice(((sequence, row) for sequence, row in rows if row is not None), limit)
            return [LogEntry(sequence, _to_annotation(row)) for sequence, row in entries]

    def last_sequence(self) -> int:
        """Return the sequence number of the newest annotation; 0 for an empty log."""
        return len(self._rows)

    def position(self) -> LogPosition:
        """Return how far the log has come."""
        with self._lock:
            texts = self._documents
            pins = {name: str(decode_json(text)) for name, text in texts.get(PINS, {}).items()}
            action = int(max(texts.get(ACTIONS, {}), default=0))
            return LogPosition(self.last_sequence(), action, pins, has_purge=bool(texts.get(PURGES)))

    def atomic(self) -> AbstractContextManager[None]:
        """Return a block without effect: memory is not interrupted."""
        return nullcontext()

    def find_done_subjects(self, maker_id: str, subjects: Sequence[str]) -> set[str]:
        """Return those of the subjects that this producer has annotated."""
        return {subject for subject in subjects if (maker_id, subject) in self._done}

    def find_annotations(
        self, episode_ids: Sequence[str], names: Sequence[str] = (), *, maker_ids: Sequence[str] = ()
    ) -> list[Annotation]:
        """Return the annotations of these episodes, in order of the log; with names or producers only those."""
        return [
            _to_annotation(row)
            for row in self._rows_of(episode_ids)
            if (not names or row.name in names) and (not maker_ids or row.maker_id in maker_ids)
        ]

    def _rows_of(self, episode_ids: Sequence[str]) -> list[AnnotationRow]:
        with self._lock:
            positions = [
                position
                for episode_id in dict.fromkeys(episode_ids)
                for position in self._positions.get(episode_id, ())
            ]
            rows = [self._rows[position] for position in sorted(positions)]
        return [row for row in rows if row is not None]

    def get_annotation(self, annotation_id: str) -> Annotation | None:
        """Return the annotation of an id, or None."""
        with self._lock:
            rows = [row for row in self._rows if row is not None and row.annotation_id == annotation_id]
        return next(map(_to_annotation, rows), None)

    def find_episodes(self, name: str, maker_id: str = "") -> list[str]:
        """Return the episodes with an annotation of that name, sorted; with a producer, those with one by it."""
        with self._lock:
            rows = [row for row in self._rows if row is not None and row.name == name]
        return sorted({row.episode_id for row in rows if not maker_id or row.maker_id == maker_id})

    def count_episodes(self, episode_ids: Sequence[str] | None = None) -> dict[str, int]:
        """Return the number of different episodes per annotation name; with ids, of these."""
        ids_by_name: dict[str, set[str]] = {}
        with self._lock:
            rows = list(self._rows) if episode_ids is None else self._rows_of(episode_ids)
        for row in filter(None, rows):
            ids_by_name.setdefault(row.name, set()).add(row.episode_id)
        return {name: len(ids) for name, ids in sorted(ids_by_name.items())}

    def count_annotations(self, maker_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of annotations by maker_id; a producer without annotations is left out."""
        with self._lock:
            counts = Counter(row.maker_id for row in self._rows if row is not None)
        return {maker_id: counts[maker_id] for maker_id in maker_ids if counts[maker_id]}

    def add_producer(self, producer: Producer) -> None:
        """Store a producer under its maker_id."""
        text = producer_to_text(producer)
        with self._lock:
            self._producers[producer.maker_id] = text

    def producers(self) -> dict[str, Producer]:
        """Return every producer by its id."""
        with self._lock:
            texts = sorted(self._producers.items())
        return {maker_id: producer_from_text(text) for maker_id, text in texts}

    def put_documents(self, collection: str, documents: Mapping[str, Json]) -> None:
        """Write keyed documents; the last write of a key wins."""
        texts, errors = serialize_documents(documents)
        with self._lock:
            self._documents.setdefault(collection, {}).update(texts)
        if errors:
            raise UnstorableError(errors)

    def claim_document(self, collection: str, key: str, document: Json) -> bool:
        """Write a document if its key is free; of several concurrent callers exactly one gets True."""
        text = encode_json(document)
        with self._lock:
            texts = self._documents.setdefault(collection, {})
            is_free = key not in texts
            texts.setdefault(key, text)
        return is_free

    def get_document(self, collection: str, key: str) -> Json:
        """Return one document, or None."""
        with self._lock:
            text = self._documents.get(collection, {}).get(key)
        return None if text is None else decode_json(text)

    def get_documents(self, collection: str, keys: Sequence[str]) -> Iterator[Json]:
        """Yield the documents of some keys in order of key; a key that does not exist is left out."""
        with self._lock:
            texts = self._documents.get(collection, {})
            found = [texts[key] for key in sorted(set(keys), key=str.encode) if key in texts]
        yield from map(decode_json, found)

    def find_documents(self, collection: str, prefix: str = "") -> Iterator[tuple[str, Json]]:
        """Stream the documents whose key starts with `prefix`, in order of key; deleted ones are left out."""
        with self._lock:
            keys = sorted(self._documents.get(collection, {}))
        for key in keys[bisect_left(keys, prefix) :]:
            if not key.startswith(prefix):
                return
            with self._lock:
                text = self._documents.get(collection, {}).get(key)
            if text is not None:
                yield key, decode_json(text)

    def drop_documents(self, collection: str, keys: Iterable[str]) -> None:
        """Delete documents; a key that does not exist is ignored."""
        with self._lock:
            texts = self._documents.get(collection, {})
            for key in keys:
                texts.pop(key, None)

    def collections(self) -> list[str]:
        """Return the names of all collections that have documents, sorted."""
        with self._lock:
            return sorted(name for name, texts in self._documents.items() if texts)

    def delete_episodes(self, episode_ids: Sequence[str]) -> int:
        """Delete every annotation of some episodes. Returns their number."""
        with self._lock:
            rows = self._rows_of(episode_ids)
            for row in rows:
                self._annotation_ids.discard(row.annotation_id)
                self._done[row.maker_id, row.subject] -= 1
            self._done += Counter()  # drops those that are 0 now
            for episode_id in episode_ids:
                for position in self._positions.pop(episode_id, ()):
                    self._rows[position] = None
        return len(rows)

    def delete_annotations(self, annotation_ids: Sequence[str]) -> None:
        """Delete some annotations."""
        with self._lock:
            for position, row in enumerate(self._rows):
                if row and row.annotation_id in annotation_ids:
                    self._annotation_ids.discard(row.annotation_id)
                    self._done[row.maker_id, row.subject] -= 1
                    self._positions[row.episode_id].remove(position)
                    self._rows[position] = None
            self._done += Counter()  # drops those that are 0 now

    def erase_deleted(self) -> None:
        """Do nothing: nothing is on disk."""

    def close(self) -> None:
        """Do nothing; the annotations live as long as the object."""


def _to_annotation(row: AnnotationRow) -> Annotation:
    return annotation_from_text(
        row.body,
        episode_id=row.episode_id,
        name=row.name,
        maker_id=row.maker_id,
        subject=row.subject,
    )
