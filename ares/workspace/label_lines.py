"""The form of a file of labels, which anybody may have written: each line is checked before any of them is stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ares.annotation import Annotation, Column, ColumnType, Cost, Maker, MakerKind, Rollup, SubjectKind
from ares.console import visible
from ares.errors import AresError, RequestError, shorten
from ares.input import STRICT_JSON, parse_json
from ares.store import is_column_name

# Kinds of documents that cards of earlier versions carry, and that ingestion, models and people here make again.
_LEFT_OUT = frozenset((
    "contracts", "instruction_audits", "instruction_verdicts", "judge_rates", "judge_trust", "motion_scales",
    "review_disputes", "review_items", "review_queues", "success_criteria", "valuation_samples",
))  # fmt: skip
CERTIFICATES, PINS = "certificates", "pins"
_LARGEST_NUMBER = 2**63 - 1


def _check_visible(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a name has characters that cannot be seen")
    return text


def _check_column(name: str) -> str:
    if not is_column_name(name):
        raise ValueError("a column has a name that no filter can use")
    return name


def _check_time(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Id = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Word = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_visible)]
_Text = Annotated[str, Field(max_length=4_000)]
_ColumnName = Annotated[str, Field(max_length=100), AfterValidator(_check_column)]
_Number = Annotated[int, Field(ge=0, le=_LARGEST_NUMBER)]
_Value = bool | int | float | str | None


class Form(BaseModel):
    """A part of a file: no other fields, no value of another type, and no number that is none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _ColumnForm(Form):
    name: _ColumnName
    type: ColumnType
    meaning: _Text
    unit: _Text = ""
    choices: Annotated[list[_Text], Field(max_length=1_000)] = Field(default_factory=list)
    rollup: Rollup = ""
    needs_current_maker: bool = False
    is_outcome: bool = False
    is_gap_reason: bool = False


class _MakerForm(Form):
    annotator: Word
    version: _Text
    model: _Text = ""
    prompt_hash: _Text = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    columns: Annotated[list[_ColumnForm], Field(max_length=500)] = Field(default_factory=list)
    kind: MakerKind
    subject_kind: SubjectKind = "episode"
    after: Annotated[list[Word], Field(max_length=50)] = Field(default_factory=list)
    fills_segments: bool = False

    def make(self) -> Maker:
        """The maker."""
        columns = tuple(Column(**{**dict(own), "choices": tuple(own.choices)}) for own in self.columns)
        return Maker(**{**dict(self), "columns": columns, "after": tuple(self.after)})


class EpisodeForm(Form):
    """An episode of the card: its content, and what people made of it.

    Attributes:
        episode_id: Its id there.
        content_hash: Hash of its content, or "".
        dataset: Its dataset.
        key: Its key in the source.
        tags: Its tags.
        notes: Its notes.
        values: Its values of people's own columns.
    """

    episode_id: Id
    content_hash: _Text
    dataset: _Text
    key: _Text
    tags: Annotated[list[Word], Field(max_length=100)] | None = None
    notes: Annotated[list[_Text], Field(max_length=100)] | None = None
    values: dict[_ColumnName, _Value] = Field(default_factory=dict)


class _BodyForm(Form):
    value: dict[str, Any]
    span: Annotated[list[float], Field(min_length=2, max_length=2)]
    created: Annotated[str, Field(max_length=40), AfterValidator(_check_time)]
    camera: _Text = ""
    frames: list[float] = Field(default_factory=list)
    cost: Annotated[list[Any], Field(min_length=4, max_length=4)]
    kind: SubjectKind | None = None
    part: _Text = ""
    ordinal: _Number = 0
    revision: _Number = 0

    @model_validator(mode="after")
    def _check_numbers(self) -> _BodyForm:
        if self.span[0] > self.span[1]:
            raise ValueError("a span ends before it starts")
        *counts, usd = self.cost
        if not all(type(count) is int and 0 <= count <= _LARGEST_NUMBER for count in counts):
            raise ValueError("calls and tokens are whole numbers")
        if usd is not None and type(usd) not in (int, float):
            raise ValueError("a price is a number")
        return self


class LabelLine(Form):
    """One line, of which one field is set.

    Attributes:
        columns: Types by name of the columns of episodes.
        maker: What made some of the annotations.
        document: Kind, key and content of a document.
        episode: An episode.
        removed: Ids of episodes that were removed.
        annotation: A row as `AnnotationRow` has it.
    """

    columns: dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=100)]] | None = None
    maker: _MakerForm | None = None
    document: Annotated[list[Any], Field(min_length=3, max_length=3)] | None = None
    episode: EpisodeForm | None = None
    removed: list[Id] | None = None
    annotation: Annotated[list[str], Field(min_length=6, max_length=6)] | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> LabelLine:
        if len(self.model_fields_set) != 1:
            raise ValueError("a line says one thing")
        if self.document is not None and self.document[0] not in (CERTIFICATES, PINS, *_LEFT_OUT):
            raise ValueError(
                f"a card carries no documents of the kind {str(self.document[0])[:100]!r}; "
                "where an earlier version of ARES wrote it, write it again with `ares set lock`"
            )
        return self


def parse_line(line: bytes, where: str) -> LabelLine:
    """A line in its form. Raises RequestError for any other."""
    try:
        return LabelLine.model_validate(parse_json(line, where, **STRICT_JSON))
    except (ValueError, AresError) as error:
        refuse_labels(where, error)


def parse_annotation(row: Sequence[str], where: str) -> Annotation:
    """The annotation of a row. Raises RequestError for a row that `annotation_to_row` does not make."""
    annotation_id, episode_id, name, maker_id, subject, text = row
    try:
        body = _BodyForm.model_validate(parse_json(text, where, **STRICT_JSON))
        calls, tokens_in, tokens_out, usd = body.cost
        annotation = Annotation(
            episode_id=episode_id,
            name=name,
            value=body.value,
            maker_id=maker_id,
            subject=subject,
            start_seconds=body.span[0],
            stop_seconds=body.span[1],
            created=body.created,
            camera=body.camera,
            frames=tuple(body.frames),
            cost=Cost(calls=int(calls), tokens_in=int(tokens_in), tokens_out=int(tokens_out), usd=usd),
            part=body.part,
            ordinal=body.ordinal,
            revision=body.revision,
            **({"subject_kind": body.kind} if body.kind else {}),
        )
        if annotation.annotation_id != annotation_id:
            raise ValueError(f"annotation {annotation_id[:16]} has another id than its content")
    except (ValueError, AresError) as error:
        refuse_labels(where, error)
    return annotation


def refuse_labels(where: str, error: Exception | str) -> NoReturn:
    """Raise the RequestError for a file that is not as `ares set lock` writes it, with the first thing wrong."""
    text = str(error)
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False)[0]
        text = f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}".removeprefix(": ")
    raise RequestError(
        "these are no labels of a card",
        f"{where}: {shorten(visible(text))}; `ares set lock` writes NAME.labels.jsonl",
    ) from None
