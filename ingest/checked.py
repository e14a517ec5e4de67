"""Checked: keep what the checks found as annotations, for every episode, also after a run that was killed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import ares.store.index as index
from ares.annotation import Annotation
from ares.episode import Record
from ares.jobs.ledger import now
from ares.store.codec import Row
from ares.store.filters import chunks
from ingest.batch import Fact
from ingest.check import CHECKER, annotation, check

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.workspace import Workspace

_BATCH = 1_000


class Checks:
    """Enters the facts of rows that hold their values, and lets the index pass over them while they are all there is.

    Args:
        ws: Where to; it was just brought up to date, and the caller holds it for writing.
    """

    def __init__(self, ws: Workspace) -> None:
        self._ws = ws
        ws.annotations.add_maker(CHECKER)
        ws.tables.episodes.declare(columns())
        self._first = index.applied_sequence(ws.tables)
        self._last = self._first
        self._alone = ws.annotations.last_sequence() == self._first

    def enter(self, facts: Sequence[Fact]) -> None:
        """Keep one fact for each episode; their rows are written. Raises StoreError."""
        last = self._ws.annotations.append([Row._make(fact) for fact in facts])
        # Whoever else adds facts meanwhile leaves a gap between the numbers.
        self._alone = self._alone and last - self._last == len(facts)
        self._last = last

    def close(self) -> None:
        """All facts are entered. Raises StoreError."""
        if self._alone:
            index.skip_log(self._ws.tables, self._first, self._last)


def columns() -> pa.Schema:
    """The columns of the episodes that hold what the checks found."""
    import pyarrow as pa

    return pa.schema([(column.name, pa.int64()) for column in CHECKER.columns])


def mend_checks(ws: Workspace) -> int:
    """Check episodes that have no fact: a run was killed after writing them. Returns how many there were."""
    count = 0
    for ids in chunks(_unchecked(ws), _BATCH):
        trajectories = dict(ws.tables.trajectories.read(ids))
        episodes = [episode for episode in ws.tables.episodes.get(ids) if episode.episode_id in trajectories]
        records = [Record(episode=one, trajectory=trajectories[one.episode_id]) for one in episodes]
        ws.annotations.add_maker(CHECKER)
        ws.annotations.append([_fact(record) for record in records])
        count += len(episodes)
    return count


def _unchecked(ws: Workspace) -> Iterator[str]:
    for ids in ws.tables.episodes.stretches():
        done = ws.annotations.done(CHECKER.maker_id, ids)
        yield from (each for each in ids if each not in done)


def _fact(record: Record) -> Annotation:
    return annotation(record.episode, check(record), now())
