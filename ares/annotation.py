"""Annotation and Producer: one value about an episode, a segment, another annotation or a set, and what made it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from ares.episode import Json
from ares.process_tuning import fast_slots_pickling

ColumnType = Literal["bool", "int64", "float64", "string", "list<string>", "timestamp"]
SubjectKind = Literal["episode", "segment", "annotation", "set"]
ProducerKind = Literal["model", "code", "person", "consensus"]
# How the values of an episode's segments become one value of the episode; "" shows them on the segments alone.
Rollup = Literal["", "all", "any", "sum", "mean", "min", "max", "list", "union", "segment"]

_BY_SUBJECT = cast("SubjectKind", "")
# Start of the names of the annotators whose segments are what sources say: "source_subtask".
SOURCE_PREFIX = "source_"
# Start of the names of the columns that the annotator `attributes` fills: "attr_lighting".
ATTRIBUTE_PREFIX = "attr_"
# The value of the revision of a segment that is no longer said: it is shown nowhere.
WITHDRAWN: Mapping[str, Json] = {"withdrawn": True}
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
        rollup: For an annotator of segments: how the values of the segments become the value of the episode. "all" and
            "any" are for bools, "list" is for texts and makes a column of type list<string>; "union" is for lists, and
            has each text once; with "segment" the segments alone have the column, and the episode has none.
        needs_current_maker: The column `NAME_maker` names the producer of the value, NAME being its annotator.
        is_outcome: The value says whether the episode succeeded; contradictions fill the column `conflict`.
        is_gap_reason: The value lists why other columns of its annotator are empty. `ares annotate` and `ares status`
            count the episodes of every reason.
    """

    name: str
    type: ColumnType
    meaning: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    rollup: Rollup = ""
    needs_current_maker: bool = False
    is_outcome: bool = False
    is_gap_reason: bool = False

    @property
    def episode_type(self) -> ColumnType:
        """The type of the column in the episodes table, where values of segments may be rolled up."""
        if self.rollup == "list":
            return "list<string>"
        # The mean of whole numbers is seldom whole.
        return "float64" if self.rollup == "mean" else self.type


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """The provenance of a value: the same producer never needs to annotate the same subject again.

    Attributes:
        annotator: Plug-in name ("caption").
        version: Version of the plug-in's code.
        model: Portable model name with the fingerprint of its weights, or "" without a model.
        prompt_hash: Hash of prompts and rubric, or "".
        settings: Everything else that changes the value (layout, sampling, thresholds).
        columns: The filter columns it adds; this and all that follows is not part of its identity.
        kind: What it is; the word of a person, then of a consensus, stands above that of a model or code.
        subject_kind: What it describes.
        after: Names of the annotators whose annotations, or whose segments, it describes.
        fills_segments: Each of its annotations is a segment: a span with the text `value["text"]`, if it has one.
    """

    annotator: str
    version: str
    model: str = ""
    prompt_hash: str = ""
    settings: Mapping[str, Json] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    kind: ProducerKind = "code"
    subject_kind: SubjectKind = "episode"
    after: tuple[str, ...] = ()
    fills_segments: bool = False

    @property
    def maker_id(self) -> str:
        """16 hex digits over annotator, version, model, prompts and settings."""
        parts: list[Json] = [self.annotator, self.version, self.model, self.prompt_hash, dict(self.settings)]
        return short_hash(parts)


# How an episode ended: as its source says, and above it as people say.
OUTCOME_COLUMNS = (
    Column(name="outcome", type="string", meaning="How it ended: success, failure, partial or aborted."),
    Column(name="outcome_share", type="float64", meaning="Share of the task that was done, from 0 to 1."),
    Column(name="outcome_source", type="string", meaning="Who says so: a field of the source, or a person."),
)


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What making a value cost.

    Attributes:
        calls: Requests that a model got, failed ones included.
        tokens_in: Tokens that it read.
        tokens_out: Tokens that it wrote.
        usd: US dollars; None when the price or a usage is not known, 0.0 on own hardware.
        unknown_calls: Calls whose usage is not known; counted in reports, and not stored with an annotation.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0
    unknown_calls: int = field(default=0, compare=False)

    def __add__(self, other: Cost) -> Cost:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Cost(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
            usd=usd,
            unknown_calls=self.unknown_calls + other.unknown_calls,
        )

    def scaled(self, factor: float) -> Cost:
        """What `factor` times as much would cost, in whole calls and tokens."""
        return Cost(
            calls=round(self.calls * factor),
            tokens_in=round(self.tokens_in * factor),
            tokens_out=round(self.tokens_out * factor),
            usd=None if self.usd is None else self.usd * factor,
        )


def make_segment_id(episode_id: str, start_seconds: float, stop_seconds: float) -> str:
    """Return the id of a segment, 16 hex digits: a segment is an episode and a span, whoever names it."""
    text = f"segment {episode_id} {float(start_seconds)!r} {float(stop_seconds)!r}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One value about an episode, a segment of it, another annotation, or a set; never changed and never deleted.

    Attributes:
        episode_id: The episode it belongs to; "" for one about a set.
        name: Kind of annotation ("caption", "grade", "motion", "embed").
        value: The value itself, a JSON object; keys that are columns of the producer become filter columns.
        maker_id: Its provenance, see `Producer.maker_id`.
        subject: What it describes: an episode_id, the id of a segment, an annotation_id, or the label of a set.
        start_seconds: Start of the span [start_seconds, stop_seconds); the span covers the episode by default.
        stop_seconds: End of the span.
        camera: Camera it was made from, or "".
        frames: Seconds of the frames that the producer was given.
        cost: What it cost.
        created: ISO 8601 time in UTC.
        subject_kind: What the subject is; by default the episode, or an annotation when it is another subject.
        part: Part of the subject, such as the criterion that one ruling of a person is about; "" for all of it.
        ordinal: Number of the candidate or vote, from 0, where one producer gives several; only 0 fills columns.
        revision: 0, or a number that grows when the producer changes its value, such as nanoseconds since 1970; the
            newest annotation of an address counts.
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
    subject_kind: SubjectKind = _BY_SUBJECT
    part: str = ""
    ordinal: int = 0
    revision: int = 0
    # Computed once: whoever applies the log asks for it several times.
    _address: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.subject_kind:
            usual_kind = "episode" if self.subject == self.episode_id else "annotation"
            object.__setattr__(self, "subject_kind", usual_kind)

    @property
    def address(self) -> str:
        """16 hex digits over subject, name, span, camera, producer, part and ordinal: what a revision replaces."""
        if not self._address:
            span: list[Json] = [self.start_seconds, self.stop_seconds]
            parts: list[Json] = [self.subject, self.name, span, self.camera, self.maker_id]
            if self.part or self.ordinal:
                parts += [self.part, self.ordinal]
            object.__setattr__(self, "_address", short_hash(parts))
        return self._address

    @property
    def is_withdrawn(self) -> bool:
        """Whether it takes back what an earlier revision said."""
        return self.value == WITHDRAWN

    @property
    def annotation_id(self) -> str:
        """16 hex digits over address and revision; a second annotation of the same has the same id."""
        return short_hash([self.address, self.revision]) if self.revision else self.address
