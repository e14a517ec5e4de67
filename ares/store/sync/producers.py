"""Which producer fills which columns, of which types, by default or by the choice of a person."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, Column, Producer
from ares.episode import Json
from ares.errors import RequestError
from ares.registry import did_you_mean
from ares.store.lance.schema import arrow_type, to_arrow_value, type_mismatch
from ares.store.log.protocol import PINS

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.log.protocol import AnnotationStore


CONFLICT, DISAGREEMENT = "conflict", "disagreement"
REVIEWED, REVIEWER = "reviewed", "reviewer"
# The word of a person stands above that of a consensus, and this above that of a model or code.
_RANKS = {"person": 2, "consensus": 1}


class ProducerCatalog:
    """The producers of a workspace, with the rules by which their annotations fill columns.

    Annotators form a group when one describes the annotations or segments of another, or both fill one column: what
    they say of an episode is read together.

    Args:
        producers: Producer by maker_id.
        pins: Pinned maker_id by annotator.
        producer_sequences: Sequence number of the newest annotation by maker_id.
    """

    def __init__(
        self,
        producers: Mapping[str, Producer],
        pins: Mapping[str, str] | None = None,
        producer_sequences: Mapping[str, int] | None = None,
    ) -> None:
        self.producers = producers
        self.pins = dict(pins or {})
        self.producer_sequences = {} if producer_sequences is None else producer_sequences
        self._orders: dict[frozenset[str], list[str]] = {}

    @cached_property
    def groups(self) -> dict[str, frozenset[str]]:
        """The group of each annotator, itself included, by its name."""
        groups: dict[str, frozenset[str]] = {}
        for link in self._links():
            joined = frozenset(link).union(*(groups.get(name, ()) for name in link))
            groups |= dict.fromkeys(joined, joined)
        return groups

    def _links(self) -> Iterable[tuple[str, ...]]:
        first_with_column: dict[str, str] = {}
        for producer in self.producers.values():
            yield producer.annotator, *producer.after
            for column in producer.columns:
                yield producer.annotator, first_with_column.setdefault(column.name, producer.annotator)

    @cached_property
    def filled_columns(self) -> dict[str, tuple[list[Column], list[Column]]]:
        """By maker_id the columns that an annotation fills by itself: of its episode, and of segments."""
        return {
            maker_id: (
                [column for column in producer.columns if not column.rollup],
                list_segment_columns(producer),
            )
            for maker_id, producer in self.producers.items()
        }

    def in_order(self, group: Collection[str]) -> list[str]:
        """The annotators of a group, each after those whose annotations it describes."""
        key = frozenset(group)
        if key not in self._orders:
            self._orders[key] = self._put_in_order(key)
        return self._orders[key]

    def _put_in_order(self, group: Collection[str]) -> list[str]:
        after: dict[str, set[str]] = {name: set() for name in group}
        for producer in self.producers.values():
            if producer.annotator in after:
                after[producer.annotator].update(after.keys() & set(producer.after))
        ordered: list[str] = []
        while len(ordered) < len(after):
            ready = sorted(name for name in after if name not in ordered and after[name] <= set(ordered))
            # Annotators that describe each other have no order; any will do.
            ordered += ready or sorted(after.keys() - set(ordered))
        return ordered

    def producers_of(self, names: Collection[str]) -> list[Producer]:
        """The producers of some annotators."""
        return [producer for name in names for producer in self._by_annotator.get(name, ())]

    @cached_property
    def _by_annotator(self) -> dict[str, list[Producer]]:
        by_annotator: dict[str, list[Producer]] = {}
        for producer in self.producers.values():
            by_annotator.setdefault(producer.annotator, []).append(producer)
        return by_annotator

    def is_projected(self, annotation: Annotation) -> bool:
        """Whether an annotation is of the kind that its producer declares: others are kept in the log alone."""
        producer = self.producers.get(annotation.maker_id)
        return producer is not None and producer.subject_kind == annotation.subject_kind

    def is_ruling(self, annotation: Annotation) -> bool:
        """Whether an annotation is the ruling of a person on one criterion."""
        return bool(annotation.part) and self.producers[annotation.maker_id].kind == "person"

    def plain_producers(self) -> set[str]:
        """Producers whose annotations each fill columns by themselves, as nothing else says anything of these.

        They are models and code that describe episodes, alone in their group, without roll-ups and not pinned.
        """
        shared = self.several_producers() | self.pins.keys()
        return {
            maker_id
            for maker_id, producer in self.producers.items()
            if producer.annotator not in shared and len(self.groups[producer.annotator]) == 1
            if producer.kind not in _RANKS and producer.subject_kind == "episode"
            if not any(column.rollup for column in producer.columns)
        }

    def fills_tables(self, group: Collection[str]) -> bool:
        """Whether a column or a segment may follow from annotations of a group."""
        return any(
            producer.columns or producer.fills_segments or producer.kind == "person"
            for producer in self.producers_of(group)
        )

    @cached_property
    def reviewed_groups(self) -> frozenset[str]:
        """Annotators of the groups in which people say something."""
        people = {producer.annotator for producer in self.producers.values() if producer.kind == "person"}
        return frozenset().union(*(self.groups[name] for name in people))

    @cached_property
    def outcomes_by_people(self) -> dict[str, str]:
        """By annotator the column in which people say whether an episode succeeded."""
        people = (producer for producer in self.producers.values() if producer.kind == "person")
        return {
            producer.annotator: column.name
            for producer in people
            for column in producer.columns
            if column.is_outcome
        }

    @cached_property
    def graded_groups(self) -> set[frozenset[str]]:
        """The groups in which a model rules on what others say: how an episode ended may change its rulings."""
        return {
            self.groups[producer.annotator]
            for producer in self.producers.values()
            if producer.kind == "model" and producer.subject_kind == "annotation"
        }

    def review_columns(self, newest: Iterable[Annotation]) -> dict[str, Any]:
        """Whether people have said something of an episode, and who, by the newest annotations of it."""
        counting = [
            item for item in newest if self.is_projected(item) and not (item.ordinal or item.is_withdrawn)
        ]
        producers = [self.producers[item.maker_id] for item in counting]
        people = {
            str(producer.settings.get("person", "")) for producer in producers if producer.kind == "person"
        }
        return {REVIEWED: bool(people), REVIEWER: sorted(people - {""}) or None}

    def several_producers(self) -> set[str]:
        """Annotators of which several producers have annotations."""
        names = [self.producers[key].annotator for key in self.producer_sequences if key in self.producers]
        return {name for name in names if names.count(name) > 1}

    def current(self, annotator: str) -> str:
        """The maker_id of the pinned producer, else of the model or code that annotated last; or ""."""
        if annotator in self.pins:
            return self.pins[annotator]
        candidates = [
            (self.producer_sequences[producer.maker_id], producer.maker_id)
            for producer in self.producers_of([annotator])
            if producer.kind not in _RANKS and producer.maker_id in self.producer_sequences
        ]
        return max(candidates, default=(0, ""))[1]

    def choose(self, annotator: str, candidates: Sequence[Annotation]) -> str:
        """The maker_id whose annotations are shown, of candidates in the order of the log; "" for none."""
        if annotator in self.pins:
            return self.pins[annotator]
        ranks = [
            (_RANKS.get(self.producers[annotation.maker_id].kind, 0), position)
            for position, annotation in enumerate(candidates)
        ]
        return candidates[max(ranks)[1]].maker_id if ranks else ""

    def episode_columns(self, names: Collection[str]) -> dict[str, str]:
        """Type by name of the columns that some annotators fill in the episodes table."""
        return {
            column.name: column.episode_type
            for producer in self.producers_of(names)
            for column in _on_episodes(producer)
        }

    def segment_columns(self, names: Collection[str]) -> dict[str, str]:
        """Type by name of the columns that some annotators fill in the segments table."""
        return {
            column.name: column.type
            for producer in self.producers_of(names)
            for column in list_segment_columns(producer)
        }

    def declared_schema(self) -> pa.Schema:
        """Every column of the episodes table that a producer declares or that follows from it."""
        import pyarrow as pa

        columns = {column.name: column.episode_type for column in declared_columns(self.producers.values())}
        return pa.schema([(name, arrow_type(type_name)) for name, type_name in columns.items()])


def list_segment_columns(producer: Producer) -> list[Column]:
    """The columns that a producer fills in the segments table, where they have the type of single values."""
    if producer.subject_kind in ("segment", "annotation"):
        single = [replace(column, rollup="") if column.rollup else column for column in producer.columns]
        return [*single, *_producer_columns(producer)]
    rollups = [column for column in producer.columns if column.rollup] if producer.fills_segments else []
    return [replace(column, rollup="") for column in rollups]


def producer_column(annotator: str) -> str:
    """Name of the column with the maker_id of a value."""
    return f"{annotator}_maker"


def fills_producer_column(producer: Producer) -> bool:
    """Whether a column beside the values of a producer names it."""
    return any(column.needs_current_maker for column in producer.columns)


_REVIEW_COLUMNS = (
    Column(name=REVIEWED, type="bool", meaning="Whether a person has ruled on it or corrected it."),
    Column(name=REVIEWER, type="list<string>", meaning="Who has ruled on it or corrected it."),
)


def declared_columns(producers: Iterable[Producer]) -> list[Column]:
    """Every column of the episodes table that producers fill: those they declare, and those that compare producers."""
    all_producers = list(producers)
    columns = [column for producer in all_producers for column in _on_episodes(producer)]
    if any(column.is_outcome for column in columns):
        columns.append(
            Column(
                name=CONFLICT, type="string", meaning="Who says success and who says failure, if they differ."
            )
        )
    has_people = any(producer.kind == "person" for producer in all_producers)
    columns += _REVIEW_COLUMNS if has_people else ()
    names = [producer.annotator for producer in all_producers]
    if has_people or len(set(names)) < len(names):
        meaning = (
            "Columns for which two producers of an annotator differ, and what two people rule otherwise."
        )
        columns.append(Column(name=DISAGREEMENT, type="list<string>", meaning=meaning))
    return columns


def _on_episodes(producer: Producer) -> list[Column]:
    columns = [
        column
        for column in producer.columns
        if column.rollup != "segment" and (column.rollup or producer.subject_kind != "segment")
    ]
    return [*columns, *_producer_columns(producer)]


def _producer_columns(producer: Producer) -> list[Column]:
    name = producer.annotator
    column = Column(name=producer_column(name), type="string", meaning=f"Producer of the {name}.")
    return [column] if fills_producer_column(producer) else []


Row = dict[str, Any]


class ColumnTypes:
    """The columns of one table that annotators may fill.

    Args:
        existing: Type by name of the columns that the table has.
        source_columns: Columns that no annotator may fill.
        declared: The columns that producers declare.

    Attributes:
        types: Type by name; the first producer that declares a column determines it.
    """

    def __init__(
        self, existing: Mapping[str, str], source_columns: Collection[str], declared: Iterable[Column]
    ) -> None:
        self._source_columns = set(source_columns)
        self.types: dict[str, str] = dict(existing)
        for column in declared:
            self.types.setdefault(column.name, column.episode_type)

    def fit(
        self,
        values: Mapping[str, Json],
        label: Callable[[], str],
        errors: list[str],
        columns: Iterable[Column],
    ) -> Row:
        """The values that fit their columns, as Arrow takes them.

        Args:
            values: Value by column name; other keys are ignored.
            label: Returns what the values are of, for messages.
            errors: Messages about values that do not fit are added to it.
            columns: The columns as their producer declares them.
        """
        row: Row = {}
        for column in columns:
            if column.name in values:
                value, type_name = values[column.name], self.types[column.name]
                error = self._refusal(column) or type_mismatch(value, type_name, column.name, column.choices)
                if error:
                    errors.append(f"{error} in {label()}")
                else:
                    row[column.name] = to_arrow_value(value, type_name)
        return row

    def without_values(self, names: Iterable[str]) -> Row:
        """No value for each column that annotators may fill; what the source says stays, whoever declares it."""
        return dict.fromkeys(name for name in names if name not in self._source_columns)

    def _refusal(self, column: Column) -> str:
        if column.name in self._source_columns:
            return f"{column.name!r} is a column of the source"
        type_name = self.types[column.name]
        if type_name != column.episode_type:
            return f"column {column.name!r} is {type_name}, but its producer declares {column.episode_type}"
        return ""


NEWEST = "newest"


def read_pins(annotations: AnnotationStore) -> dict[str, str]:
    """The pinned maker_id by annotator."""
    return {name: str(maker_id) for name, maker_id in annotations.find_documents(PINS)}


def pin_producers(annotations: AnnotationStore, choices: Mapping[str, str]) -> dict[str, str]:
    """Pin producers, so that their annotations alone fill the columns of their annotators; `Stores.sync` applies it.

    Args:
        annotations: The log.
        choices: By annotator a maker_id, the unique start of one, or "newest" to unpin.

    Returns:
        The maker_id, or "newest", by annotator.

    Raises:
        RequestError: No producer, or several, of an annotator begin so; then nothing is pinned.
    """
    producers = annotations.producers().values()
    maker_ids = {name: _find_maker_id(producers, name, choice) for name, choice in choices.items()}
    pins = {name: maker_id for name, maker_id in maker_ids.items() if maker_id != NEWEST}
    with annotations.atomic():
        annotations.drop_documents(PINS, [name for name in maker_ids if name not in pins])
        annotations.put_documents(PINS, dict[str, Json](pins))
    return maker_ids


def _find_maker_id(producers: Iterable[Producer], annotator: str, choice: str) -> str:
    candidates = [producer for producer in producers if producer.annotator == annotator]
    if not candidates:
        names = sorted({producer.annotator for producer in producers})
        raise RequestError(
            f"no annotator {annotator!r} has worked here",
            f"{did_you_mean(annotator, names)}there are: {', '.join(names) or 'none'}",
        )
    matches = [
        producer.maker_id for producer in candidates if choice and producer.maker_id.startswith(choice)
    ]
    if choice != NEWEST and len(matches) != 1:
        raise RequestError(
            f"no single producer {choice!r} of {annotator}",
            f"there are: {'; '.join(map(_producer_label, candidates))}; or give {NEWEST!r}",
        )
    return NEWEST if choice == NEWEST else matches[0]


def _producer_label(producer: Producer) -> str:
    return f"{producer.maker_id} ({producer.model or producer.kind} {producer.version})"
