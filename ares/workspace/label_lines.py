"""The lines of a file of labels: how they are written, and how those that anybody may have written are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ares.annotation import Annotation, Producer
from ares.console import visible
from ares.errors import AresError, RequestError, first_fault, shorten
from ares.input import STRICT_JSON, parse_json
from ares.review import Queue, find_drawing
from ares.store import (
    AnnotationRow,
    annotation_from_row,
    annotation_to_row,
    conjunction,
    ids_filter,
    in_condition,
    is_column_name,
    producer_to_text,
    read_history,
    removed_id_array,
)

if TYPE_CHECKING:
    from ares.contract import DatasetKey
    from ares.episode import Json
    from ares.store import Stores

# Annotations that are read at once.
_PAGE = 10_000

# Kinds of documents that cards of earlier versions carry, and that ingestion, models and people here make again.
_LEFT_OUT = frozenset((
    "contracts", "instruction_audits", "instruction_verdicts", "judge_rates", "judge_trust", "motion_scales",
    "certificates", "review_disputes", "success_criteria", "valuation_samples",
))  # fmt: skip
PINS = "pins"
# What was drawn for measurements: without it nobody knows of which sample answers are.
_QUEUES, _ITEMS, _MEASUREMENT = "review_queues", "review_items", "measure-"
_LARGEST_NUMBER, _LONGEST_NAME = 2**63 - 1, 200
_PRODUCER, _ANNOTATION, _QUEUE = TypeAdapter(Producer), TypeAdapter(Annotation), TypeAdapter(Queue)
# Faults of reading values that nothing has checked.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AresError)


def _check_visible(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a name has characters that cannot be seen")
    return text


def _check_column(name: str) -> str:
    if not is_column_name(name):
        raise ValueError("a column has a name that no filter can use")
    return name


def _check_file_name(name: str) -> str:
    if "/" in name or "\0" in name or name in (".", ".."):
        raise ValueError("a name of a file or folder is a path")
    return name


FileName = Annotated[str, Field(max_length=255), AfterValidator(_check_file_name)]
Id = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Word = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME), AfterValidator(_check_visible)]
_Text = Annotated[str, Field(max_length=4_000)]
_ColumnName = Annotated[str, Field(max_length=100), AfterValidator(_check_column)]
_Number = Annotated[int, Field(ge=0, le=_LARGEST_NUMBER)]
_Value = bool | int | float | str | None


class Form(BaseModel):
    """A part of a file: no other fields, no value of another type, and no number that is none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class EpisodeForm(Form):
    """An episode of the card: its content, and what people made of it.

    Attributes:
        episode_id: Its id there.
        content_hash: Hash of its content, or "".
        dataset: Its dataset.
        key: Its key in the source.
        tags: Its tags.
        notes: Its notes.
        values: Its values of columns that people set.
    """

    episode_id: Id
    content_hash: _Text
    dataset: _Text
    key: _Text
    tags: Annotated[list[Word], Field(max_length=100)] | None = None
    notes: Annotated[list[_Text], Field(max_length=100)] | None = None
    values: dict[_ColumnName, _Value] = Field(default_factory=dict)


class LabelLine(Form):
    """One line, of which one field is set.

    Attributes:
        columns: Types by name of the columns of episodes.
        maker: A producer of annotations, see `parse_producer`.
        document: Kind, key and content of a document.
        episode: An episode.
        removed: Ids of episodes that were removed.
        annotation: A row as `AnnotationRow` has it.
    """

    columns: dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=100)]] | None = None
    maker: dict[str, Any] | None = None
    document: Annotated[list[Any], Field(min_length=3, max_length=3)] | None = None
    episode: EpisodeForm | None = None
    removed: list[Id] | None = None
    annotation: Annotated[list[str], Field(min_length=6, max_length=6)] | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> LabelLine:
        if len(self.model_fields_set) != 1:
            raise ValueError("a line says one thing")
        kinds = (PINS, _QUEUES, _ITEMS, *_LEFT_OUT)
        if self.document is not None and self.document[0] not in kinds:
            raise ValueError(
                f"a card carries no documents of the kind {str(self.document[0])[:100]!r}; "
                "where an earlier version of ARES wrote it, write it again with `ares set lock`"
            )
        return self


class _DrawnItem(Form):
    subject: Word
    episode_id: Word
    drawn: _Text = ""  # of earlier versions
    people: _Number
    word: _Text


_DRAWN_ITEMS = TypeAdapter(list[_DrawnItem])


def is_drawing(collection: str, key: str, document: Any) -> bool:
    """Whether a document is of the drawing of a measurement. Raises ValueError for one that is in no order."""
    if not key.startswith(_MEASUREMENT) or collection not in (_QUEUES, _ITEMS):
        return False
    if collection == _ITEMS:
        _DRAWN_ITEMS.validate_python(document)
    elif find_drawing(_QUEUE.validate_json(json.dumps(document), strict=True)) is None:
        raise ValueError("it is no queue of a measurement")
    return True


