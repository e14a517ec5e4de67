"""What the actions that count say together: which episodes are removed, and the tags and notes of the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.store.actions.action import NOTE_KINDS
from ares.store.actions.history import ActionHistory, read_history, read_members
from ares.store.actions.tombstones import hash_identity, read_tombstones

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.annotations import AnnotationStore
    from ares.store.temp_db import TempDatabase

REMOVED_REASON = "removed earlier and not read again: `ares undo` brings it back"
PURGED_REASON = "deleted for good earlier and refused"
# The last action about an episode and a tag decides.
_TAGS = """
SELECT episode_id, list_sort(list(tag)) AS texts FROM (
    SELECT episode_id, tag FROM operations GROUP BY episode_id, tag HAVING arg_max(is_added, number)
) GROUP BY episode_id
"""
_NOTES = "SELECT episode_id, list(note ORDER BY number) AS texts FROM operations GROUP BY episode_id"


def removed_id_array(annotations: AnnotationStore, history: ActionHistory) -> pa.ChunkedArray:
    """Ids of the episodes that are removed, (N,) strings in Arrow: a quarter of the memory of Python strings."""
    import pyarrow as pa

    chunks = [
        pa.array(block, pa.string())
        for action in history.effective(("remove",))
        for block in read_members(annotations, action)
    ]
    return pa.chunked_array(chunks, pa.string())


def fold_tags(annotations: AnnotationStore, history: ActionHistory, database: TempDatabase) -> None:
    """Write the table "desired_texts" (episode_id, texts) of the temporary database: the tags, sorted."""
    import pyarrow as pa

    schema = pa.schema(
        [("episode_id", pa.string()), ("tag", pa.string()), ("number", pa.int64()), ("is_added", pa.bool_())]
    )
    database.insert("operations", schema, _tag_operations(annotations, history, schema))
    database.create_table_as("desired_texts", _TAGS)
    database.drop_tables("operations")


def fold_notes(annotations: AnnotationStore, history: ActionHistory, database: TempDatabase) -> None:
    """Write the table "desired_texts" (episode_id, texts) of the temporary database: the notes, oldest first."""
    import pyarrow as pa

    schema = pa.schema([("episode_id", pa.string()), ("note", pa.string()), ("number", pa.int64())])
    batches = (
        pa.record_batch(
            [
                pa.array(block, pa.string()),
                pa.array([str(action.details["note"])] * len(block), pa.string()),
                pa.array([action.number] * len(block), pa.int64()),
            ],
            schema=schema,
        )
        for action in history.effective(NOTE_KINDS)
        for block in read_members(annotations, action)
    )
    database.insert("operations", schema, batches)
    database.create_table_as("desired_texts", _NOTES)
    database.drop_tables("operations")


def _tag_operations(
    annotations: AnnotationStore, history: ActionHistory, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for action in history.effective(("tag", "untag")):
        for block in read_members(annotations, action):
            size = len(block)
            columns = [block, [action.tag] * size, [action.number] * size, [action.kind == "tag"] * size]
            arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
            yield pa.record_batch(arrays, schema=schema)


class RemovedIds:
    """Tells of an episode of a source whether it was removed or purged, so that it is not read again.

    Args:
        annotations: The log.
        workspace_id: The workspace, which the hashes of purged episodes belong to.
    """

    def __init__(self, annotations: AnnotationStore, workspace_id: str) -> None:
        removed = removed_id_array(annotations, read_history(annotations))
        self._ids = set(removed.to_pylist())
        self._purged_hashes = read_tombstones(annotations)
        self._workspace_id = workspace_id

    def reason(self, episode_id: str) -> str:
        """Why an episode is not read, or ""."""
        if episode_id in self._ids:
            return REMOVED_REASON
        if self._purged_hashes and hash_identity(self._workspace_id, episode_id) in self._purged_hashes:
            return PURGED_REASON
        return ""
