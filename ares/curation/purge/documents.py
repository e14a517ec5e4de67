"""Takes purged episodes out of every document of the log: members of sets and actions, failures, recipes, reports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ares.curation.sets import MEMBERS_COLLECTION, hash_ids
from ares.episode import Json
from ares.jobs import FAILURES
from ares.quality.contract import DatasetKey, drop_contracts
from ares.store.actions import ACTION_MEMBERS, ACTIONS, TOMBSTONES, action_key, read_history
from ares.store.filters import batched
from ares.store.sync import segment_id

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.store import Stores
    from ares.store.annotations import AnnotationStore

_BATCH, _ID = 1_000, re.compile(r"[0-9a-f]{16}")
_PURGED_TEXT = "(purged)"
_OWN_COLLECTIONS = {"purges", TOMBSTONES}


def scrub_documents(stores: Stores, ids: Sequence[str], sources: set[str]) -> None:
    """Take episodes out of all documents; repeating it after a crash changes nothing more.

    Args:
        stores: Stores of the workspace; the annotations of the episodes are still in its log.
        ids: The episodes.
        sources: Their locations in their sources, which reports of jobs may name.
    """
    log = stores.annotations
    scrubber = _Scrubber({*ids, *_subjects(log, ids)}, sources)
    log.drop_documents(
        FAILURES,
        [
            key
            for key, document in log.find_documents(FAILURES)
            if scrubber.names(key) or scrubber.names(document)
        ],
    )
    for collection in log.collections():
        if collection not in _OWN_COLLECTIONS:
            _scrub_collection(log, collection, scrubber)
    _correct_sets(log)
    _correct_actions(log)


def drop_unused_contracts(stores: Stores) -> None:
    """Delete the contracts of datasets that have no episode left; removed episodes count, as they can come back."""
    import pyarrow as pa

    columns = list(DatasetKey._fields)
    tables = (stores.tables.episodes, stores.tables.removed)
    drop_contracts(
        stores.annotations,
        {
            DatasetKey(**row)
            for table in tables
            for batch in table.scan(columns)
            for row in pa.table(batch.select(columns)).group_by(columns).aggregate([]).to_pylist()
        },
    )


def _subjects(log: AnnotationStore, ids: Sequence[str]) -> set[str]:
    """What work on the episodes may have failed for: their annotations and segments."""
    subjects: set[str] = set()
    for chunk in batched(ids, _BATCH):
        for annotation in log.find_annotations(chunk):
            subjects |= _names(annotation)
    return subjects


def _names(annotation: Annotation) -> set[str]:
    return {annotation.annotation_id, annotation.subject, segment_id(annotation)}


def _scrub_collection(log: AnnotationStore, collection: str, scrubber: _Scrubber) -> None:
    for key, document in log.find_documents(collection):
        if scrubber.names(key):
            log.drop_documents(collection, [key])
        elif scrubber.names(document):
            log.put_documents(collection, {key: scrubber.scrub(document)})


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
        blocks = (cast("list[str]", block) for _, block in log.find_documents(MEMBERS_COLLECTION, f"{key}/"))
        ids_hash, count = hash_ids(episode_id for block in blocks for episode_id in block)
        lost = int(str(header["episodes"])) - count
        if lost:
            purged = int(str(header.get("purged", 0))) + lost
            changed = {**header, "episodes": count, "ids_hash": ids_hash, "purged": purged}
            log.put_documents("sets", {key: changed})


def _correct_actions(log: AnnotationStore) -> None:
    """Let every action say how many of its members were purged."""
    for action in read_history(log).actions:
        if action.members:
            blocks = log.find_documents(ACTION_MEMBERS, f"{action.members}/")
            purged = action.count - sum(len(cast("list[Json]", block)) for _, block in blocks)
            if purged != action.purged:
                log.put_documents(
                    ACTIONS, {action_key(action.number): {**action.to_json(), "purged": purged}}
                )
