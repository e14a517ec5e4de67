"""Deletes episodes for good, from log, tables and files, in phases that can be repeated after a crash."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from ares.console import count_of, print_message, write_stderr
from ares.contract import DatasetKey, delete_contracts_except
from ares.curation.duplicate_groups import keep_duplicate_groups
from ares.curation.selection import SelectedEpisodes, hash_request, selected_ids
from ares.curation.sets import hash_members
from ares.episode import Json
from ares.errors import RequestError, StoreError
from ares.jobs import ACCEPTED_FAILURES, FAILURES, EpisodeSelection, utc_now
from ares.media import MEDIA_FOLDER
from ares.settings import user_name
from ares.store import (
    ACTION_MEMBERS,
    ACTIONS,
    MODEL_REPLIES,
    PURGES,
    SET_MEMBERS,
    SPENT_PREFIX,
    TOMBSTONES,
    Action,
    StagedIds,
    WorkspaceBusy,
    action_key,
    add_tombstones,
    batched,
    conjunction,
    hash_episode_identity,
    ids_filter,
    in_condition,
    lance_errors,
    quote_literal,
    read_history,
    record_action,
    recorded_columns,
    segment_id,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ares.annotation import Annotation
    from ares.store import AnnotationStore, Stores


# Documents that are held at once: a block of the members of a set has some hundred kilobytes.
_LOOKUP_BATCH, _DOCUMENT_BATCH, _ID = 1_000, 100, re.compile(r"[0-9a-f]{16}")
_PURGED_TEXT, _NEAR_DUPLICATES = "(purged)", "near_duplicates"
# Purges are documents: a header under its token, and the ids below it until every trace of them is deleted.
_KEPT_COLLECTIONS = {PURGES, TOMBSTONES}


def remove_ids_from_documents(stores: Stores, ids: Sequence[str], sources: set[str]) -> None:
    """Take episodes out of all documents, each read once; repeating it after a crash changes nothing more.

    Replies of models name no episode and may be about any: all of them go. A failure that names an episode goes, and so
    does what was made of an instruction that no other episode has. Other documents lose what names the episodes.

    Args:
        stores: Stores of the workspace; the annotations of the episodes are still in its log.
        ids: The episodes.
        sources: Their locations in their sources, which reports of jobs may name.
    """
    log, instructions = stores.annotations, _lost_instructions(stores, set(ids))
    scrubber = _Scrubber({*ids, *_subjects_of_episodes(log, ids)}, sources)
    for collection in sorted(set(log.collections()) - _KEPT_COLLECTIONS):
        for documents in batched(log.find_documents(collection), _DOCUMENT_BATCH):
            dropped, changed = list[str](), dict[str, Json]()
            for key, document in documents:
                is_reply = collection == MODEL_REPLIES and not key.startswith(SPENT_PREFIX)
                is_named = scrubber.names(document)
                task = document.get("task") if isinstance(document, dict) else None
                is_about_task = isinstance(task, str) and task in instructions
                is_failure = is_named and collection in (FAILURES, ACCEPTED_FAILURES)
                if is_reply or is_about_task or is_failure or scrubber.names(key):
                    dropped.append(key)
                elif is_named:
                    changed[key] = scrubber.scrub(document)
            log.drop_documents(collection, dropped)
            log.put_documents(collection, changed)
    _correct_sets(log)
    _correct_actions(log)
    escaped = {json.dumps(source)[1:-1] for source in sources}
    _delete_job_files(stores.folder / "jobs", _Scrubber(set(ids), sources | escaped))


def _delete_job_files(folder: Path, scrubber: _Scrubber) -> None:
    """Delete the files of the jobs of pages of which one names the episodes, and such files that were uploaded."""
    for path in [path for path in folder.rglob("*") if path.suffix != ".lock"]:
        if path.is_file():
            with path.open(encoding="utf-8", errors="replace") as lines:
                is_named = any(map(scrubber.names, lines))
            for job_file in folder.glob(f"{path.stem}.*") if path.parent == folder else [path]:
                if is_named and job_file.suffix != ".lock":  # a job that runs holds it
                    job_file.unlink()


def _lost_instructions(stores: Stores, ids: set[str]) -> set[str]:
    """The instructions of some episodes that no other episode has, recorded ones included."""
    lost: set[str] = set()
    kept: set[str] = set()
    episodes, removed = stores.tables.episodes, stores.tables.removed
    for scan, existing in ((episodes.scan, episodes.columns()), (removed.scan, removed.column_names())):
        texts = recorded_columns(existing, "instruction")
        for batch in scan(["episode_id", *texts]) if texts else ():
            columns = (batch[name].to_pylist() for name in ("episode_id", *texts))
            for episode_id, *stated in zip(*columns, strict=True):
                (lost if episode_id in ids else kept).update(filter(None, stated))
    return lost - kept


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


def _subjects_of_episodes(log: AnnotationStore, ids: Sequence[str]) -> set[str]:
    """What work on the episodes may have failed for: their annotations and segments."""
    subjects: set[str] = set()
    for chunk in batched(ids, _LOOKUP_BATCH):
        for annotation in log.find_annotations(chunk):
            subjects |= _ids_of_annotation(annotation)
    return subjects


def _ids_of_annotation(annotation: Annotation) -> set[str]:
    return {annotation.annotation_id, annotation.subject, segment_id(annotation)}


class _Scrubber:
    """Replaces what names purged episodes.

    Args:
        ids: Ids of the episodes, their annotations and segments.
        sources: Locations of the episodes in their sources.
    """

    def __init__(self, ids: set[str], sources: set[str]) -> None:
        self._ids, self._sources = ids, sorted(sources - {""})

    def names(self, value: Json) -> bool:
        """Whether a value contains the name of a purged episode."""
        if isinstance(value, str):
            return any(match in self._ids for match in _ID.findall(value)) or any(
                source in value for source in self._sources
            )
        if isinstance(value, Mapping):
            return any(self.names(key) or self.names(item) for key, item in value.items())
        return isinstance(value, list | tuple) and any(self.names(item) for item in value)

    def scrub(self, value: Json) -> Json:
        """The value without them: items of lists and entries are left out, parts of texts are replaced."""
        if isinstance(value, str):
            return self._scrub_text(value)
        if isinstance(value, Mapping):
            return {key: self.scrub(item) for key, item in value.items() if not self.names(key)}
        if isinstance(value, list | tuple):
            return [self.scrub(item) for item in value if not self._is_entry(item)]
        return value

    def _is_entry(self, item: Json) -> bool:
        """Whether an item of a list stands for a purged episode: an id, or a failure with its key."""
        if isinstance(item, list | tuple):
            return len(item) == 2 and self.names(item)
        return isinstance(item, str) and self.names(item)

    def _scrub_text(self, text: str) -> str:
        for source in self._sources:
            text = text.replace(source, _PURGED_TEXT)
        return _ID.sub(lambda match: _PURGED_TEXT if match[0] in self._ids else match[0], text)


def _correct_sets(log: AnnotationStore) -> None:
    """Let every set have the count and the hash of the members that are left."""
    for key, document in log.find_documents("sets"):
        header = cast("dict[str, Json]", document)
        blocks = (cast("list[str]", block) for _, block in log.find_documents(SET_MEMBERS, f"{key}/"))
        ids_hash, episodes, count = hash_members(member for block in blocks for member in block)
        lost = int(str(header.get("spans", header["episodes"]))) - count
        if lost:
            purged = int(str(header.get("purged", 0))) + lost
            changed = {**header, "episodes": episodes, "ids_hash": ids_hash, "purged": purged}
            if "spans" in header:
                changed["spans"] = count
            if not count:  # how they were selected may hold words of theirs
                changed["recipe"] = {}
            log.put_documents("sets", {key: changed})


def _correct_actions(log: AnnotationStore) -> None:
    """Let every action say how many of its members were purged."""
    for action in read_history(log).actions:
        if action.members:
            blocks = log.find_documents(ACTION_MEMBERS, f"{action.members}/")
            purged = action.count - sum(len(cast("list[Json]", block)) for _, block in blocks)
            if purged != action.purged:
                changed = {**action.to_json(), "purged": purged}
                if purged == action.count:  # what was said of them, and how they were selected
                    changed["details"] = _without_words(action.details)
                log.put_documents(ACTIONS, {action_key(action.number): changed})


def _without_words(details: Mapping[str, Json]) -> dict[str, Json]:
    """The details of an action without its note and its recipe."""
    replaced: dict[str, Json] = {"note": _PURGED_TEXT, "recipe": {}}
    return {name: replaced.get(name, value) for name, value in details.items()}


def leave_duplicate_groups(stores: Stores, ids: Sequence[str]) -> None:
    """Let what is kept of near duplicates name some episodes no more: the others of a group stay in it."""
    log, scrubber = stores.annotations, _Scrubber(set(ids), set())
    old = [
        annotation.annotation_id
        for chunk in batched(log.find_episodes(_NEAR_DUPLICATES), _LOOKUP_BATCH)
        for annotation in log.find_annotations(chunk, [_NEAR_DUPLICATES])
        if scrubber.names(annotation.value)
    ]
    if old:
        keep_duplicate_groups(stores, ())
        log.delete_annotations(old)


def delete_episode_files(stores: Stores, ids: Sequence[str]) -> int:
    """Delete the copied videos of episodes and the whole cache, which names no episode and is derived again.

    Returns:
        Number of folders of copied videos.
    """
    count, media = 0, stores.folder / MEDIA_FOLDER
    for episode_id in ids:
        for name in (episode_id, f"{episode_id}.tmp"):
            folder = media / episode_id[:2] / name
            if folder.is_dir():
                shutil.rmtree(folder)
                count += 1
        shard = media / episode_id[:2]
        if shard.is_dir() and not any(shard.iterdir()):
            shard.rmdir()
    shutil.rmtree(stores.folder / "cache", ignore_errors=True)
    return count


_BATCH = 10_000
# Old versions of these may have rows of an episode that was removed, or captioned again, before it was purged.
_ALWAYS = ("episodes", "removed_episodes", "segments", "trajectories")


def read_source_locations(stores: Stores, ids: Sequence[str]) -> set[str]:
    """The locations in their sources of some episodes, removed ones included."""
    sources: set[str] = set()
    for chunk in batched(ids, _BATCH):
        where = ids_filter(chunk)
        for batch in (
            *stores.tables.episodes.scan(["source"], where),
            *stores.tables.removed.scan(["source"], where),
        ):
            sources.update(batch["source"].to_pylist())
    return sources


def tables_to_erase(stores: Stores, ids: Sequence[str]) -> list[str]:
    """Names of the tables that have, or may have had, rows about some episodes."""
    texts = [f"texts_{space}" for space in stores.tables.text_spaces()]
    names = stores.tables.connection.table_names()
    return [name for name in names if name in _ALWAYS or name in texts or _has_rows(stores, name, ids)]


def _has_rows(stores: Stores, name: str, ids: Sequence[str]) -> bool:
    dataset = stores.tables.connection.newest_version(name)
    if "episode_id" not in dataset.schema.names:
        return False
    with lance_errors(name):
        return any(dataset.count_rows(in_condition("episode_id", chunk)) for chunk in batched(ids, _BATCH))


def delete_rows_of(stores: Stores, ids: Sequence[str], names: Sequence[str]) -> int:
    """Delete the rows of episodes from some tables, and texts that nothing has any more. Returns the number of rows."""
    connection, deleted = stores.tables.connection, 0
    for name in names:
        if "episode_id" in connection.newest_version(name).schema.names:
            before = connection.newest_version(name).count_rows()
            stores.tables.delete_episodes(name, ids)
            deleted += before - connection.newest_version(name).count_rows()
    for space in stores.tables.text_spaces():
        deleted += stores.tables.texts(space).delete_unused(_removed_texts(stores))
    return int(deleted)


def _removed_texts(stores: Stores) -> list[str]:
    """Texts of removed episodes: their vectors are needed when the episodes are brought back."""
    rows = stores.tables.removed.scan(["instruction"])
    return [text for batch in rows for text in batch["instruction"].to_pylist()]


def erase_deleted_table_rows(stores: Stores, names: Sequence[str]) -> None:
    """Write tables again without deleted rows, build their indexes again and delete all their older versions.

    Queries of other processes that began before may fail: what they read is deleted.
    """
    stores.tables.erase_deleted(names)
    stores.tables.optimize(names)
    stores.tables.refresh_indexes(write_stderr)
    stores.tables.drop_old_versions(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeReport:
    """What a purge has deleted; after a crash in between, what was left to delete.

    Attributes:
        action: Number of the action in the log, which names no episode.
        episodes: Episodes.
        annotations: Annotations.
        rows: Rows of all tables: episodes, signals, segments and vectors.
        files: Folders of copied videos.
        request: Hash of how the episodes were selected, which may hold words of theirs; "" where that is not known.
    """

    action: int
    episodes: int
    annotations: int
    rows: int
    files: int
    request: str = ""

    def to_json(self) -> dict[str, Json]:
        """The counts as JSON."""
        return {name: value for name, value in asdict(self).items() if name != "request"}


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


def complete_purges(stores: Stores) -> list[PurgeReport]:
    """Complete the purges that were interrupted, unless another job writes; an error leaves them as they are."""
    try:
        with stores.write_lock("ares remove --purge", wait=False):
            reports = finish_purges(stores)
    except WorkspaceBusy:
        return []
    except (StoreError, OSError):
        return []  # whoever reads the tables is told of it
    for report in reports:
        print_message(
            f"completed a purge of {count_of(report.episodes, 'episode')}, which an interrupted command left"
        )
    return reports


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
        request=str(header.get("request", "")),
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
