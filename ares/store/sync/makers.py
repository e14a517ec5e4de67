"""Which maker fills which columns, of which types, by default or by the choice of a person."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, Column, Maker
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


class MakerCatalog:
    """The makers of a workspace, with the rules by which their annotations fill columns.

    Annotators form a group when one describes the annotations or segments of another, or both fill one column: what
    they say of an episode is read together.

    Args:
        makers: Maker by maker_id.
        pins: Pinned maker_id by annotator.
        maker_sequences: Sequence number of the newest annotation by maker_id.
    """

    def __init__(
        self,
        makers: Mapping[str, Maker],
        pins: Mapping[str, str] | None = None,
        maker_sequences: Mapping[str, int] | None = None,
    ) -> None:
        self.makers = makers
        self.pins = dict(pins or {})
        self.maker_sequences = {} if maker_sequences is None else maker_sequences
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
        for maker in self.makers.values():
            yield maker.annotator, *maker.after
            for column in maker.columns:
                yield maker.annotator, first_with_column.setdefault(column.name, maker.annotator)

    @cached_property
    def filled_columns(self) -> dict[str, tuple[list[Column], list[Column]]]:
        """By maker_id the columns that an annotation fills by itself: of its episode, and of segments."""
        return {
            maker_id: ([column for column in maker.columns if not column.rollup], list_segment_columns(maker))
            for maker_id, maker in self.makers.items()
        }

    def in_order(self, group: Collection[str]) -> list[str]:
        """The annotators of a group, each after those whose annotations it describes."""
        key = frozenset(group)
        if key not in self._orders:
            self._orders[key] = self._put_in_order(key)
        return self._orders[key]

    def _put_in_order(self, group: Collection[str]) -> list[str]:
        after: dict[str, set[str]] = {name: set() for name in group}
        for maker in self.makers.values():
            if maker.annotator in after:
                after[maker.annotator].update(after.keys() & set(maker.after))
        ordered: list[str] = []
        while len(ordered) < len(after):
            ready = sorted(name for name in after if name not in ordered and after[name] <= set(ordered))
            # Annotators that describe each other have no order; any will do.
            ordered += ready or sorted(after.keys() - set(ordered))
        return ordered

    def makers_of(self, names: Collection[str]) -> list[Maker]:
        """The makers of some annotators."""
        return [maker for name in names for maker in self._by_annotator.get(name, ())]

    @cached_property
    def _by_annotator(self) -> dict[str, list[Maker]]:
        by_annotator: dict[str, list[Maker]] = {}
        for maker in self.makers.values():
            by_annotator.setdefault(maker.annotator, []).append(maker)
        return by_annotator

    def is_projected(self, annotation: Annotation) -> bool:
        """Whether an annotation is of the kind that its maker declares: others are kept in the log alone."""
        maker = self.makers.get(annotation.maker_id)
        return maker is not None and maker.subject_kind == annotation.subject_kind

    def is_ruling(self, annotation: Annotation) -> bool:
        """Whether an annotation is the ruling of a person on one criterion."""
        return bool(annotation.part) and self.makers[annotation.maker_id].kind == "person"

    def plain_makers(self) -> set[str]:
        """Makers whose annotations each fill columns by themselves, as nothing else says anything of these.

        They are models and code that describe episodes, alone in their group, without roll-ups and not pinned.
        """
        shared = self.several_makers() | self.pins.keys()
        return {
            maker_id
            for maker_id, maker in self.makers.items()
            if maker.annotator not in shared and len(self.groups[maker.annotator]) == 1
            if maker.kind not in _RANKS and maker.subject_kind == "episode"
            if not any(column.rollup for column in maker.columns)
        }

    def fills_tables(self, group: Collection[str]) -> bool:
        """Whether a column or a segment may follow from annotations of a group."""
        return any(
            maker.columns or maker.fills_segments or maker.kind == "person" for maker in self.makers_of(group)
        )

    @cached_property
    def reviewed_groups(self) -> frozenset[str]:
        """Annotators of the groups in which people say something."""
        people = {maker.annotator for maker in self.makers.values() if maker.kind == "person"}
        return frozenset().union(*(self.groups[name] for name in people))

    def review_columns(self, newest: Iterable[Annotation]) -> dict[str, Any]:
        """Whether people have said something of an episode, and who, by the newest annotations of it."""
        counting = [
            item for item in newest if self.is_projected(item) and not (item.ordinal or item.is_withdrawn)
        ]
        makers = [self.makers[item.maker_id] for item in counting]
        people = {str(maker.settings.get("person", "")) for maker in makers if maker.kind == "person"}
        return {REVIEWED: bool(people), REVIEWER: sorted(people - {""}) or None}

    def several_makers(self) -> set[str]:
        """Annotators of which several makers have annotations."""
        names = [self.makers[key].annotator for key in self.maker_sequences if key in self.makers]
        return {name for name in names if names.count(name) > 1}

    def current(self, annotator: str) -> str:
        """The maker_id of the pinned maker, else of the model or code that annotated last; or ""."""
        if annotator in self.pins:
            return self.pins[annotator]
        candidates = [
            (self.maker_sequences[maker.maker_id], maker.maker_id)
            for maker in self.makers_of([annotator])
            if maker.kind not in _RANKS and maker.maker_id in self.maker_sequences
        ]
        return max(candidates, default=(0, ""))[1]

    def choose(self, annotator: str, candidates: Sequence[Annotation]) -> str:
        """The maker_id whose annotations are shown, of candidates in the order of the log; "" for none."""
        if annotator in self.pins:
            return self.pins[annotator]
        ranks = [
            (_RANKS.get(self.makers[annotation.maker_id].kind, 0), position)
            for position, annotation in enumerate(candidates)
        ]
        return candidates[max(ranks)[1]].maker_id if ranks else ""

    def episode_columns(self, names: Collection[str]) -> dict[str, str]:
        """Type by name of the columns that some annotators fill in the episodes table."""
        return {
            column.name: column.episode_type
            for maker in self.makers_of(names)
            for column in _on_episodes(maker)
        }

    def segment_columns(self, names: Collection[str]) -> dict[str, str]:
        """Type by name of the columns that some annotators fill in the segments table."""
        return {
            column.name: column.type
            for maker in self.makers_of(names)
            for column in list_segment_columns(maker)
        }

    def declared_schema(self) -> pa.Schema:
        """Every column of the episodes table that a maker declares or that follows from it."""
        import pyarrow as pa

        columns = {column.name: column.episode_type for column in declared_columns(self.makers.values())}
        return pa.schema([(name, arrow_type(type_name)) for name, type_name in columns.items()])


def list_segment_columns(maker: Maker) -> list[Column]:
    """The columns that a maker fills in the segments table, where they have the type of single values."""
    if maker.subject_kind in ("segment", "annotation"):
        single = [replace(column, rollup="") if column.rollup else column for column in maker.columns]
        return [*single, *_maker_columns(maker)]
    rollups = [column for column in maker.columns if column.rollup] if maker.fills_segments else []
    return [replace(column, rollup="") for column in rollups]


def maker_column(annotator: str) -> str:
    """Name of the column with the maker_id of a value."""
    return f"{annotator}_maker"


def fills_maker_column(maker: Maker) -> bool:
    """Whether a column beside the values of a maker names it."""
    return any(column.needs_current_maker for column in maker.columns)


_REVIEW_COLUMNS = (
    Column(name=REVIEWED, type="bool", meaning="Whether a person has ruled on it or corrected it."),
    Column(name=REVIEWER, type="list<string>", meaning="Who has ruled on it or corrected it."),
)


def declared_columns(makers: Iterable[Maker]) -> list[Column]:
    """Every column of the episodes table that makers fill: those they declare, and those that compare makers."""
    all_makers = list(makers)
    columns = [column for maker in all_makers for column in _on_episodes(maker)]
    if any(column.is_outcome for column in columns):
        columns.append(
            Column(
                name=CONFLICT, type="string", meaning="Who says success and who says failure, if they differ."
            )
        )
    has_people = any(maker.kind == "person" for maker in all_makers)
    columns += _REVIEW_COLUMNS if has_people else ()
    names = [maker.annotator for maker in all_makers]
    if has_people or len(set(names)) < len(names):
        meaning = "Columns for which two makers of an annotator differ, and what two people rule otherwise."
        columns.append(Column(name=DISAGREEMENT, type="list<string>", meaning=meaning))
    return columns


def _on_episodes(maker: Maker) -> list[Column]:
    columns = [
        column
        for column in maker.columns
        if column.rollup != "segment" and (column.rollup or maker.subject_kind != "segment")
    ]
    return [*columns, *_maker_columns(maker)]


def _maker_columns(maker: Maker) -> list[Column]:
    name = maker.annotator
    column = Column(name=maker_column(name), type="string", meaning=f"Maker of the {name}.")
    return [column] if fills_maker_column(maker) else []


Row = dict[str, Any]


class ColumnTypes:
    """The columns of one table that annotators may fill.

    Args:
        existing: Type by name of the columns that the table has.
        source_columns: Columns that no annotator may fill.
        declared: The columns that makers declare.

    Attributes:
        types: Type by name; the first maker that declares a column determines it.
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
            columns: The columns as their maker declares them.
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

    def _refusal(self, column: Column) -> str:
        if column.name in self._source_columns:
            return f"{column.name!r} is a column of the source"
        type_name = self.types[column.name]
        if type_name != column.episode_type:
            return f"column {column.name!r} is {type_name}, but its maker declares {column.episode_type}"
        return ""


