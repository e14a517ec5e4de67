"""Records encoded as rows of the tables: encoded where they are read, and written by another process or thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ares.episode import Record, Trajectory
from ares.store.lance import schema as arrow

if TYPE_CHECKING:
    import pyarrow as pa

# Values in one Arrow batch; far below the 2**31 that 32-bit offsets can address.
_MAX_BATCH_VALUES = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeBatch:
    """Rows of the episodes and trajectories tables, one of each for every episode, in the same order.

    Attributes:
        episodes: Rows of the episodes table.
        trajectories: Rows of the trajectories table.
    """

    episodes: pa.RecordBatch
    trajectories: pa.Table

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.episodes.nbytes + self.trajectories.nbytes)


def encode_records(records: Sequence[Record]) -> EpisodeBatch:
    """The rows of one or more records, with the present time as their time of ingestion."""
    import pyarrow as pa

    episodes = arrow.episodes_to_arrow([record.episode for record in records], datetime.now(UTC))
    batches = [arrow.trajectories_to_arrow(*part) for part in _split_by_values(records)]
    return EpisodeBatch(episodes, pa.Table.from_batches(batches))


def _split_by_values(records: Sequence[Record]) -> Iterator[tuple[list[str], list[Trajectory]]]:
    ids: list[str] = []
    trajectories: list[Trajectory] = []
    values = 0
    for record in records:
        size = _num_values(record.trajectory)
        if ids and values + size > _MAX_BATCH_VALUES:
            yield ids, trajectories
            ids, trajectories, values = [], [], 0
        ids.append(record.episode.episode_id)
        trajectories.append(record.trajectory)
        values += size
    yield ids, trajectories


def _num_values(trajectory: Trajectory) -> int:
    signals = [trajectory.state, trajectory.action, *trajectory.extra.values()]
    return len(trajectory.timestamps) + sum(signal.values.size for signal in signals if signal is not None)
