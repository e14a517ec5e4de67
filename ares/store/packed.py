"""Packed: episodes with their signals as the tables keep them, made where they are read and only written later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ares.episode import Record, Trajectory
from ares.store import arrow

if TYPE_CHECKING:
    import pyarrow as pa

# Values in one Arrow batch; far below the 2**31 that 32-bit offsets can address.
_BATCH_VALUES = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Rows of both tables, one of each for every episode, in the same order.

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


def pack(records: Sequence[Record]) -> Packed:
    """The rows of some records, ingested now; at least one."""
    import pyarrow as pa

    episodes = arrow.episodes_to_arrow([record.episode for record in records], datetime.now(UTC))
    batches = [arrow.trajectories_to_arrow(*part) for part in _parts(records)]
    return Packed(episodes, pa.Table.from_batches(batches))


def _parts(records: Sequence[Record]) -> Iterator[tuple[list[str], list[Trajectory]]]:
    ids: list[str] = []
    trajectories: list[Trajectory] = []
    values = 0
    for record in records:
        size = _size(record.trajectory)
        if ids and values + size > _BATCH_VALUES:
            yield ids, trajectories
            ids, trajectories, values = [], [], 0
        ids.append(record.episode.episode_id)
        trajectories.append(record.trajectory)
        values += size
    yield ids, trajectories


def _size(trajectory: Trajectory) -> int:
    signals = [trajectory.state, trajectory.action, *trajectory.extra.values()]
    return len(trajectory.timestamps) + sum(signal.values.size for signal in signals if signal is not None)