NEWEST = "newest"


def read_pins(annotations: AnnotationStore) -> dict[str, str]:
    """The pinned maker_id by annotator."""
    return {name: str(maker_id) for name, maker_id in annotations.find_documents(PINS)}


def pin_makers(annotations: AnnotationStore, choices: Mapping[str, str]) -> dict[str, str]:
    """Pin makers, so that their annotations alone fill the columns of their annotators; `Stores.sync` applies it.

    Args:
        annotations: The log.
        choices: By annotator a maker_id, the unique start of one, or "newest" to unpin.

    Returns:
        The maker_id, or "newest", by annotator.

    Raises:
        RequestError: No maker, or several, of an annotator begin so; then nothing is pinned.
    """
    makers = annotations.makers().values()
    maker_ids = {name: _find_maker_id(makers, name, choice) for name, choice in choices.items()}
    pins = {name: maker_id for name, maker_id in maker_ids.items() if maker_id != NEWEST}
    with annotations.atomic():
        annotations.drop_documents(PINS, [name for name in maker_ids if name not in pins])
        annotations.put_documents(PINS, dict[str, Json](pins))
    return maker_ids


def _find_maker_id(makers: Iterable[Maker], annotator: str, choice: str) -> str:
    own = [maker for maker in makers if maker.annotator == annotator]
    if not own:
        names = sorted({maker.annotator for maker in makers})
        raise RequestError(
            f"no annotator {annotator!r} has worked here",
            f"{did_you_mean(annotator, names)}there are: {', '.join(names) or 'none'}",
        )
    matches = [maker.maker_id for maker in own if choice and maker.maker_id.startswith(choice)]
    if choice != NEWEST and len(matches) != 1:
        raise RequestError(
            f"no single maker {choice!r} of {annotator}",
            f"there are: {'; '.join(map(_maker_label, own))}; or give {NEWEST!r}",
        )
    return NEWEST if choice == NEWEST else matches[0]


def _maker_label(maker: Maker) -> str:
    return f"{maker.maker_id} ({maker.model or maker.kind} {maker.version})"
