"""Documents: sets have the members that they were frozen with, and the ledger of failures is up to date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ares.checks.finding import REPAIR, Finding
from ares.checks.rows import without_remedy
from ares.curate.sets import MEMBERS, CurationSet, Sets, hash_ids
from ares.jobs.ledger import FAILURES
from ares.store.filters import among, chunks

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.scratch import Scratch
    from ares.workspace import Workspace

_CHUNK = 10_000


def check_sets(ws: Workspace, scratch: Scratch, repair: bool) -> Iterator[Finding]:
    """Members of every set: as many and the same as were frozen, each an episode of the workspace."""
    every = list(chain.from_iterable(ws.sets.versions(name) for name in ws.sets))
    for chosen in every:
        yield from _check_set(ws.sets, chosen, scratch)
    known = {f"{one.name}@{one.version:06d}" for one in every}
    count, example = 0, ""
    members = (key for key, _ in ws.annotations.find(MEMBERS))
    for left in chunks((key for key in members if key.rpartition("/")[0] not in known), _CHUNK):
        # A set is there once its head is; members without one are what a killed command left.
        if repair:
            ws.annotations.drop(MEMBERS, left)
        count, example = count + len(left), example or left[0]
    if count:
        yield Finding(
            check="no members without a set", count=count, example=example, repaired=repair, remedy=REPAIR
        )


def check_ledger(ws: Workspace, repair: bool) -> Iterator[Finding]:
    """Failures of subjects that were done since."""
    count, example = 0, ""
    for keys in chunks((key for key, _ in ws.annotations.find(FAILURES)), _CHUNK):
        stale = list(_stale(ws, keys))
        if repair and stale:
            ws.annotations.drop(FAILURES, stale)
        count, example = count + len(stale), example or "".join(stale[:1])
    if count:
        yield Finding(
            check="no failure of what was done since",
            count=count,
            example=example,
            repaired=repair,
            remedy=REPAIR,
        )


def _stale(ws: Workspace, keys: Sequence[str]) -> Iterator[str]:
    scopes: dict[str, list[str]] = {}
    for key in keys:
        scope, _, subject = key.rpartition("/")
        scopes.setdefault(scope, []).append(subject)
    for scope, subjects in scopes.items():
        if scope == "ingest":
            done = ws.tables.episodes.ids(among("episode_id", subjects))
        else:
            done = ws.annotations.done(scope.partition("/")[2], subjects)
        yield from (f"{scope}/{subject}" for subject in subjects if subject in done)


def _check_set(sets: Sets, chosen: CurationSet, scratch: Scratch) -> Iterator[Finding]:
    import pyarrow as pa

    hashed, counted = hash_ids(sets.ids(chosen))
    if (counted, hashed) != (chosen.episodes, chosen.ids_hash):
        yield Finding(
            check=f"set {chosen.label} has the members that it was frozen with",
            count=abs(chosen.episodes - counted) or 1,
            example=f"{counted} members with hash {hashed}, frozen were {chosen.episodes} with {chosen.ids_hash}",
            repaired=False,
            remedy="restore the annotations from a backup, or the set from its lock file",
        )
    name, schema = f"set {chosen.label}", pa.schema([("episode_id", pa.string())])
    scratch.put(name, schema, _batches(sets.ids(chosen), schema))
    yield from without_remedy(
        scratch,
        f'SELECT m.episode_id AS id FROM "{name}" m ANTI JOIN episodes USING (episode_id)',
        f"each member of set {chosen.label} is an episode of the workspace",
        "ingest its source again: it gets the same id",
    )
    scratch.drop(name)


def _batches(ids: Iterator[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for chunk in chunks(ids, _CHUNK):
        yield pa.record_batch([pa.array(chunk, pa.string())], schema=schema)
