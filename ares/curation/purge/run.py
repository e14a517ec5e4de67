"""Deletes episodes for good in two phases, each of which can be repeated until it is complete."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from ares.curation.purge.documents import drop_unused_contracts, scrub_documents
from ares.curation.purge.files import delete_files
from ares.curation.purge.tables import delete_rows_of, erase_tables, sources_of, tables_to_erase
from ares.curation.selection import EpisodeSelection, selected_ids
from ares.curation.staged_ids import StagedIds
from ares.episode import Json
from ares.errors import RequestError
from ares.jobs import utc_now
from ares.settings import user_name
from ares.store.actions import Action, add_tombstones, hash_identity, read_history, record_action
from ares.store.filters import batched, conjunction, ids_filter, quote_literal

if TYPE_CHECKING:
    from ares.store import Stores

# Documents: a header per purge under its token, and the ids below it until every trace of them is deleted.
_PURGES = "purges"
_BATCH = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeReport:
    """What a purge has deleted; after a crash in between, what was left to delete.

    Attributes:
        action: Number of the action in the log, which names no episode.
        episodes: Episodes.
        annotations: Annotations.
        rows: Rows of all tables: episodes, signals, segments and vectors.
        files: Folders of copied videos.
    """

    action: int
    episodes: int
    annotations: int
    rows: int
    files: int

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return asdict(self)


def purgeable_ids(stores: Stores, selection: EpisodeSelection) -> Iterator[str]:
    """Ids of the selected episodes, those that were removed before included.

    Raises:
        RequestError: The selection cannot be made; see `selected_ids`.
    """
    removed = stores.tables.removed
    if not removed.count() or selection.search:
        yield from selected_ids(stores, selection)
        return
    if selection.set:
        from ares.curation.sets import Sets

        sets = Sets(stores.annotations)
        members = sets.ids(sets[selection.set])
    else:
        members = iter(selection.ids)
    stores.tables.episodes.check(selection.where)
    dataset = f"dataset = {quote_literal(selection.dataset)}" if selection.dataset else ""
    condition = conjunction([selection.where, dataset])
    if not selection.ids and not selection.set:
        for ids in stores.tables.episodes.id_batches(condition):
            yield from ids
        yield from removed.ids(condition).to_pylist()
        return
    for chunk in batched(members, _BATCH):
        where = conjunction([condition, ids_filter(chunk)])
        matching = stores.tables.episodes.ids(where).union(removed.ids(where).to_pylist())
        if selection.ids and len(matching) < len(set(chunk)):
            first = next(id for id in chunk if id not in matching)
            raise RequestError("an id is no episode that matches", f"{first!r}; nothing was deleted")
        yield from sorted(matching)


def purge_episodes(stores: Stores, ids: StagedIds, *, person: str = "", note: str = "") -> PurgeReport:
    """Delete episodes for good: annotations, signals, vectors, copies, caches, and their names in every document.

    Sources are not touched. A hash of each identity is kept, by which the episode is refused when it comes again.

    Args:
        stores: Stores of the workspace.
        ids: Ids of episodes, removed ones included.
        person: Who purges them; the user by default.
        note: Why, in the person's words; must name no episode.

    Raises:
        RequestError: No episode is selected.
        StoreError: A store cannot be written; `ares doctor --repair` goes on.
    """
    if not ids.count:
        raise RequestError("no episode is selected", "nothing was deleted")
    with stores.write_lock("ares remove --purge"):
        stores.sync()
        token = uuid.uuid4().hex
        for number, chunk in enumerate(ids.batches()):
            stores.annotations.put_documents(_PURGES, {f"{token}/{number:06d}": list[Json](chunk)})
        header: dict[str, Json] = {
            "phase": "delete",
            "person": person.strip() or user_name(),
            "created": utc_now(),
            "count": ids.count,
            "note": note,
            "tables": [],
        }
        stores.annotations.put_documents(_PURGES, {token: header})
        return _finish(stores, token, header)


def count_pending_purges(stores: Stores) -> int:
    """Number of purges that were begun and not completed."""
    return sum(1 for key, _ in stores.annotations.find_documents(_PURGES) if "/" not in key)


def finish_purges(stores: Stores) -> list[PurgeReport]:
    """Complete the purges that a crash interrupted; the caller holds the write lock. Raises StoreError."""
    documents = dict(stores.annotations.find_documents(_PURGES))
    reports = [
        _finish(stores, token, cast("dict[str, Json]", header))
        for token, header in documents.items()
        if "/" not in token
    ]
    # Ids without a header: the purge was never begun.
    stores.annotations.drop_documents(_PURGES, [key for key in documents if "/" in key])
    return reports


def _finish(stores: Stores, token: str, header: dict[str, Json]) -> PurgeReport:
    annotations, rows, files = 0, 0, 0
    if header["phase"] == "delete":
        blocks = [key for key, _ in stores.annotations.find_documents(_PURGES, f"{token}/")]
        ids = [
            episode_id
            for key in blocks
            for episode_id in cast("list[str]", stores.annotations.get_document(_PURGES, key))
        ]
        add_tombstones(
            stores.annotations,
            [hash_identity(stores.workspace_id, episode_id) for episode_id in ids],
            str(header["created"]),
        )
        # Written before anything is deleted: after a crash nothing in a table tells that it had rows.
        names = sorted({*cast("list[str]", header["tables"]), *tables_to_erase(stores, ids)})
        header = {**header, "tables": list[Json](names)}
        stores.annotations.put_documents(_PURGES, {token: header})
        scrub_documents(stores, ids, sources_of(stores, ids))
        files = delete_files(stores, ids)
        rows = delete_rows_of(stores, ids, names)
        drop_unused_contracts(stores)
        annotations = sum(stores.annotations.delete_episodes(chunk) for chunk in batched(ids, _BATCH))
        action = _record(stores, token, header)
        header = {**header, "phase": "erase", "action": action.number}
        stores.annotations.put_documents(_PURGES, {token: header})
        stores.annotations.drop_documents(_PURGES, blocks)
        stores.sync()
        stores.tables.episodes.mark_duplicates()
    erase_tables(stores, cast("list[str]", header["tables"]))
    stores.annotations.erase_deleted()
    stores.annotations.drop_documents(_PURGES, [token])
    return PurgeReport(
        action=int(str(header["action"])),
        episodes=int(str(header["count"])),
        annotations=annotations,
        rows=rows,
        files=files,
    )


def _record(stores: Stores, token: str, header: dict[str, Json]) -> Action:
    """The action of a purge: recorded now, unless a crash came just after it was."""
    for action in read_history(stores.annotations).actions:
        if action.details.get("purge") == token:
            return action
    details: dict[str, Json] = {"purge": token, **({"note": header["note"]} if header["note"] else {})}
    return record_action(
        stores.annotations,
        "purge",
        str(header["person"]),
        count=int(str(header["count"])),
        details=details,
    )
