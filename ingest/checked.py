"""Checked: keep what the checks found as annotations, for every episode, also after a run that was killed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ares.episode import Record
from ares.jobs.ledger import now
from ares.store.filters import chunks
from ingest.check import CHECKER, Finding, annotation, check

if TYPE_CHECKING:
    from ares.workspace import Workspace

_BATCH = 1_000


class Checked(NamedTuple):
    """An episode, its length in seconds, and what was found."""

    episode_id: str
    duration_seconds: float
    findings: tuple[Finding, ...]


def enter_checks(ws: Workspace, checked: Sequence[Checked]) -> None:
    """Keep one fact for each episode that was checked; their rows are written."""
    ws.annotations.add_maker(CHECKER)
    maker_id, created = CHECKER.maker_id, now()
    ws.annotations.append([annotation(*each, maker_id=maker_id, created=created) for each in checked])


def mend_checks(ws: Workspace) -> int:
    """Check episodes that have no fact: a run was killed after writing them. Returns how many there were."""
    count = 0
    for ids in chunks(_unchecked(ws), _BATCH):
        trajectories = dict(ws.tables.trajectories.read(ids))
        episodes = [episode for episode in ws.tables.episodes.get(ids) if episode.episode_id in trajectories]
        records = [Record(episode=one, trajectory=trajectories[one.episode_id]) for one in episodes]
        enter_checks(
            ws,
            [Checked(one.episode.episode_id, one.episode.duration_seconds, check(one)) for one in records],
        )
        count += len(episodes)
    return count


def _unchecked(ws: Workspace) -> Iterator[str]:
    for ids in ws.tables.episodes.stretches():
        done = ws.annotations.done(CHECKER.maker_id, ids)
        yield from (each for each in ids if each not in done)