class LabelsFile(Form):
    """The file beside a card with what only models and people can say: its name, hash and number of annotations."""

    file: Annotated[FileName, Field(min_length=1)]
    sha256: str
    annotations: int


def write_labels(stores: Stores, datasets: Sequence[DatasetKey], path: Path) -> LabelsFile:
    """Write every label of some datasets, a JSON line each; and return what the card says of it."""
    digest, count = hashlib.sha256(), 0
    partial = path.with_name(path.name + ".tmp")
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        for line in _label_lines(stores, datasets):
            # Keys keep their order, in which manifests of exports show them.
            text = json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"
            file.write(text)
            digest.update(text.encode())
            count += "annotation" in line
    partial.replace(path)
    return LabelsFile(file=path.name, sha256=digest.hexdigest(), annotations=count)


def _label_lines(stores: Stores, datasets: Sequence[DatasetKey]) -> Iterator[dict[str, Json]]:
    """Columns, producers, documents, episodes and annotations: of whole datasets, over which judges are counted."""
    log, episodes = stores.annotations, stores.tables.episodes
    names = in_condition("dataset", sorted({key.dataset for key in datasets}))
    # An export has every column, also one that only episodes of other datasets fill.
    yield {"columns": dict(episodes.columns())}
    for producer in log.producers().values():
        yield {"maker": json.loads(producer_to_text(producer))}
    for collection, prefix in ((PINS, ""), (_ITEMS, _MEASUREMENT), (_QUEUES, _MEASUREMENT)):
        for key, document in log.find_documents(collection, prefix):
            yield {"document": [collection, key, document]}
    history = read_history(log)
    for chunk in removed_id_array(log, history).chunks:
        yield {"removed": chunk.to_pylist()}
    people = ["tags", "notes", *history.user_columns()]
    columns = ["episode_id", "content_hash", "dataset", "key"]
    columns += [name for name in people if name in episodes.columns()]
    for batch in episodes.scan(columns, names):
        for row in batch.to_pylist():
            yield {"episode": _episode_row(row)}
    after = 0
    while entries := log.read(after, _PAGE):
        after = entries[-1].sequence
        ids = sorted({entry.annotation.episode_id for entry in entries})
        known = episodes.ids(conjunction([ids_filter(ids), names]))
        for entry in entries:
            if entry.annotation.episode_id in known:
                yield {"annotation": list(annotation_to_row(entry.annotation))}


def _episode_row(row: Mapping[str, Any]) -> dict[str, Json]:
    """A row of the table as a line has it: values of columns that people set stand together."""
    values = {
        name: value
        for name, value in row.items()
        if name not in EpisodeForm.model_fields and value is not None
    }
    return {
        **{name: row[name] for name in row if name in EpisodeForm.model_fields},
        **({"values": values} if values else {}),
    }


def parse_line(line: bytes, where: str) -> LabelLine:
    """A line in its form. Raises RequestError for any other."""
    try:
        return LabelLine.model_validate(parse_json(line, where, **STRICT_JSON))
    except (ValueError, AresError) as error:
        refuse_labels(where, error)


def parse_producer(document: Mapping[str, Any], where: str) -> Producer:
    """A producer of its fields. Raises RequestError for a field of another type, and for names that nothing shows."""
    try:
        producer = _PRODUCER.validate_json(json.dumps(document), strict=True)
        for name in (producer.annotator, *producer.after):
            if not name or len(name) > _LONGEST_NAME:
                raise ValueError(
                    f"a name has 1 to {_LONGEST_NAME} characters, and {name[:50]!r} has {len(name)}"
                )
            _check_visible(name)
        for column in producer.columns:
            _check_column(column.name)
    except (ValueError, AresError) as error:
        refuse_labels(where, error)
    return producer


def parse_annotation(row: Sequence[str], where: str) -> Annotation:
    """The annotation of a row. Raises RequestError for a row that `annotation_to_row` does not make."""
    try:
        parse_json(row[5], where, **STRICT_JSON)
        annotation = _ANNOTATION.validate_python(asdict(annotation_from_row(AnnotationRow(*row))))
        cost = annotation.cost
        counts = (cost.calls, cost.tokens_in, cost.tokens_out, annotation.ordinal, annotation.revision)
        if min(counts) < 0 or max(counts) > _LARGEST_NUMBER:
            raise ValueError(f"numbers of an annotation are from 0 on, got {counts}")
        if annotation.start_seconds > annotation.stop_seconds:
            raise ValueError("a span ends before it starts")
        datetime.fromisoformat(annotation.created)
        if annotation.annotation_id != row[0]:
            raise ValueError(f"annotation {row[0][:16]} has another id than its content")
    except UNREADABLE as error:
        refuse_labels(where, error)
    return annotation


def refuse_labels(where: str, error: Exception | str) -> NoReturn:
    """Raise the RequestError for a file that is not as `ares set lock` writes it, with the first thing wrong."""
    text = str(error)
    if isinstance(error, ValidationError):
        text = first_fault(error)
    raise RequestError(
        "these are no labels of a card",
        f"{where}: {shorten(visible(text))}; `ares set lock` writes NAME.labels.jsonl",
    ) from None
