"""Annotations and makers as JSON text, and the limits that every annotation store enforces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from ares.annotation import Annotation, Column, Cost, Maker, SubjectKind
from ares.episode import Json
from ares.errors import StoreError

# A MongoDB document holds 16 MiB; SQLite has the same limit here, so that a log can move between them.
MAX_BYTES = 15 * 2**20
# Created once: creating an encoder takes as long as encoding a small value.
_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
# Reads what it wrote, which has no spaces around it: `json.loads` looks for them at both ends.
_DECODER = json.JSONDecoder()
# Python parses at most about a thousand levels, fewer where its own stack is already deep.
MAX_DEPTH = 200
# Fields of the JSON of every annotation, and those that only few have.
_COMMON_FIELDS, _UNCOMMON = 6, ("part", "ordinal", "revision")
# Documents per page: failures are small and many, blocks of a set are large.
_PAGE_DOCUMENTS, _PAGE_BYTES = 1_000, 2**20


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
    # Counting brackets is quick; only the few texts with many brackets are measured level by level.
    if text.count("[") + text.count("{") > MAX_DEPTH and _nesting_depth(value) > MAX_DEPTH:
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


def documents_to_texts(
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


def annotation_to_text(annotation: Annotation) -> str:
    """Return the fields that have no column of their own as JSON. Raises StoreError as `encode_json` does."""
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


def maker_to_text(maker: Maker) -> str:
    """Return a maker as JSON text."""
    return encode_json({**asdict(maker), "settings": dict(maker.settings)})


def maker_from_text(text: str) -> Maker:
    """Return the maker that `maker_to_text` encoded."""
    body = json.loads(text)
    columns = tuple(
        Column(**{**column, "choices": tuple(column.get("choices", ()))}) for column in body.pop("columns")
    )
    body["after"] = tuple(body.get("after", ()))
    # Before layout 2 no maker was a person, and only models had a name.
    body.setdefault("kind", "model" if body["model"] else "code")
    return Maker(**body, columns=columns)


def next_page_size(documents: int, size: int) -> int:
    """Return how many documents to read next, after a page of `documents` with `size` bytes in all."""
    return min(2 * documents, _PAGE_DOCUMENTS) if size < _PAGE_BYTES else max(1, documents // 2)


def _nesting_depth(value: Json) -> int:
    depth, level = 0, [value]
    while level and depth <= MAX_DEPTH:
        depth += 1
        containers = [item.values() if isinstance(item, Mapping) else item for item in level]
        level = [
            child
            for container in containers
            if not isinstance(container, str)
            for child in _child_values(container)
        ]
    return depth


def _child_values(value: object) -> Sequence[Json]:
    return [*value] if isinstance(value, (list, tuple, type({}.values()))) else []
