"""Codec: facts and makers to JSON text and back, and what no annotation store takes, the same for all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from ares.annotation import Annotation, Column, Cost, Maker
from ares.episode import Json
from ares.errors import StoreError

# A MongoDB document holds 16 MiB; SQLite keeps to the same, so that a log can move between them.
MAX_BYTES = 15 * 2**20
# Made once: to make an encoder takes as long as to use it on a small value.
_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
# Python reads back at most about a thousand levels, fewer where its own stack is deep already.
MAX_DEPTH = 200
# Documents that a store reads at once: failures are small and many, blocks of a set are large.
_PAGE, _PAGE_BYTES = 1_000, 2**20


class Row(NamedTuple):
    """A fact as a store keeps it.

    Attributes:
        annotation_id: Its key.
        episode_id: Column.
        name: Column.
        maker_id: Column.
        subject: Column.
        body: Everything else, as JSON.
    """

    annotation_id: str
    episode_id: str
    name: str
    maker_id: str
    subject: str
    body: str


class Refused(StoreError):
    """Facts or documents that no store can hold; all others of the same call are stored.

    Attributes:
        cases: Why not, by position of the fact in the call, or by key of the document.
    """

    def __init__(self, cases: Mapping[int | str, StoreError]) -> None:
        first = next(iter(cases.values()))
        more = f"; so are {len(cases) - 1} more" if len(cases) > 1 else ""
        super().__init__(first.reason, first.detail + more)
        self.cases = dict(cases)


def to_text(value: Json) -> str:
    """JSON in ASCII, so that any string of a model (half an emoji too) can be stored.

    Raises StoreError for what is no JSON (NaN, infinity, other types), or too deep or too large to be kept.
    """
    try:
        text = _JSON.encode(value)
    except RecursionError:
        raise StoreError("a value is nested too deep to be stored", f"more than {MAX_DEPTH} levels") from None
    except (TypeError, ValueError) as error:
        raise StoreError("a value that is no JSON cannot be stored", str(error)) from None
    if len(text) > MAX_BYTES:
        raise StoreError("a value is too large to be stored", f"{len(text)} bytes, at most {MAX_BYTES}")
    # Counting is quick; only few texts have brackets enough to be walked through.
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise StoreError("a value is nested too deep to be stored", f"more than {MAX_DEPTH} levels")
    return text


def from_text(text: str) -> Json:
    """What `to_text` was given."""
    value: Json = json.loads(text)
    return value


def to_rows(facts: Sequence[Annotation | Row]) -> tuple[list[Row], dict[int | str, StoreError]]:
    """Facts as rows, those that are rows already as they are, and why some are none, by their position."""
    rows: list[Row] = []
    refused: dict[int | str, StoreError] = {}
    for at, fact in enumerate(facts):
        if isinstance(fact, Row):
            rows.append(fact)
            continue
        try:
            rows.append(to_row(fact))
        except StoreError as error:
            detail = f"{fact.name} of episode {fact.episode_id}: {error.detail}"
            refused[at] = StoreError(error.reason, detail.encode("utf-8", "replace").decode())
    return rows, refused


def to_texts(documents: Mapping[str, Json]) -> tuple[dict[str, str], dict[int | str, StoreError]]:
    """Documents as JSON by key, and why some are none."""
    texts: dict[str, str] = {}
    refused: dict[int | str, StoreError] = {}
    for key, document in documents.items():
        try:
            texts[key] = to_text(document)
        except StoreError as error:
            refused[key] = StoreError(error.reason, f"document {key!r}: {error.detail}")
    return texts, refused


def to_row(fact: Annotation) -> Row:
    """A fact as a row. Raises StoreError when no store can hold it."""
    try:
        columns = (fact.annotation_id, fact.episode_id, fact.name, fact.maker_id, fact.subject)
        "".join(columns).encode()
    except ValueError as error:
        # Half an emoji in a key, or a span that is no number.
        raise StoreError("a fact has an identity that cannot be stored", str(error)) from None
    return Row(*columns, fact_to_text(fact))


def fact_to_text(fact: Annotation) -> str:
    """What of a fact has no column of its own in a store. Raises StoreError as `to_text` does."""
    cost = fact.cost
    return to_text(
        {
            "value": fact.value,
            "span": [fact.start_seconds, fact.stop_seconds],
            "created": fact.created,
            "camera": fact.camera,
            "frames": list(fact.frames),
            "cost": [cost.calls, cost.tokens_in, cost.tokens_out, cost.usd],
        }
    )


def fact_from_text(text: str, *, episode_id: str, name: str, maker_id: str, subject: str) -> Annotation:
    """The fact of `fact_to_text` and its columns."""
    body = json.loads(text)
    calls, tokens_in, tokens_out, usd = body["cost"]
    start, stop = body["span"]
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
    )


def maker_to_text(maker: Maker) -> str:
    """A maker as JSON text."""
    return to_text({**asdict(maker), "settings": dict(maker.settings)})


def maker_from_text(text: str) -> Maker:
    """The maker of `maker_to_text`."""
    body = json.loads(text)
    columns = tuple(
        Column(**{**column, "choices": tuple(column.get("choices", ()))}) for column in body.pop("columns")
    )
    return Maker(**body, columns=columns)


def next_page(documents: int, size: int) -> int:
    """How many documents to read at once after so many that were so large together."""
    return min(2 * documents, _PAGE) if size < _PAGE_BYTES else max(1, documents // 2)


def _depth(value: Json) -> int:
    depth, level = 0, [value]
    while level and depth <= MAX_DEPTH:
        depth += 1
        inner = [one.values() if isinstance(one, Mapping) else one for one in level]
        level = [each for one in inner if not isinstance(one, str) for each in _items(one)]
    return depth


def _items(value: object) -> Sequence[Json]:
    return [*value] if isinstance(value, (list, tuple, type({}.values()))) else []
