"""Deletes episodes for good, from log, tables and files, in phases that can be repeated after a crash."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from ares.console import count_of, print_message
from ares.contract import DatasetKey, delete_contracts_except
from ares.curation.erasing import (
    delete_episode_files,
    delete_rows_of,
    erase_deleted_table_rows,
    read_source_locations,
    tables_to_erase,
)
from ares.curation.scrubbing import leave_duplicate_groups, remove_ids_from_documents
from ares.curation.selection import SelectedEpisodes, hash_request
from ares.episode import Json
from ares.errors import RequestError, StoreError
from ares.jobs import EpisodeSelection, utc_now
from ares.settings import user_name
from ares.store import (
    PURGES,
    Action,
    StagedIds,
    WorkspaceBusy,
    add_tombstones,
    batched,
    hash_episode_identity,
    read_history,
    record_action,
)

if TYPE_CHECKING:
    from ares.store import Stores


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
        """The counts as JSON."""
        return asdict(self)


def drop_unused_contracts(stores: Stores) -> None:
    """Delete the contracts of datasets that have no episode left; removed episodes count, as they can come back."""
    import pyarrow as pa

    columns = list(DatasetKey._fields)
    tables = (stores.tables.episodes, stores.tables.removed)
    delete_contracts_except(
        stores.annotations,
        {
            DatasetKey(**row)
            for table in tables
            for batch in table.scan(columns)
            for row in pa.table(batch.select(columns)).group_by(columns).aggregate([]).to_pylist()
        },
    )


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
        header: dict[str, Json] = {
            "phase": "delete",
            "person": person.strip() or user_name(),
            "created": utc_now(),
            "count": ids.count,
            "note": note,
            "tables": [],
            "request": ids.request_hash if isinstance(ids, SelectedEpisodes) else "",
        }
        with stores.annotations.atomic():
            for number, chunk in enumerate(ids.batches()):
                stores.annotations.put_documents(PURGES, {f"{token}/{number:06d}": list[Json](chunk)})
            stores.annotations.put_documents(PURGES, {token: header})
        return _finish_purge(stores, token, header)


def count_pending_purges(stores: Stores) -> int:
    """Number of purges that were begun and not completed."""
    return sum(1 for key, _ in stores.annotations.find_documents(PURGES) if "/" not in key)


def complete_purges(stores: Stores) -> None:
    """Complete the purges that were interrupted, unless another job writes; an error leaves them as they are."""
    # Whoever reads the tables is told of an error.
    with suppress(WorkspaceBusy, StoreError, OSError), stores.write_lock("ares remove --purge", wait=False):
        for report in finish_purges(stores):
            print_message(
                f"completed a purge of {count_of(report.episodes, 'episode')}, which an interrupted command left"
            )


def complete_interrupted(stores: Stores) -> None:
    """Complete what a killed command has left; `stores.lag_message` says what cannot be completed now."""
    stores.catch_up_again()
    if stores.lag and stores.lag.has_purge:
        complete_purges(stores)
        stores.catch_up_again()


def find_same_purge(stores: Stores, selection: EpisodeSelection) -> Action | None:
    """The newest purge that was asked for in the same way, or None. Raises StoreError."""
    request = hash_episode_identity(stores.workspace_id, hash_request(selection))
    purges = read_history(stores.annotations).effective(("purge",))
    return next((action for action in reversed(purges) if action.details.get("request") == request), None)


def finish_purges(stores: Stores) -> list[PurgeReport]:
    """Complete the purges that a crash interrupted; the caller holds the write lock. Raises StoreError."""
    documents = dict(stores.annotations.find_documents(PURGES))
    reports = [
        _finish_purge(stores, token, cast("dict[str, Json]", header))
        for token, header in documents.items()
        if "/" not in token
    ]
    # Ids without a header: the purge was never begun.
    stores.annotations.drop_documents(PURGES, [key for key in documents if "/" in key])
    return reports


def _finish_purge(stores: Stores, token: str, header: dict[str, Json]) -> PurgeReport:
    annotations, rows, files = 0, 0, 0
    if header["phase"] == "delete":
        blocks = [key for key, _ in stores.annotations.find_documents(PURGES, f"{token}/")]
        ids = [
            episode_id
            for key in blocks
            for episode_id in cast("list[str]", stores.annotations.get_document(PURGES, key))
        ]
        add_tombstones(
            stores.annotations,
            [hash_episode_identity(stores.workspace_id, episode_id) for episode_id in ids],
            str(header["created"]),
        )
        # Written before anything is deleted: after a crash nothing in a table tells that it had rows.
        names = sorted({*cast("list[str]", header["tables"]), *tables_to_erase(stores, ids)})
        header = {**header, "tables": list[Json](names)}
        stores.annotations.put_documents(PURGES, {token: header})
        remove_ids_from_documents(stores, ids, read_source_locations(stores, ids))
        files = delete_episode_files(stores, ids)
        rows = delete_rows_of(stores, ids, names)
        drop_unused_contracts(stores)
        annotations = sum(stores.annotations.delete_episodes(chunk) for chunk in batched(ids, _BATCH))
        leave_duplicate_groups(stores, ids)
        action = _record_purge(stores, token, header)
        header = {**header, "phase": "erase", "action": action.number}
        stores.annotations.put_documents(PURGES, {token: header})
        stores.annotations.drop_documents(PURGES, blocks)
        stores.sync()  # applies the purge: of the episodes that are left, others may be the first of their content
    erase_deleted_table_rows(stores, cast("list[str]", header["tables"]))
    stores.annotations.erase_deleted()
    stores.annotations.drop_documents(PURGES, [token])
    return PurgeReport(
        action=int(str(header["action"])),
        episodes=int(str(header["count"])),
        annotations=annotations,
        rows=rows,
        files=files,
    )


def _record_purge(stores: Stores, token: str, header: dict[str, Json]) -> Action:
    """The action of a purge: recorded now, unless a crash came just after it was."""
    for action in read_history(stores.annotations).actions:
        if action.details.get("purge") == token:
            return action
    details: dict[str, Json] = {"purge": token, **({"note": header["note"]} if header["note"] else {})}
    if header.get("request"):
        details["request"] = hash_episode_identity(stores.workspace_id, str(header["request"]))
    return record_action(
        stores.annotations,
        "purge",
        str(header["person"]),
        count=int(str(header["count"])),
        details=details,
    )
