"""What every annotation store offers: an append-only log, keyed documents, limits and spending."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import NamedTuple, Protocol

from ares.annotation import Annotation, Column, Cost, Producer, SubjectKind
from ares.episode import Json
from ares.errors import StoreError
from ares.registry import GONE_COLUMNS

# A MongoDB document holds 16 MiB; SQLite has the same limit here, so that a log can move between them.
MAX_BYTES = 15 * 2**20
# Created once: creating an encoder takes as long as encoding a small value.
_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
# Reads what it wrote, which has no spaces around it: `json.loads` looks for them at both ends.
_DECODER = json.JSONDecoder()
# Python parses at most about a thousand levels, fewer where its stack is already deep.
MAX_DEPTH = 200
_NO_BRACKETS, _INNERMOST = re.compile(r'"(?:[^"\\]|\\.)*"|[^][{}"]+'), re.compile(r"\[\]|\{\}")
# Fields of the JSON of every annotation, and those that only few have.
_COMMON_FIELDS, _UNCOMMON = 6, ("part", "ordinal", "revision")
# Documents per page: failures are small and many, blocks of a set are large.
_PAGE_DOCUMENTS, _PAGE_BYTES = 1_000, 2**20
# What a producer of grades of an earlier version is read as: it declares the columns that say today whether a grade
# counts, and none that are gone.
_OLDER_COLUMNS = {
    "grade_trust": Column(
        name="grade_refuted",
        type="bool",
        meaning="True where false captions that the judge accepted refute it, so that the grade does not count.",
    ),
    "acceptable_unproven": Column(
        name="grade_time", type="float64", meaning="When the grade was made, in seconds since 1970."
    ),
    "acceptable": Column(
        name="acceptable",
        type="bool",
        meaning="Whether the caption is true; empty if undecided, or by a judge that is refuted.",
        needs_current_maker=True,
    ),
}
# Indexes that every store needs, so that no query reads all annotations: columns by name. The sequence number and the
# annotation_id are keys already.
INDEXES: Mapping[str, tuple[str, ...]] = {
    "facts_done": ("maker_id", "subject"),
    "facts_about": ("episode_id", "name"),
    "facts_counts": ("name", "episode_id"),
}
# Collections that `AnnotationStore.position` reads.
ACTIONS, PINS, PURGES = "actions", "pins", "purges"
# Documents: subjects that a producer is to annotate again, by "maker_id/subject"; see `ares.store.outdated`.
OUTDATED = "outdated"
# Replies of models by the hash of their request; the costs are among them, so that one transaction writes both.
MODEL_REPLIES = "model_replies"
SPENT_PREFIX = "spent/"


class AnnotationRow(NamedTuple):
    """An annotation as a store writes it.

    Attributes:
        annotation_id: The key.
        episode_id: Column.
        name: Column.
        maker_id: Column.
        subject: Column.
        body: All other fields, as JSON.
    """

    annotation_id: str
    episode_id: str
    name: str
    maker_id: str
    subject: str
    body: str


class UnstorableError(StoreError):
    """Annotations or documents that no store accepts; all others of the same call are stored.

    Attributes:
        errors: The error by position of the annotation in the call, or by key of the document.
    """

    def __init__(self, errors: Mapping[int | str, StoreError]) -> None:
        first = next(iter(errors.values()))
        more = f"; so are {len(errors) - 1} more" if len(errors) > 1 else ""
        super().__init__(first.reason, first.detail + more)
        self.errors = dict(errors)


def encode_json(value: Json) -> str:
    """Return a value as JSON in ASCII, so that any string of a model (half an emoji too) can be stored.

    Raises:
        StoreError: The value is not JSON (NaN, infinity, other types), or nested too deep, or too large.
    """
    try:
        text = _JSON.encode(value)
    except RecursionError:
        raise StoreError("a value is nested too deep to be stored", f"more than {MAX_DEPTH} levels") from None
    except (TypeError, ValueError) as error:
        raise StoreError("a value that is not JSON cannot be stored", str(error)) from None
    if len(text) > MAX_BYTES:
        raise StoreError("a value is too large to be stored", f"{len(text)} bytes, at most {MAX_BYTES}")
    # Counting brackets is quick; only the few texts with many brackets are measured.
    if text.count("[") + text.count("{") > MAX_DEPTH and _nesting_depth(text) > MAX_DEPTH:
        raise StoreError("a value is nested too deep to be stored", f"more than {MAX_DEPTH} levels")
    return text


def decode_json(text: str) -> Json:
    """Return the value that `encode_json` encoded."""
    value: Json = json.loads(text)
    return value


def annotations_to_rows(
    annotations: Sequence[Annotation | AnnotationRow],
) -> tuple[list[AnnotationRow], dict[int | str, StoreError]]:
    """Return annotations as rows, rows unchanged, and the errors of the others by their position."""
    rows: list[AnnotationRow] = []
    errors: dict[int | str, StoreError] = {}
    for position, annotation in enumerate(annotations):
        if isinstance(annotation, AnnotationRow):
            rows.append(annotation)
            continue
        try:
            rows.append(annotation_to_row(annotation))
        except StoreError as error:
            detail = f"{annotation.name} of episode {annotation.episode_id}: {error.detail}"
            errors[position] = StoreError(error.reason, detail.encode("utf-8", "replace").decode())
    return rows, errors


def serialize_documents(
    documents: Mapping[str, Json],
) -> tuple[dict[str, str], dict[int | str, StoreError]]:
    """Return documents as JSON by key, and the errors of the others by key."""
    texts: dict[str, str] = {}
    errors: dict[int | str, StoreError] = {}
    for key, document in documents.items():
        try:
            texts[key] = encode_json(document)
        except StoreError as error:
            errors[key] = StoreError(error.reason, f"document {key!r}: {error.detail}")
    return texts, errors


def annotation_to_row(annotation: Annotation) -> AnnotationRow:
    """Return an annotation as a row. Raises StoreError when no store accepts it."""
    try:
        columns = (
            annotation.annotation_id,
            annotation.episode_id,
            annotation.name,
            annotation.maker_id,
            annotation.subject,
        )
        "".join(columns).encode()
    except ValueError as error:
        # Half an emoji in a key, or a span that is NaN or infinite.
        raise StoreError("an annotation has an identity that cannot be stored", str(error)) from None
    return AnnotationRow(*columns, annotation_to_text(annotation))


def annotation_from_row(row: AnnotationRow) -> Annotation:
    """Return the annotation that `annotation_to_row` made a row of."""
    columns = {"episode_id": row.episode_id, "name": row.name, "maker_id": row.maker_id}
    return annotation_from_text(row.body, **columns, subject=row.subject)


def annotation_to_text(annotation: Annotation) -> str:
    """Return the fields that have no column as JSON. Raises StoreError as `encode_json` does."""
    cost = annotation.cost
    return encode_json(
        {
            "value": annotation.value,
            "span": [annotation.start_seconds, annotation.stop_seconds],
            "created": annotation.created,
            "camera": annotation.camera,
            "frames": list(annotation.frames),
            "cost": [cost.calls, cost.tokens_in, cost.tokens_out, cost.usd],
            **_uncommon_fields(annotation),
        }
    )


def _uncommon_fields(annotation: Annotation) -> dict[str, Json]:
    """The fields that most annotations leave at their default, without those that are at it."""
    fields: dict[str, Json] = {
        "part": annotation.part,
        "ordinal": annotation.ordinal,
        "revision": annotation.revision,
    }
    if annotation.subject_kind != _usual_kind(annotation.subject, annotation.episode_id):
        fields["kind"] = annotation.subject_kind
    return {name: value for name, value in fields.items() if value}


def _usual_kind(subject: str, episode_id: str) -> SubjectKind:
    """The kind of a subject that is not stored: logs before layout 2 have no other."""
    return "episode" if subject == episode_id else "annotation"


def annotation_from_text(text: str, *, episode_id: str, name: str, maker_id: str, subject: str) -> Annotation:
    """Return the annotation of a JSON text of `annotation_to_text` and its columns."""
    body, _ = _DECODER.raw_decode(text)
    calls, tokens_in, tokens_out, usd = body["cost"]
    start, stop = body["span"]
    kind: SubjectKind = body.get("kind") or _usual_kind(subject, episode_id)
    uncommon = {name: body[name] for name in _UNCOMMON if name in body} if len(body) > _COMMON_FIELDS else {}
    return Annotation(
        episode_id=episode_id,
        name=name,
        value=body["value"],
        maker_id=maker_id,
        subject=subject,
        start_seconds=start,
        stop_seconds=stop,
        created=body["created"],
        camera=body["camera"],
        frames=tuple(body["frames"]),
        cost=Cost(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd),
        subject_kind=kind,
        **uncommon,
    )


def producer_to_text(producer: Producer) -> str:
    """Return a producer as JSON text."""
    return encode_json({**asdict(producer), "settings": dict(producer.settings)})


def producer_from_text(text: str) -> Producer:
    """Return the producer that `producer_to_text` encoded; grades of earlier versions have the columns of today."""
    body = json.loads(text)
    columns = tuple(
        Column(**{**column, "choices": tuple(column.get("choices", ()))}) for column in body.pop("columns")
    )
    if any(column.name in GONE_COLUMNS for column in columns):
        read = (_OLDER_COLUMNS.get(column.name, column) for column in columns)
        columns = tuple({column.name: column for column in read}.values())
    body["after"] = tuple(body.get("after", ()))
    # Before layout 2 no producer was a person, and only models had a name.
    body.setdefault("kind", "model" if body["model"] else "code")
    return Producer(**body, columns=columns)


def next_page_size(documents: int, size: int) -> int:
    """Return how many documents to read next, after a page of `documents` with `size` bytes in all."""
    return min(2 * documents, _PAGE_DOCUMENTS) if size < _PAGE_BYTES else max(1, documents // 2)


def _nesting_depth(text: str) -> int:
    """Levels of a JSON text: the innermost pairs of brackets are taken away until none is left."""
    depth, brackets = 0, _NO_BRACKETS.sub("", text)
    while brackets and depth <= MAX_DEPTH:
        depth, brackets = depth + 1, _INNERMOST.sub("", brackets)
    return depth


class LogEntry(NamedTuple):
    """An annotation with its sequence number in the log."""

    sequence: int
    annotation: Annotation


class LogPosition(NamedTuple):
    """How far a log has come: what tables that follow it have to show.

    Attributes:
        sequence: Sequence number of the newest annotation; 0 for an empty log.
        action: Number of the newest action; 0 without any.
        pins: The pinned maker_id by annotator.
        has_purge: Whether a purge was begun and not completed.
    """

    sequence: int
    action: int
    pins: Mapping[str, str]
    has_purge: bool


class AnnotationStore(Protocol):
    """Append-only annotations with sequence numbers, and small keyed documents (sets, failures, jobs, spaces).

    `SqliteAnnotationStore` and `MongoAnnotationStore` fill it; `Stores.annotations` chooses.
    Every method may raise StoreError when the store cannot be reached; what was stored before is not lost.

    Attributes:
        retry_seconds: How long an operation waits for a server that went away; a job sets it, a page does not.
    """

    retry_seconds: float

    def append(self, annotations: Sequence[Annotation | AnnotationRow]) -> int:
        """Append annotations; `read` shows all or none of them. An annotation_id that exists already is ignored.

        Returns:
            The last sequence number of the log.

        Raises:
            UnstorableError: Some are too large, nested too deep or not JSON; all others are stored.
        """

    def read(self, after: int = 0, limit: int = 10_000) -> list[LogEntry]:
        """Return annotations with a sequence number above `after`, in order.

        An annotation that a slower writer still adds is never skipped: `read` stops before it.
        """

    def last_sequence(self) -> int:
        """Return the sequence number up to which `read` is complete; 0 for an empty log."""

    def position(self) -> LogPosition:
        """Return how far the log has come, whatever its size, in a few reads by key."""

    def atomic(self) -> AbstractContextManager[None]:
        """Store what the block writes together or not at all; a server stores it in order."""

    def find_done_subjects(self, maker_id: str, subjects: Sequence[str]) -> set[str]:
        """Return those of the subjects that this producer has annotated, and is not to annotate again.

        Pass some thousands at once.
        """

    def find_annotations(
        self, episode_ids: Sequence[str], names: Sequence[str] = (), *, maker_ids: Sequence[str] = ()
    ) -> list[Annotation]:
        """Return the annotations of these episodes, in order of the log; those about sets have the episode "".

        Args:
            episode_ids: The episodes.
            names: Only annotations of these names; empty for all.
            maker_ids: Only annotations by these producers; empty for all.
        """

    def get_annotation(self, annotation_id: str) -> Annotation | None:
        """Return the annotation of an id, or None."""

    def find_episodes(self, name: str, maker_id: str = "") -> list[str]:
        """Return the episodes with an annotation of that name, sorted; with a producer, those with one by it."""

    def count_episodes(self, episode_ids: Sequence[str] | None = None) -> dict[str, int]:
        """Return the number of different episodes per annotation name; with ids, of these; pass some thousands."""

    def count_annotations(self, maker_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of annotations by maker_id; a producer without annotations is left out."""

    def add_producer(self, producer: Producer) -> None:
        """Store a producer under its maker_id."""

    def producers(self) -> dict[str, Producer]:
        """Return every producer by its id."""

    def put_documents(self, collection: str, documents: Mapping[str, Json]) -> None:
        """Write keyed documents; the last write of a key wins. Raises UnstorableError as `append` does."""

    def claim_document(self, collection: str, key: str, document: Json) -> bool:
        """Write a document if its key is free; of several concurrent callers exactly one gets True."""

    def get_document(self, collection: str, key: str) -> Json:
        """Return one document, or None."""

    def get_documents(self, collection: str, keys: Sequence[str]) -> Iterator[Json]:
        """Yield the documents of some keys in order of key; a key that does not exist is left out."""

    def find_documents(self, collection: str, prefix: str = "") -> Iterator[tuple[str, Json]]:
        """Stream the documents whose key starts with `prefix`, in order of key."""

    def drop_documents(self, collection: str, keys: Iterable[str]) -> None:
        """Delete documents, for example a failure that was fixed."""

    def collections(self) -> list[str]:
        """Return the names of all collections that have documents, sorted."""

    def delete_episodes(self, episode_ids: Sequence[str]) -> int:
        """Delete every annotation of some episodes for good: nothing but a purge does this.

        Numbers of deleted annotations are not used again, and `last_sequence` never goes back.

        Returns:
            Number of annotations deleted.
        """

    def delete_annotations(self, annotation_ids: Sequence[str]) -> None:
        """Delete some annotations of episodes that stay, as `delete_episodes` does."""

    def erase_deleted(self) -> None:
        """Overwrite on disk what was deleted, as far as the store is a file of ours."""

    def close(self) -> None:
        """Close the file or the connection."""


def new_spending_key(model: str) -> str:
    """Key of the document with the cost of one process's calls of a model."""
    return f"{SPENT_PREFIX}{model}/{uuid.uuid4().hex}"


def spending_document(cost: Cost) -> Json:
    """The document of a cost."""
    return asdict(cost)


def read_spending(store: AnnotationStore) -> Mapping[str, Cost]:
    """What the calls of each model have cost in a workspace so far, failed calls included, by name of the model."""
    costs: dict[str, Cost] = {}
    for key, document in store.find_documents(MODEL_REPLIES, SPENT_PREFIX):
        if isinstance(document, dict):
            model = key.removeprefix(SPENT_PREFIX).rpartition("/")[0]
            costs[model] = costs.get(model, Cost()) + Cost(**document)
    return costs


def find_outdated_subjects(store: AnnotationStore, maker_id: str, subjects: Iterable[str]) -> set[str]:
    """Those of some subjects that a producer is to annotate again; pass some thousands. Raises StoreError."""
    if next(store.find_documents(OUTDATED, f"{maker_id}/"), None) is None:
        return set()
    keys = sorted(f"{maker_id}/{subject}" for subject in subjects)
    return {str(subject) for subject in store.get_documents(OUTDATED, keys)}
