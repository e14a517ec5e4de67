"""Annotation and Maker: one value about one episode or segment, and the plug-in, model and prompt that made it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ares.episode import Json

ColumnType = Literal["bool", "int64", "float64", "string", "list<string>", "timestamp"]

# Created once: creating an encoder takes as long as encoding a small value.
_CANONICAL_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: Json) -> str:
    """Return JSON with sorted keys and no spaces: the same text for the same value, for hashing and storing."""
    return _CANONICAL_ENCODER.encode(value)


def short_hash(value: Json) -> str:
    """Return 16 hex digits of a JSON value's canonical text."""
    return hashlib.blake2b(canonical_json(value).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A typed filter column that an annotator adds to every episode.

    Attributes:
        name: Column in the episodes table, and key in `Annotation.value`.
        type: Arrow type name; a value of a timestamp is ISO 8601 text, in UTC when it has no offset.
        unit: Physical unit ("m", "s"), or "".
        meaning: One line for people.
        choices: The allowed values of a text, or of an item of a list; empty allows any.
    """

    name: str
    type: ColumnType
    meaning: str
    unit: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """The provenance of a value: the same maker never needs to annotate the same subject again.

    Attributes:
        annotator: Plug-in name ("caption").
        version: Version of the plug-in's code.
        model: Portable model name with the fingerprint of its weights, or "" without a model.
        prompt_hash: Hash of prompts and rubric, or "".
        settings: Everything else that changes the value (layout, sampling, thresholds).
        columns: The filter columns it adds; not part of its identity.
    """

    annotator: str
    version: str
    model: str = ""
    prompt_hash: str = ""
    settings: Mapping[str, Json] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()

    @property
    def maker_id(self) -> str:
        """16 hex digits over annotator, version, model, prompts and settings."""
        parts: list[Json] = [self.annotator, self.version, self.model, self.prompt_hash, dict(self.settings)]
        return short_hash(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What making a value cost. `usd` is None when the price is not known, 0.0 on own hardware."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0

    def __add__(self, other: Cost) -> Cost:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Cost(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
            usd=usd,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One value about an episode, a segment of it, or another annotation; never changed and never deleted.

    Attributes:
        episode_id: The episode it belongs to.
        name: Kind of annotation ("caption", "grade", "motion", "embed").
        value: The value itself, a JSON object; keys that are columns of the maker become filter columns.
        maker_id: Its provenance, see `Maker.maker_id`.
        subject: What it describes: the episode_id, or the annotation_id of the caption that a grade judges.
        start_seconds: Start of the span [start_seconds, stop_seconds); the span covers the episode by default.
        stop_seconds: End of the span.
        camera: Camera it was made from, or "".
        frames: Seconds of the frames that the maker was given.
        cost: What it cost.
        created: ISO 8601 time in UTC.
    """

    episode_id: str
    name: str
    value: Mapping[str, Json]
    maker_id: str
    subject: str
    start_seconds: float
    stop_seconds: float
    created: str
    camera: str = ""
    frames: tuple[float, ...] = ()
    cost: Cost = field(default_factory=Cost)

    @property
    def annotation_id(self) -> str:
        """16 hex digits over subject, name, span, camera and maker; a second annotation of the same has the same id."""
        span: list[Json] = [self.start_seconds, self.stop_seconds]
        return short_hash([self.subject, self.name, span, self.camera, self.maker_id])
