"""What a batch of annotations changes in the tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, Maker
from ares.store.filters import batched
from ares.store.lance import to_arrow_value
from ares.store.sync.columns import fit_values
from ares.store.sync.makers import (
    DISAGREEMENT,
    MakerCatalog,
    maker_column,
    needs_current,
    stale_column,
)
from ares.store.sync.shown import (
    Correct,
    EpisodeValues,
    describe,
    find_disagreements,
    resolve_episode,
    segment_id,
)

if TYPE_CHECKING:
    from ares.store.annotations import AnnotationStore
    from ares.store.sync.columns import ColumnTypes

# Episodes whose annotations are read together.
_EPISODES_PER_READ = 2_000

Row = dict[str, Any]


@dataclass(slots=True)
class LogChanges:
    """The changes of the tables by a batch of annotations; a later annotation overwrites an earlier one.

    Attributes:
        episode_values: Episode columns by episode.
        segment_rows: Segment rows by annotation_id.
        segment_values: Further columns of segment rows by the annotation_id of the segment.
        resolved: Makers by episode whose segments are all in `segment_rows`: any other row of theirs is old.
        errors: Messages about values that cannot be applied.
        unknown_makers: The label of one annotation by each maker_id that was never stored.
        frame_counts: Number of embedded frames by space and episode, as the annotations say.
        column_types: Type of every column in `episode_values`.
        segment_types: Type of every column in `segment_values`.
        annotation_count: Number of annotations.
        last_sequence: Sequence number of the last annotation.
    """

    episode_values: dict[str, Row] = field(default_factory=dict)
    segment_rows: dict[str, Row] = field(default_factory=dict)
    segment_values: dict[str, Row] = field(default_factory=dict)
    resolved: dict[str, set[str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    unknown_makers: dict[str, str] = field(default_factory=dict)
    frame_counts: dict[tuple[str, str], int] = field(default_factory=dict)
    column_types: Mapping[str, str] = field(default_factory=dict)
    segment_types: Mapping[str, str] = field(default_factory=dict)
    annotation_count: int = 0
    last_sequence: int = 0


class ChangeCollector:
    """Collects the changes of annotations.

    Args:
        annotations: The log.
        catalog: The makers.
        episode_columns: Columns of the episodes table.
        segment_columns: Columns of the segments table.
        mixed: Annotators whose groups are resolved episode by episode; see `MakerCatalog`.
        correct: What rulings of people make of a value.
    """

    def __init__(
        self,
        annotations: AnnotationStore,
        catalog: MakerCatalog,
        episode_columns: ColumnTypes,
        segment_columns: ColumnTypes,
        mixed: Collection[str],
        correct: Correct,
    ) -> None:
        self.catalog = catalog
        self._annotations = annotations
        self._episode_columns, self._segment_columns = episode_columns, segment_columns
        self._mixed, self._correct = mixed, correct
        # Once per maker: a log has few makers and many annotations.
        self._rules = {
            maker_id: episode_columns.rules(maker.columns)
            for maker_id, maker in catalog.makers.items()
            if maker.subject_kind != "segment"
        }
        self._current_only = {key for key, maker in catalog.makers.items() if needs_current(maker)}
        self._pending: dict[frozenset[str], set[str]] = {}  # episodes to resolve, by group

    def new_changes(self, last_sequence: int) -> LogChanges:
        """Changes of nothing yet."""
        changes = LogChanges(last_sequence=last_sequence)
        self.update_types(changes)
        return changes

    def update_types(self, changes: LogChanges) -> None:
        """Let changes know the types of the columns that this collector fills."""
        changes.column_types, changes.segment_types = self._episode_columns.types, self._segment_columns.types

    def add(self, batch: Sequence[tuple[int, Annotation]], changes: LogChanges) -> None:
        """Add the changes of annotations with their sequence numbers."""
        changes.annotation_count += len(batch)
        changes.last_sequence = batch[-1][0]
        for _, annotation in batch:
            maker = self.catalog.makers.get(annotation.maker_id)
            if maker is None:
                label = describe(annotation)
                changes.errors.append(f"maker {annotation.maker_id} is unknown in {label}")
                changes.unknown_makers.setdefault(annotation.maker_id, label)
            elif annotation.subject_kind == maker.subject_kind:
                self._add(annotation, maker, changes)

    def finish(self, changes: LogChanges) -> None:
        """Add what the annotations of mixed groups say together, of the episodes that were met."""
        pending, self._pending = self._pending, {}
        for group, episode_ids in pending.items():
            self.resolve(sorted(episode_ids), group, changes)

    def resolve(self, episode_ids: Sequence[str], group: Collection[str], changes: LogChanges) -> None:
        """Add what all annotations of a group say of some episodes, and which columns have no value."""
        compared = self._compared_groups()
        names = {*group, *compared}
        empty = dict.fromkeys(self.catalog.episode_columns(group))
        empty_segment = dict.fromkeys(self.catalog.segment_columns(group))
        maker_ids = {maker.maker_id for maker in self.catalog.makers_of(group)}
        read_makers = [maker.maker_id for maker in self.catalog.makers_of(names)]
        for ids in batched(episode_ids, _EPISODES_PER_READ):
            by_episode = _by_episode(self._annotations.find_annotations(ids, maker_ids=read_makers))
            for episode_id in ids:
                annotations = by_episode.get(episode_id, [])
                own = [annotation for annotation in annotations if annotation.maker_id in maker_ids]
                values = resolve_episode(
                    own, self.catalog, group, self._episode_columns, self._segment_columns, self._correct
                )
                row = changes.episode_values.setdefault(episode_id, {})
                row.update(empty | values.columns)
                if compared:
                    row[DISAGREEMENT] = find_disagreements(annotations, self.catalog, names) or None
                changes.errors += values.errors
                changes.resolved.setdefault(episode_id, set()).update(maker_ids)
                self._replace_segments(own, values, empty_segment, changes)

    def _compared_groups(self) -> set[str]:
        """Annotators of the groups in which makers may differ: the column of all differences needs them together."""
        groups = (self.catalog.groups[name] for name in self.catalog.several_makers())
        return {name for group in groups for name in group}

    def _replace_segments(
        self, annotations: Sequence[Annotation], values: EpisodeValues, empty: Row, changes: LogChanges
    ) -> None:
        """Let changes have the shown segments of an episode, and nothing else of its annotations."""
        for annotation in annotations:
            # They were added before the group became mixed.
            changes.segment_rows.pop(annotation.annotation_id, None)
            changes.segment_values.pop(annotation.annotation_id, None)
        for segment in values.segments:
            row = values.segment_columns.get(segment.annotation_id, {})
            self._add_segment(segment, empty | row, changes)

    def _add(self, annotation: Annotation, maker: Maker, changes: LogChanges) -> None:
        space = annotation.value.get("space")
        if isinstance(space, str):
            frames = annotation.value.get("frames")
            changes.frame_counts[space, annotation.episode_id] = frames if isinstance(frames, int) else 0
        if maker.annotator in self._mixed:
            self._pending.setdefault(self.catalog.groups[maker.annotator], set()).add(annotation.episode_id)
            return
        label = partial(describe, annotation)
        values = fit_values(annotation.value, label, changes.errors, self._rules[annotation.maker_id])
        if annotation.maker_id in self._current_only:
            name = maker.annotator
            values |= {stale_column(name): False, maker_column(name): annotation.maker_id}
        if values:
            changes.episode_values.setdefault(annotation.episode_id, {}).update(values)
        if maker.fills_segments:
            self._add_segment(annotation, {}, changes)
        elif maker.subject_kind == "annotation":
            # Its columns are the same on the episode and on the segment: none is a roll-up on this path.
            changes.segment_values.setdefault(annotation.subject, {}).update(values)

    def _add_segment(self, annotation: Annotation, values: Row, changes: LogChanges) -> None:
        text = annotation.value.get("text")
        if text is not None and not isinstance(text, str):
            changes.errors.append(f"'text' is string, but got {text!r} in {describe(annotation)}")
            return
        annotation_id = annotation.annotation_id
        changes.segment_rows[annotation_id] = {
            "annotation_id": annotation_id,
            "episode_id": annotation.episode_id,
            "annotator": annotation.name,
            "segment_id": segment_id(annotation),
            "start_seconds": annotation.start_seconds,
            "stop_seconds": annotation.stop_seconds,
            "camera": annotation.camera,
            "text": to_arrow_value(text or "", "string"),
            "maker_id": annotation.maker_id,
            **values,
        }


def _by_episode(annotations: list[Annotation]) -> dict[str, list[Annotation]]:
    annotations.sort(key=lambda annotation: annotation.episode_id)  # stable: the order of the log stays
    groups = groupby(annotations, lambda annotation: annotation.episode_id)
    return {episode_id: list(members) for episode_id, members in groups}
