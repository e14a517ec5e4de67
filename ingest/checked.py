"""Checked: keep what the checks found as annotations, for every episode, also after a run that was killed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ares.episode import Record
from ares.jobs.ledger import now
from ingest.check import CHECKER, Finding, annotation, check

if TYPE_CHECKING:
    from ares.workspace import Workspace

_BATCH = 1_000


def enter_checks(ws: Workspace, records: Sequence[Record]) -> list[tuple[Finding, ...]]:
    """Check records whose episodes are written, and keep one fact for each. Returns the findings, in order."""
    ws.annotations.add_maker(CHECKER)
    found, created = [check(record) for record in records], now()
    ws.annotations.append(
        [annotation(record.episode, one, created) for record, one in zip(records, found, strict=True)]
    )
    return found


def mend_checks(ws: Workspace) -> int:
    """Check episodes that have no fact: a run was killed after writing them. Returns how many there were."""
    left = iter(sorted(ws.tables.episodes.ids() - ws.annotations.done(CHECKER.maker_id)))
    count = 0
    while ids := list(islice(left, _BATCH)):
        trajectories = dict(ws.tables.trajectories.read(ids))
        episodes = [episode for episode in ws.tables.episodes.get(ids) if episode.episode_id in trajectories]
        enter_checks(ws, [Record(episode=one, trajectory=trajectories[one.episode_id]) for one in episodes])
        count += len(episodes)
    return count
