"""Stores the findings of the checks as annotations, one for every episode, also after a run that was killed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ares.annotation import Annotation
from ares.episode import Record
from ares.jobs import utc_now
from ares.quality import check_record
from ares.store import applied_sequence, skip_applied
from ares.store.annotations import AnnotationRow
from ares.store.filters import batched
from ares.store.lance import arrow_type
from ingest.checks import CHECKER, findings_annotation
from ingest.pipeline.read import AnnotationTexts

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import Stores

_BATCH_SIZE = 1_000


class CheckLog:
    """Appends the annotations of the checks to the log.

    The episode rows hold the values of these annotations already. Unless another process appends meanwhile, the
    tables are marked as in step with the log, so that the next synchronisation does not apply them again.

    Args:
        stores: Where to; the tables are in step with the log, and the caller holds the write lock.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        stores.annotations.add_maker(CHECKER)
        stores.tables.episodes.add_missing_columns(check_columns())
        self._first_sequence = applied_sequence(stores.tables)
        self._last_sequence = self._first_sequence
        self._is_only_writer = stores.annotations.last_sequence() == self._first_sequence

    def append(self, rows: Sequence[AnnotationTexts]) -> None:
        """Append one annotation for each episode, after the episode's row is written. Raises StoreError."""
        last = self._stores.annotations.append([AnnotationRow._make(row) for row in rows])
        # Annotations that another process appends meanwhile leave a gap between the sequence numbers.
        self._is_only_writer = self._is_only_writer and last - self._last_sequence == len(rows)
        self._last_sequence = last

    def close(self) -> None:
        """Mark the tables as in step with the log, where they are. Raises StoreError."""
        if self._is_only_writer:
            skip_applied(self._stores.tables, self._first_sequence, self._last_sequence, CHECKER.maker_id)


def check_columns() -> pa.Schema:
    """Columns of the episodes table that the checks fill."""
    import pyarrow as pa

    return pa.schema([(column.name, arrow_type(column.type)) for column in CHECKER.columns])


def check_unchecked_episodes(stores: Stores) -> int:
    """Check the episodes without an annotation of the checks, which a killed run had written. Returns their number."""
    count = 0
    for ids in batched(_unchecked_ids(stores), _BATCH_SIZE):
        trajectories = dict(stores.tables.trajectories.read(ids))
        episodes = [
            episode for episode in stores.tables.episodes.get(ids) if episode.episode_id in trajectories
        ]
        records = [
            Record(episode=episode, trajectory=trajectories[episode.episode_id]) for episode in episodes
        ]
        stores.annotations.add_maker(CHECKER)
        stores.annotations.append([_check_annotation(record) for record in records])
        count += len(episodes)
    return count


def _unchecked_ids(stores: Stores) -> Iterator[str]:
    for ids in stores.tables.episodes.id_batches():
        checked_ids = stores.annotations.find_done_subjects(CHECKER.maker_id, ids)
        yield from (episode_id for episode_id in ids if episode_id not in checked_ids)


def _check_annotation(record: Record) -> Annotation:
    return findings_annotation(record.episode, check_record(record.episode, record.trajectory), utc_now())
